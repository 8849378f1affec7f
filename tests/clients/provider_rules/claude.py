"""Facts about Claude models that hold on every host."""

import re

VERSION = re.compile(r"claude-(?:opus|sonnet|haiku|fable|mythos)-(\d+)(?:[-.](\d{1,2}))?(?!\d)")
# From this version on a conversation must not end in an assistant turn.
NO_PREFILL_FROM = (4, 6)

PREFILL_MESSAGE = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)


def refuses_prefill(model):
    """Source: Tarquinen/opencode-dynamic-context-pruning#520, ericc-ch/copilot-api#261, vybestack/llxprt-code#3695."""
    found = VERSION.search(model)
    return bool(found) and (int(found[1]), int(found[2] or 0)) >= NO_PREFILL_FROM
