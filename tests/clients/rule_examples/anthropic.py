"""Messages."""

PATH = "/v1/messages?beta=true"
ENTRIES = "messages"

VERTEX = "/v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-4-6@20260101:rawPredict"
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
ON = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
OFF = {"thinking": {"type": "disabled"}}
TEXT = {"type": "text", "text": "hello"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
SERVER_USE = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}


def is_half(message):
    content = message["content"]
    return not isinstance(content, str) and any(block["type"] in {"tool_use", "tool_result"} for block in content)


def user(*blocks):
    return {"role": "user", "content": list(blocks) or "hello"}


def model(*blocks):
    return {"role": "assistant", "content": list(blocks) or "done"}


def system(text="more tools"):
    return {"role": "system", "content": text}


def use(name, **more):
    return {"type": "tool_use", "id": name, "name": "read", "input": {}, **more}


def result(name, content="text", **more):
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def body(*messages, model="claude-sonnet-4-5", **more):
    """A request."""
    return {"model": model, "max_tokens": 100, "messages": list(messages), **more}


ACCEPTED = {
    "no tools": body(user(), model(), user(), system="be kind"),
    "single": body(user(), model(use("a")), user(result("a"))),
    "parallel": body(user(), model(use("a"), use("b")), user(result("b"), result("a")), model(), user()),
    "several rounds": body(
        user(), model(use("a")), user(result("a")), model(use("b")), user(result("b")), model(), user()
    ),
    "prose and call": body(user(), model(TEXT, use("a")), user(result("a"), TEXT)),
    "results in two messages": body(user(), model(use("a"), use("b")), user(result("a")), user(result("b"), TEXT)),
    "an id again": body(user(), model(use("a")), user(result("a")), model(use("a")), user(result("a"))),
    "empty results": body(user(), model(use("a"), use("b")), user(result("a", ""), result("b", [])), model(), user()),
    "blank beside a call": body(user(), model({"type": "text", "text": "\n\n"}, use("a")), user(result("a"))),
    "nothing said": body(user(), model(TEXT), {"role": "assistant", "content": ""}, user()),
    "server tool": body(user(), model(SERVER_USE, SERVER_RESULT, TEXT), user()),
    "programmatic": body(user(), model(SERVER_USE, use("a")), user(result("a"))),
    "paused": body(user(), model(TEXT, SERVER_USE), model="claude-opus-4-6"),
    "system between": body(user(), model(use("a")), user(result("a")), system(), model(), user(), system()),
    "prefill of older models": body(user(), model(), model="claude-sonnet-4-20250514"),
    "thinking": body(user(), model(THOUGHT, use("a")), user(result("a")), **ON),
    "thinking once a loop": body(
        user(), model(THOUGHT, use("a")), user(result("a")), model(use("b")), user(result("b")), **ON
    ),
    "thinking on later": body(user(), model(use("a")), user(result("a")), model(), user(), **ON),
    "markers": body(user({**TEXT, **HOUR}), model(use("a")), user(result("a", **MARK)), system=[{**TEXT, **HOUR}]),
    "another maker": body(user(), model({"type": "thinking", "thinking": "x"}, TEXT), user(), model="deepseek-v4"),
}
REFUSED = [
    ("malformed", {"model": "claude-sonnet-4-5"}),
    ("malformed", body(user(), model({"type": "tool_use", "id": "a", "name": "read"}), user(result("a")))),
    ("malformed", body({"role": "user"})),
    ("messages-empty", body()),
    ("unknown-role", body(user(), {"role": "tool", "content": "x"})),
    ("first-not-user", body(model(), user())),
    ("ends-in-assistant", body(user(), model(), model="claude-opus-4-6")),
    ("ends-in-assistant", body(user(), model(), model="claude-opus-5-20260901")),
    ("ends-in-assistant", body(user(), model(), model=None), VERTEX),
    ("system-misplaced", body(user(), model(), system(), user())),
    ("system-misplaced", body(user(), system(), user())),
    ("user-content-empty", body(user(), model(), {"role": "user", "content": []})),
    ("user-content-empty", body({"role": "user", "content": ""})),
    ("text-empty", body(user(), model({"type": "text", "text": ""}, use("a")), user(result("a")))),
    ("text-blank", body(user(), model({"type": "text", "text": " "}), user())),
    ("text-blank", body({"role": "user", "content": "\n"})),
    ("system-blank", body(user(), system="  ")),
    ("tool-use-unanswered", body(user(), model(use("a")), user())),
    ("tool-use-unanswered", body(user(), model(use("a"), use("b")), user(result("a")), model(), user())),
    ("tool-use-unanswered", body(user(), model(use("a")), model(), user(result("b")))),
    ("tool-use-unanswered", body(user(), model(use("a")))),
    ("result-not-first", body(user(), model(use("a")), user(TEXT, result("a")))),
    ("result-not-first", body(user(), model(use("a"), use("b")), user(result("a"), TEXT), user(result("b")))),
    ("tool-result-orphan", body(user(result("a")))),
    ("tool-result-orphan", body(user(), model(), user(result("a")))),
    ("tool-result-orphan", body(user(), model(use("a")), user(result("a")), model(), user(result("a")))),
    ("tool-result-twice", body(user(), model(use("a")), user(result("a"), result("a")))),
    ("tool-use-id-twice", body(user(), model(use("a"), use("a")), user(result("a")))),
    ("tool-use-id-twice", body(user(), model(use("a")), model(use("a")), user(result("a")))),
    ("server-result-orphan", body(user(), model(SERVER_RESULT, TEXT), user())),
    ("server-use-unanswered", body(user(), model(SERVER_USE, TEXT), user(), model(), user())),
    ("server-use-unanswered", body(user(), model(SERVER_USE, TEXT), user())),
    ("too-many-cache-markers", body(*[user({**TEXT, **MARK})] * 5)),
    ("too-many-cache-markers", body(user({**TEXT, **MARK}, *[{**TEXT, **MARK}] * 3), **MARK)),
    ("cache-marker-order", body(user({**TEXT, **MARK}, {**TEXT, **HOUR}))),
    ("thinking-missing", body(user(), model(use("a")), user(result("a")), **ON)),
    (
        "thinking-missing",
        body(user(), model(THOUGHT, TEXT), user(), model(TEXT, use("a")), user(result("a"), TEXT), **ON),
    ),
    ("thinking-while-disabled", body(user(), model(THOUGHT, TEXT), **OFF)),
    ("thinking-unsigned", body(user(), model({"type": "thinking", "thinking": "x"}, TEXT), user())),
    ("thinking-last", body(user(), model(THOUGHT), model(THOUGHT, TEXT), user())),
]
