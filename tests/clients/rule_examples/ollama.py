"""Ollama's own chat."""

PATH = "/api/chat"
ENTRIES = "messages"

USER = {"role": "user", "content": "hello"}
SAID = {"role": "assistant", "content": "done"}
RESULT = {"role": "tool", "tool_name": "read", "content": "text"}


def is_half(message):
    return message["role"] == "tool" or "tool_calls" in message


def call(count=1, arguments=None, content=""):
    made = [{"function": {"name": "read", "arguments": {} if arguments is None else arguments}}] * count
    return {"role": "assistant", "content": content, "tool_calls": made}


def body(*messages):
    """A request."""
    return {"model": "qwen3", "messages": list(messages)}


ACCEPTED = {
    "no tools": body({"role": "system", "content": "be kind"}, USER, SAID, USER),
    "single": body(USER, call(), RESULT),
    "parallel": body(USER, call(2), RESULT, {"role": "tool", "content": "text"}, SAID, USER),
    "several rounds": body(USER, call(), RESULT, call(), RESULT, SAID, USER),
    "prose and call": body(USER, call(content="I look"), RESULT, SAID, USER),
}
REFUSED = [
    ("malformed", {"model": "qwen3"}),
    ("unknown-role", body({"role": "function", "content": "x"})),
    ("messages-empty", body()),
    ("content-no-string", body({"role": "user", "content": [{"type": "text", "text": "x"}]})),
    ("content-no-string", body(USER, {"role": "assistant"}, USER)),
    ("arguments-no-object", body(USER, call(arguments="{}"), RESULT)),
    ("tool-calls-empty", body(USER, {**SAID, "tool_calls": []}, USER)),
    ("tool-without-call", body(USER, RESULT, SAID)),
    ("tool-without-call", body(RESULT, USER)),
    ("counts-differ", body(USER, call(2), RESULT, SAID, USER)),
    ("counts-differ", body(USER, call(), RESULT, RESULT)),
    ("counts-differ", body(USER, call(), SAID, USER)),
    ("name-differs", body(USER, call(), {**RESULT, "tool_name": "write"})),
]
