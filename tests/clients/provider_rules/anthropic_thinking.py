"""Anthropic's rules about thinking."""

from .anthropic_turns import blocks_of, turns

THINKING = {"thinking", "redacted_thinking"}


def kinds(turn):
    """The types of a turn's blocks."""
    return [block["type"] for _, _, block in turn.blocks]


def current_loop(request):
    """The assistant turns since the user last wrote something that is not only results."""
    loop = []
    for turn in turns(request):
        if turn.role == "assistant" and turn.blocks:
            loop.append(turn)
        elif turn.role == "user" and any(kind != "tool_result" for kind in kinds(turn)):
            # Words beside the results of a call do not end its loop.
            loop = loop[-1:] if "tool_result" in kinds(turn) else []
    return loop


def mode(request):
    """How thinking is set: a type's name, or none."""
    thinking = request.body.get("thinking")
    return thinking.get("type") if isinstance(thinking, dict) else None


def thinking_missing(request):
    """With thinking on, a loop of calls starts with thinking. A later step of it may have none, for models think
    between steps only when asked. Source: sst/opencode#3077, Kilo-Org/kilocode#5219."""
    loop = current_loop(request)
    if mode(request) != "enabled" or not loop or "tool_use" not in kinds(loop[-1]):
        return
    if kinds(loop[0])[0] not in THINKING and kinds(loop[-1])[0] not in THINKING:
        yield (
            f"messages.{loop[-1].at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
            f" `{kinds(loop[-1])[0]}`."
            " When `thinking` is enabled, a final `assistant` message must start with a thinking block"
            " (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )


def thinking_while_disabled(request):
    """Source: antinomyhq/forgecode#1853."""
    last = (turns(request) or [None])[-1]
    if mode(request) == "disabled" and last and last.role == "assistant" and THINKING & set(kinds(last)):
        yield "When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`."


def thinking_unsigned(request):
    """Source: schema; signature and data are required. Other makers' endpoints of this form give none."""
    if request.model and "claude" not in request.model:
        return
    for at, message in enumerate(request.body["messages"]):
        for index, block in enumerate(blocks_of(message)):
            required = {"thinking": ["thinking", "signature"], "redacted_thinking": ["data"]}.get(block["type"], [])
            for key in required:
                if not isinstance(block.get(key), str):
                    yield f"messages.{at}.content.{index}.{block['type']}.{key}: Field required"


def thinking_last(request):
    """Thinking leads to something; what is left of a message whose calls went is refused. Source:
    tailcallhq/forgecode#2107."""
    for at, message in enumerate(request.body["messages"]):
        blocks = blocks_of(message)
        if message["role"] == "assistant" and blocks and blocks[-1]["type"] in THINKING:
            yield f"messages.{at}: The final block in an assistant message cannot be `thinking`."


RULES = [thinking_missing, thinking_while_disabled, thinking_unsigned, thinking_last]
