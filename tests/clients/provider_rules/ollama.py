"""Ollama's own chat: the server checks types only, so most rules say what a sound conversation looks like. Calls have
no ids; results answer them by their number."""

from .rules import dicts, not_objects, type_name, wrong_types

ROLES = {"system", "user", "assistant", "tool"}


def calls_of(message):
    """The functions that a message calls."""
    return [call["function"] for call in dicts(message.get("tool_calls"))]


def malformed(request):
    """Source: schema of api.ChatRequest."""
    messages = request.body.get("messages")
    yield from not_objects(messages, "messages")
    for at, message in enumerate(dicts(messages)):
        yield from wrong_types(message, f"messages[{at}]", {"role": str})
        if message.get("tool_calls") is not None:
            yield from not_objects(message["tool_calls"], f"messages[{at}].tool_calls")
        for call in dicts(message.get("tool_calls")):
            yield from wrong_types(call, f"messages[{at}].tool_calls", {"function": dict})
            if isinstance(call.get("function"), dict):
                yield from wrong_types(call["function"], f"messages[{at}].tool_calls.function", {"name": str})


def unknown_role(request):
    """Source: schema."""
    for at, message in enumerate(request.body["messages"]):
        if message["role"] not in ROLES:
            yield f"invalid role: {message['role']} (messages[{at}])"


def messages_empty(request):
    """The server only loads the model then, which no conversation asks for."""
    if not request.body["messages"]:
        yield "messages is empty"


def content_no_string(request):
    """Source: schema; a message without content is one with calls."""
    for at, message in enumerate(request.body["messages"]):
        content = message.get("content", "" if message.get("tool_calls") else None)
        if not isinstance(content, str):
            yield (
                f"json: cannot unmarshal {type_name(content)} into Go struct field"
                f" ChatRequest.messages.content of type string (messages[{at}])"
            )


def arguments_no_object(request):
    """Source: schema of ToolCallFunctionArguments."""
    for at, message in enumerate(request.body["messages"]):
        for call in calls_of(message):
            if not isinstance(call.get("arguments"), dict):
                yield (
                    f"json: cannot unmarshal {type_name(call.get('arguments'))} into Go struct field"
                    f" ToolCallFunction.arguments (messages[{at}])"
                )


def tool_calls_empty(request):
    """The server takes it; a client leaves the key out."""
    for at, message in enumerate(request.body["messages"]):
        if message.get("tool_calls") == []:
            yield f"messages[{at}].tool_calls is empty"


def groups(request):
    """Each message that is no tool message, with its index and the tool messages right after it."""
    at, message, results = -1, {"role": "none"}, []
    for index, following in enumerate(request.body["messages"]):
        if following["role"] == "tool":
            results.append(following)
        else:
            yield at, message, results
            at, message, results = index, following, []
    yield at, message, results


def tool_without_call(request):
    """Templates show a result as the answer to the call before it."""
    for at, message, results in groups(request):
        if results and not calls_of(message):
            yield f"messages[{at + 1}] has the role tool, and no call came before it"


def counts_differ(request):
    """Results answer calls by their number, so none may be missing and none be left over."""
    for at, message, results in groups(request):
        called = len(calls_of(message))
        if called and called != len(results):
            yield f"messages[{at}] has {called} calls, and {len(results)} tool messages follow"


def name_differs(request):
    """Source: schema; `tool_name` says whose result it is."""
    for at, message, results in groups(request):
        names = {call.get("name") for call in calls_of(message)}
        for result in results:
            if names and result.get("tool_name") and result["tool_name"] not in names:
                yield f"messages[{at}] does not call {result['tool_name']}"


RULES = [
    unknown_role,
    messages_empty,
    content_no_string,
    arguments_no_object,
    tool_calls_empty,
    tool_without_call,
    counts_differ,
    name_differs,
]
