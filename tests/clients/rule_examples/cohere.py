"""Chat, version 2."""

PATH = "/v2/chat"
ENTRIES = "messages"

USER = {"role": "user", "content": "hello"}
SAID = {"role": "assistant", "content": [{"type": "text", "text": "done"}]}


def is_half(message):
    return message["role"] == "tool" or "tool_calls" in message


def call(*ids, **more):
    made = [{"id": i, "type": "function", "function": {"name": "read", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "tool_plan": "I will read.", "tool_calls": made, **more}


def result(name, content="text"):
    return {"role": "tool", "tool_call_id": name, "content": content}


def cites(*ids):
    sources = [{"type": "tool", "id": i, "tool_output": {}} for i in ids]
    return {**SAID, "citations": [{"start": 0, "end": 4, "text": "done", "sources": sources}]}


def body(*messages, **more):
    """A request."""
    return {"model": "command-a-03-2025", "messages": list(messages), **more}


DOCUMENT = [{"type": "document", "document": {"id": "facts", "data": {"text": "x"}}}]

ACCEPTED = {
    "no tools": body({"role": "system", "content": "be kind"}, USER, SAID, USER),
    "single": body(USER, call("a"), result("a")),
    "parallel": body(USER, call("a", "b"), result("b"), result("a"), SAID, USER),
    "several rounds": body(USER, call("a"), result("a"), call("b"), result("b"), SAID, USER),
    "an id again": body(USER, call("a"), result("a"), call("a"), result("a"), SAID, USER),
    "prose and call": body(USER, call("a", content=[{"type": "text", "text": "I look"}]), result("a"), SAID, USER),
    "citations": body(USER, call("a"), result("a", DOCUMENT), cites("a:0", "facts", "doc:0"), USER, documents=["x"]),
}
REFUSED = [
    ("malformed", {"model": "command-a-03-2025"}),
    ("messages-empty", body()),
    ("unknown-role", body({"role": "developer", "content": "x"})),
    ("call-unanswered", body(USER, call("a", "b"), result("a"), SAID, USER)),
    ("call-unanswered", body(USER, call("a"), SAID, USER)),
    ("result-orphan", body(USER, result("a"), SAID)),
    ("result-orphan", body(USER, call("a"), result("a"), result("b"))),
    ("result-twice", body(USER, call("a"), result("a"), result("a"))),
    ("tool-calls-empty", body(USER, {**SAID, "tool_calls": []}, USER)),
    ("content-empty", body(USER, {"role": "assistant", "content": []}, USER)),
    ("content-empty", body(USER, {"role": "assistant", "tool_plan": "I will read."}, USER)),
    ("content-empty", body(USER, call("a"), {"role": "tool", "tool_call_id": "a"})),
    ("citation-without-source", body(USER, cites("a:0"), USER)),
]
