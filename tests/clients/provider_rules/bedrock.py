"""Converse: the rules of Bedrock. What a single family refuses is said at the rule."""

import re
from collections import Counter

from . import claude
from .rules import blank, dicts, not_objects, quoted, wrong_types

TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
# Families that take prose beside results. For Nova a recorded request shows it.
MIXED_TURNS = re.compile(r"claude|nova", re.IGNORECASE)


def tool_uses(message):
    """The calls of a message for the client; tools of the provider are answered by itself."""
    uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    return [use for use in uses if use.get("type") != "server_tool_use"]


def tool_results(message):
    """The results in a message of the user."""
    return [block["toolResult"] for block in message["content"] if "toolResult" in block] * (message["role"] == "user")


def steps(request):
    """Each message with its index and the one before it; before the first and after the last stands an empty one."""
    nobody = {"role": "none", "content": []}
    messages = request.body["messages"]
    return zip(range(len(messages) + 1), [nobody] + messages, messages + [nobody])


def each_block(request):
    """All blocks with their place."""
    for at, message in enumerate(request.body["messages"]):
        for index, block in enumerate(message["content"]):
            yield f"messages.{at}.content.{index}", block


def malformed(request):
    """Source: the service model of bedrock-runtime."""
    messages = request.body.get("messages")
    yield from not_objects(messages, "messages")
    for at, message in enumerate(dicts(messages)):
        yield from wrong_types(message, f"messages.{at}", {"role": str, "content": list})
        if isinstance(message.get("content"), list):
            yield from not_objects(message["content"], f"messages.{at}.content")
        for index, block in enumerate(dicts(message.get("content"))):
            yield from malformed_block(block, f"messages.{at}.content.{index}")


def malformed_block(block, name):
    """What keeps one block from being read."""
    required = {
        "toolUse": {"toolUseId": str, "name": str, "input": (dict, list, str)},
        "toolResult": {"toolUseId": str, "content": list},
    }
    if not block:
        yield f"The content field at {name} must hold exactly one member."
    if "text" in block and not isinstance(block["text"], str):
        yield f"{name}.text: expected a string."
    for key, types in required.items():
        if key in block and isinstance(block[key], dict):
            yield from wrong_types(block[key], f"{name}.{key}", types)
        elif key in block:
            yield f"{name}.{key}: expected an object."


def messages_empty(request):
    """Source: the API's answer to no conversation at all; it must start with a user's message."""
    if not request.body["messages"]:
        yield "The value at messages is empty. A conversation must start with a user message."


def unknown_role(request):
    """Source: service model, ConversationRole."""
    for at, message in enumerate(request.body["messages"]):
        if message["role"] not in {"user", "assistant"}:
            yield (
                f"Value '{message['role']}' at 'messages.{at + 1}.member.role' failed to satisfy constraint:"
                " [user, assistant]"
            )


def first_not_user(request):
    """Source: langgenius/dify#12340."""
    if request.body["messages"] and request.body["messages"][0]["role"] != "user":
        yield (
            "A conversation must start with a user message. Try again with a conversation that starts with a"
            " user message."
        )


def roles_do_not_alternate(request):
    """Source: langchain-ai/langchain-aws#192 and #130."""
    for at, before, message in steps(request):
        if before["role"] == message["role"] != "none":
            yield f"A conversation must alternate between user and assistant roles. (messages.{at})"


def ends_in_assistant(request):
    """Source: see `claude`."""
    messages = request.body["messages"]
    if messages and messages[-1]["role"] == "assistant" and claude.refuses_prefill(request.model):
        yield claude.PREFILL_MESSAGE


def content_empty(request):
    """Source: badlogic/pi-mono, which skips such messages because they are refused."""
    for at, message in enumerate(request.body["messages"]):
        if not message["content"]:
            yield (
                f"The content field in the Message object at messages.{at} is empty. Add a ContentBlock"
                " object to the content field and try again."
            )


def text_blank(request):
    """Several families refuse white space alone. Source: pydantic-ai, which leaves such blocks out."""
    for place, block in each_block(request):
        if "text" in block and blank(block["text"]):
            yield (
                f"The text field in the ContentBlock object at {place} is blank. Add text to the text field,"
                " and try again."
            )


def result_missing(request):
    """Source: camel-ai/camel#3954, genkit-ai/aws-bedrock-js-plugin#664."""
    for at, before, message in steps(request):
        answered = {result["toolUseId"] for result in tool_results(message)}
        missing = [use["toolUseId"] for use in tool_uses(before) if use["toolUseId"] not in answered]
        if missing:
            yield f"Expected toolResult blocks at messages.{at}.content for the following Ids: {quoted(missing)}"


def result_extra(request):
    """Source: strands-agents/sdk-python#1435, pydantic/pydantic-ai#2327."""
    for at, before, message in steps(request):
        known = {use["toolUseId"] for use in tool_uses(before)}
        extra = [result["toolUseId"] for result in tool_results(message) if result["toolUseId"] not in known]
        if extra:
            yield (
                f"The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse"
                f" blocks of previous turn. ({quoted(extra)})"
            )


def server_pair_broken(request):
    """Calls of the provider's own tools and their results stand in the model's messages; only a message at the end may
    wait for a result. Source: the service model; the wording is that of results from the client."""
    assistants = [message["content"] for message in request.body["messages"] if message["role"] == "assistant"]
    blocks = [block for content in assistants for block in content]
    uses = [block["toolUse"] for block in blocks if block.get("toolUse", {}).get("type") == "server_tool_use"]
    used = {use["toolUseId"] for use in uses}
    answered = {block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block}
    last = request.body["messages"][-1:]
    waiting = {block["toolUse"]["toolUseId"] for message in last for block in message["content"] if "toolUse" in block}
    if answered - used:
        yield f"toolResult blocks without a server tool's toolUse block: {quoted(sorted(answered - used))}"
    if used - answered - waiting:
        yield f"Expected toolResult blocks for the following Ids: {quoted(sorted(used - answered - waiting))}"


def id_twice(request):
    """Ids differ within one message. Source: the API refuses `duplicate Ids`; its exact words are not known."""
    for at, message in enumerate(request.body["messages"]):
        for kind, found in (("toolUse", tool_uses(message)), ("toolResult", tool_results(message))):
            counts = Counter(block["toolUseId"] for block in found)
            twice = [i for i, count in counts.items() if count > 1]
            if twice:
                yield f"The {kind} blocks at messages.{at}.content contain duplicate Ids: {quoted(twice)}"


def tool_use_id_invalid(request):
    """Source: service model, ToolUseId."""
    for place, block in each_block(request):
        for kind in ("toolUse", "toolResult"):
            if kind in block and not TOOL_USE_ID.fullmatch(block[kind]["toolUseId"]):
                yield (
                    f"Value '{block[kind]['toolUseId']}' at {place}.{kind}.toolUseId failed to satisfy"
                    " constraint: [a-zA-Z0-9_.:-]+ of at most 64"
                )


def error_result_empty(request):
    """Source: aws-samples/sample-multi-agent-collaboration-with-strands#15."""
    for place, block in each_block(request):
        result = block.get("toolResult", {})
        if result.get("status") == "error" and not any(item.get("text") != "" for item in dicts(result["content"])):
            yield f"The content field at {place}.toolResult cannot be empty when status value is error."


def prose_beside_results(request):
    """Source: strands-agents/sdk-python#1223 (Llama 4), langchain-ai/langchain-aws#141."""
    if MIXED_TURNS.search(request.model):
        return
    for at, message in enumerate(request.body["messages"]):
        prose = any("toolResult" not in block and "cachePoint" not in block for block in message["content"])
        if tool_results(message) and prose:
            yield f"Conversation blocks and tool result blocks cannot be provided in the same turn. (messages.{at})"


def cache_point_misplaced(request):
    """Never first, nor after another one, nor after a document or a video. Source: pydantic-ai, where it
    places them."""
    for at, message in enumerate(request.body["messages"]):
        for before, block in zip([None] + message["content"], message["content"]):
            if "cachePoint" in block and (before is None or {"cachePoint", "document", "video"} & set(before)):
                after = "nothing" if before is None else next(iter(before))
                yield f"messages.{at}: a cachePoint must not come after {after}"


def document_alone(request):
    """Source: the API's reference of Message."""
    for at, message in enumerate(request.body["messages"]):
        kinds = {key for block in message["content"] for key in block}
        if "document" in kinds and "text" not in kinds:
            yield f"A text content block is required beside the document at messages.{at}.content."


def tool_config_missing(request):
    """Source: langgenius/dify#17545, vercel/ai#7537."""
    used = any("toolUse" in block or "toolResult" in block for _, block in each_block(request))
    if used and not (request.body.get("toolConfig") or {}).get("tools"):
        yield "The toolConfig field must be defined when using toolUse and toolResult content blocks."


def reasoning_missing(request):
    """With thinking on, the last of Claude's messages with a call starts with reasoning. Source: the wording is
    Anthropic's; sst/opencode#3077."""
    fields = request.body.get("additionalModelRequestFields")
    thinking = fields.get("thinking") if isinstance(fields, dict) else None
    assistants = [message for message in request.body["messages"] if message["role"] == "assistant"]
    if (
        not isinstance(thinking, dict)
        or thinking.get("type") != "enabled"
        or not assistants
        or not tool_uses(assistants[-1])
    ):
        return
    started = [m for m in assistants if m["content"] and "reasoningContent" in m["content"][0]]
    if not started or (started[-1] is not assistants[-1] and not follows(request, started[-1])):
        yield (
            "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a"
            " final `assistant` message must start with a thinking block."
        )


def follows(request, message):
    """Whether only results, and no words of the user, came after a message."""
    messages = request.body["messages"]
    at = next(index for index, other in enumerate(messages) if other is message)
    return all(
        "toolResult" in b or "cachePoint" in b for m in messages[at:] if m["role"] == "user" for b in m["content"]
    )


RULES = [
    messages_empty,
    unknown_role,
    first_not_user,
    roles_do_not_alternate,
    ends_in_assistant,
    content_empty,
    text_blank,
    result_missing,
    result_extra,
    server_pair_broken,
    id_twice,
    tool_use_id_invalid,
    error_result_empty,
    prose_beside_results,
    cache_point_misplaced,
    document_alone,
    tool_config_missing,
    reasoning_missing,
]
