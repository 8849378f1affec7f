"""Chat, version 2: the rules of Cohere. Pairing is worded as at OpenAI; Command R let some of it pass."""

from .rules import blank, dicts, not_objects, quoted, wrong_types

ROLES = {"system", "user", "assistant", "tool"}
UNANSWERED = (
    "invalid request: An assistant message with 'tool_calls' must be followed by tool messages"
    " responding to each 'tool_call_id'."
)


def calls_of(message):
    """The tool calls of a message."""
    return dicts(message.get("tool_calls"))


def malformed(request):
    """Source: specification of the chat endpoint."""
    messages = request.body.get("messages")
    yield from not_objects(messages, "messages")
    for at, message in enumerate(dicts(messages)):
        expected = {"role": str, **({"tool_call_id": str} if message.get("role") == "tool" else {})}
        yield from wrong_types(message, f"messages[{at}]", expected)
        if isinstance(message.get("content"), list):
            yield from not_objects(message["content"], f"messages[{at}].content")
        if message.get("tool_calls") is not None:
            yield from not_objects(message["tool_calls"], f"messages[{at}].tool_calls")
        for call in calls_of(message):
            yield from wrong_types(call, f"messages[{at}].tool_calls", {"id": str, "function": dict})


def messages_empty(request):
    """Source: specification."""
    if not request.body["messages"]:
        yield "invalid request: messages must contain at least one message"


def unknown_role(request):
    """Source: specification."""
    for at, message in enumerate(request.body["messages"]):
        if message["role"] not in ROLES:
            yield f"invalid request: invalid role '{message['role']}' at messages[{at}]"


def groups(request):
    """Each message that is no tool message, with its index and the tool messages right after it."""
    at, message, results = -1, {}, []
    for index, following in enumerate(request.body["messages"]):
        if following["role"] == "tool":
            results.append(following)
        else:
            yield at, message, results
            at, message, results = index, following, []
    yield at, message, results


def call_unanswered(request):
    """Source: oracle/langchain-oracle#10."""
    for at, message, results in groups(request):
        answered = {result["tool_call_id"] for result in results}
        missing = [call["id"] for call in calls_of(message) if call["id"] not in answered]
        if missing:
            yield (
                f"{UNANSWERED} The following tool_call_ids did not have response messages: {quoted(missing)}"
                f" (messages[{at}])"
            )


def result_orphan(request):
    """Source: specification; a tool message answers a call of the assistant message before it."""
    for at, message, results in groups(request):
        known = {call["id"] for call in calls_of(message)}
        for result in results:
            if result["tool_call_id"] not in known:
                yield (
                    f"invalid request: tool message with tool_call_id '{result['tool_call_id']}' answers no"
                    f" call of messages[{at}]"
                )


def result_twice(request):
    """A call has one result. Source: as at OpenAI; the specification says nothing of it."""
    for at, _, results in groups(request):
        ids = [result["tool_call_id"] for result in results]
        if len(ids) != len(set(ids)):
            yield f"invalid request: two tool messages after messages[{at}] have one tool_call_id ({quoted(ids)})"


def tool_calls_empty(request):
    """Source: specification; the wording is OpenAI's."""
    for at, message in enumerate(request.body["messages"]):
        if message.get("tool_calls") == []:
            yield f"invalid request: messages[{at}].tool_calls must have at least one item"


def says_something(content):
    """Whether content holds a text or another part."""
    if isinstance(content, list):
        return any(part.get("type", "text") != "text" or not blank(str(part.get("text") or "")) for part in content)
    return isinstance(content, str) and not blank(content)


def content_empty(request):
    """An assistant's message needs content or calls, any other one content. Source: specification."""
    for at, message in enumerate(request.body["messages"]):
        if message["role"] == "tool":
            missing = message.get("content") in (None, [])
        else:
            missing = not says_something(message.get("content")) and not calls_of(message)
        if missing:
            yield (
                f"invalid request: message at messages[{at}] with role '{message['role']}' must have"
                " non-empty content or tool calls"
            )


def sources_of(message):
    """The ids of what a message cites."""
    for citation in dicts(message.get("citations")):
        for source in dicts(citation.get("sources")):
            if isinstance(source.get("id"), str):
                yield source["id"]


def listed(value):
    """An array, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def known_sources(request):
    """The ids of all calls and documents in a request."""
    for at, document in enumerate(listed(request.body.get("documents"))):
        yield str(document.get("id", f"doc:{at}")) if isinstance(document, dict) else f"doc:{at}"
    for message in request.body["messages"]:
        yield from (call["id"] for call in calls_of(message))
        for part in dicts(message.get("content")):
            document = part.get("document")
            yield str(document.get("id")) if isinstance(document, dict) else None


def citation_without_source(request):
    """A citation names a document, or a call's id followed by a colon and the place of the result. Source:
    specification; the endpoint has not been seen to check it, yet such a citation leads nowhere."""
    known = set(known_sources(request))
    for at, message in enumerate(request.body["messages"]):
        for found in sources_of(message):
            if found not in known and found.rsplit(":", 1)[0] not in known:
                yield f"invalid request: citation source '{found}' at messages[{at}] is not in the request"


RULES = [
    messages_empty,
    unknown_role,
    call_unanswered,
    result_orphan,
    result_twice,
    tool_calls_empty,
    content_empty,
    citation_without_source,
]
