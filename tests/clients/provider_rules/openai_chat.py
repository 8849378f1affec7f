"""Chat Completions: the rules of OpenAI, which all that speak this format share. Each family adds its own."""

import json
from collections import Counter
from typing import NamedTuple

from . import chat_families
from .chat_families import calls_of
from .rules import dicts, not_objects, quoted, wrong_types

ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
)


class Group(NamedTuple):
    """A message that is no tool message, and the tool messages right after it."""

    at: int
    message: dict
    results: list


def groups(messages):
    """All messages in order. Tool messages before any other stand after a message that is not there."""
    group = Group(-1, {"role": "none"}, [])
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            group.results.append((at, message))
        else:
            yield group
            group = Group(at, message, [])
    yield group


def malformed(request):
    """Source: schema of ChatCompletionMessageParam."""
    messages = request.body.get("messages")
    yield from not_objects(messages, "messages")
    for at, message in enumerate(dicts(messages)):
        yield from malformed_message(message, f"messages[{at}]")


def malformed_message(message, name):
    """What keeps one message from being read."""
    yield from wrong_types(
        message, name, {"role": str, **({"tool_call_id": str} if message.get("role") == "tool" else {})}
    )
    if not isinstance(message.get("content"), (str, list, type(None))):
        yield f"Invalid type for '{name}.content'."
    if isinstance(message.get("content"), list):
        yield from not_objects(message["content"], f"{name}.content")
    if message.get("tool_calls") is not None:
        yield from not_objects(message["tool_calls"], f"{name}.tool_calls")
        for at, call in enumerate(dicts(message["tool_calls"])):
            yield from malformed_call(call, f"{name}.tool_calls[{at}]")
    if message.get("function_call") is not None and not isinstance(message["function_call"], dict):
        yield f"Invalid type for '{name}.function_call': expected an object."


def malformed_call(call, name):
    """A call has an id and either a function or a custom tool; arguments and input are text."""
    custom = call.get("type") == "custom"
    kind, text = ("custom", "input") if custom else ("function", "arguments")
    yield from wrong_types(call, name, {"id": str, kind: dict})
    if isinstance(call.get(kind), dict):
        yield from wrong_types(call[kind], f"{name}.{kind}", {"name": str, text: str})


def messages_empty(request):
    """Source: CopilotKit/CopilotKit#529."""
    if not request.body["messages"]:
        yield (
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )


def unknown_role(request):
    """Source: schema."""
    for at, message in enumerate(request.body["messages"]):
        if message["role"] not in ROLES:
            yield (
                f"Invalid value: '{message['role']}'. Supported values are: {quoted(sorted(ROLES))}."
                f" (messages[{at}].role)"
            )


def content_null(request):
    """Only an assistant message with calls, a refusal or audio may lack content. Source: songquanpeng/one-api#784,
    docker/docker-agent#63; the schema requires it on tool messages and lets the old function message hold null."""
    for at, message in enumerate(request.body["messages"]):
        excused = any(message.get(key) is not None for key in ("tool_calls", "function_call", "refusal", "audio"))
        if (message["role"] == "assistant" and excused) or message["role"] == "function":
            continue
        if message.get("content") is None:
            yield f"Invalid value for 'content': expected a string, got null. (messages.[{at}].content)"


def content_empty_array(request):
    """An array of parts has at least one. Source: schema; the wording is that of other empty arrays."""
    for at, message in enumerate(request.body["messages"]):
        if message.get("content") == []:
            yield f"Invalid 'messages[{at}].content': empty array. Expected an array with minimum length 1."


def tool_calls_empty(request):
    """Source: openai/openai-python#2061, openai/openai-node#1341."""
    for at, message in enumerate(request.body["messages"]):
        if message.get("tool_calls") == []:
            yield (
                f"Invalid 'messages[{at}].tool_calls': empty array. Expected an array with minimum length 1,"
                " but got an empty array instead."
            )


def call_unanswered(request):
    """Every call is answered before any other message comes. Source: agno-agi/agno#3105, BerriAI/litellm#10083."""
    for group in groups(request.body["messages"]):
        open_calls = Counter(call["id"] for call in calls_of(group.message))
        open_calls.subtract(result["tool_call_id"] for _, result in group.results)
        missing = [call for call, count in open_calls.items() if count > 0]
        if missing:
            yield (
                f"{UNANSWERED} The following tool_call_ids did not have response messages: {quoted(missing)}"
                f" (messages.[{group.at}].role)"
            )


def result_orphan(request):
    """A result answers a call of the assistant message it follows. Source: microsoft/semantic-kernel#12708,
    BerriAI/litellm#4931, microsoft/autogen#3178."""
    for group in groups(request.body["messages"]):
        known = {call["id"] for call in calls_of(group.message)}
        for at, result in group.results:
            if result["tool_call_id"] not in known:
                yield (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message"
                    f" with 'tool_calls'. (messages.[{at}].role, {result['tool_call_id']})"
                )


def result_twice(request):
    """A call has one result. Source: agno-agi/agno#5116, anomalyco/opencode#1211."""
    for group in groups(request.body["messages"]):
        seen = {}
        for at, result in group.results:
            found = result["tool_call_id"]
            if found in seen:
                yield (
                    f"Invalid parameter: Duplicate value for 'tool_call_id' of '{found}', in"
                    f" messages[{seen[found]}] and messages[{at}]."
                )
            seen[found] = at


def function_unanswered(request):
    """The old call without an id is answered by the next message. Source: schema of the deprecated function_call."""
    messages = request.body["messages"]
    for at, message in enumerate(messages):
        called = message.get("function_call") if message["role"] == "assistant" else None
        after = messages[at + 1] if at + 1 < len(messages) else {}
        if called and (after.get("role") != "function" or after.get("name") != called.get("name")):
            yield (
                "An assistant message with 'function_call' must be followed by a function message for"
                f" '{called.get('name')}'. (messages.[{at}])"
            )


def function_orphan(request):
    """The old result follows the call of the same name. Source: schema of the deprecated function message."""
    before = {}
    for at, message in enumerate(request.body["messages"]):
        if message["role"] == "function" and (before.get("function_call") or {}).get("name") != message.get("name"):
            yield (
                "Invalid parameter: messages with role 'function' must be a response to a preceeding message"
                f" with 'function_call'. (messages.[{at}].role)"
            )
        before = message


def tools_empty(request):
    """Source: runebookai/tome#87."""
    if request.body.get("tools") == []:
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."


def arguments_not_json(request):
    """Templates are given the arguments as an object. Source: vLLM's _postprocess_messages."""
    for at, message in enumerate(request.body["messages"]):
        for call in calls_of(message):
            if "function" in call and not parses(call["function"]["arguments"]):
                yield f"messages[{at}]: the arguments of tool call {call['id']} are not valid JSON."


def parses(text):
    """Whether a text is JSON; none at all stands for no arguments."""
    try:
        json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return True


SHARED = [
    messages_empty,
    unknown_role,
    content_null,
    tool_calls_empty,
    call_unanswered,
    result_orphan,
    result_twice,
    function_unanswered,
    function_orphan,
    tools_empty,
]
OF_FAMILIES = {
    "openai": [content_empty_array],
    "template": [arguments_not_json, content_empty_array],
    "other": [content_empty_array],
}
RULES = SHARED + [content_empty_array, arguments_not_json] + chat_families.RULES


def rules_for(model):
    """What everyone asks for, and what the model's family asks for besides."""
    family = chat_families.family_of(model)
    return SHARED + OF_FAMILIES.get(family.name, []) + family.rules
