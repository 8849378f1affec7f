"""Converse."""

PATH = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"
ENTRIES = "messages"

LLAMA = "/model/meta.llama3-3-70b-instruct-v1:0/converse"
NEWER = "/model/us.anthropic.claude-opus-4-6-v1/converse-stream"
TEXT = {"text": "hello"}
POINT = {"cachePoint": {"type": "default"}}
DOCUMENT = {"document": {"name": "d", "format": "txt", "source": {"bytes": "eA=="}}}
REASONING = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
ON = {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2000}}}


def is_half(message):
    return any("toolUse" in block or "toolResult" in block for block in message["content"])


def user(*blocks):
    return {"role": "user", "content": list(blocks) or [TEXT]}


def model(*blocks):
    return {"role": "assistant", "content": list(blocks) or [{"text": "done"}]}


def use(name, **more):
    return {"toolUse": {"toolUseId": name, "name": "read", "input": {}, **more}}


def result(name, text="text", **more):
    return {"toolResult": {"toolUseId": name, "content": [{"text": text}], **more}}


def body(*messages, tools=True, **more):
    """A request."""
    config = {"toolConfig": {"tools": [{"toolSpec": {"name": "read"}}]}} if tools else {}
    return {"messages": list(messages), **config, **more}


ACCEPTED = {
    "no tools": body(user(), model(), user(), tools=False),
    "single": body(user(), model(use("a")), user(result("a"))),
    "parallel": body(user(), model(use("a"), use("b")), user(result("b"), result("a")), model(), user()),
    "several rounds": body(
        user(), model(use("a")), user(result("a")), model(use("b")), user(result("b")), model(), user()
    ),
    "prose and call": body(user(), model(TEXT, use("a")), user(result("a"), TEXT)),
    "cache points": body(user(TEXT, POINT), model(use("a")), user(result("a"), POINT)),
    "document": body(user(TEXT, DOCUMENT)),
    "error": body(user(), model(use("a")), user(result("a", "failed", status="error"))),
    "thinking": body(user(), model(REASONING, use("a")), user(result("a")), model(use("b")), user(result("b")), **ON),
    "server tool": body(user(), model(use("a", type="server_tool_use"), result("a"), TEXT), user()),
}
REFUSED = [
    ("malformed", {}),
    ("malformed", body({"role": "user", "content": "hello"})),
    ("malformed", body(user({}))),
    ("messages-empty", body()),
    ("unknown-role", body(user(), {"role": "tool", "content": [TEXT]})),
    ("first-not-user", body(model(), user())),
    ("roles-do-not-alternate", body(user(), user())),
    ("roles-do-not-alternate", body(user(), model(), model(use("a")), user(result("a")))),
    ("ends-in-assistant", body(user(), model()), NEWER),
    ("content-empty", body(user(), {"role": "assistant", "content": []}, user())),
    ("text-blank", body(user(), model({"text": " "}), user())),
    ("result-missing", body(user(), model(use("a")), user())),
    ("result-missing", body(user(), model(use("a"), use("b")), user(result("a")))),
    ("result-missing", body(user(), model(use("a")))),
    ("result-extra", body(user(result("a")))),
    ("result-extra", body(user(), model(use("a")), user(result("a"), result("b")))),
    ("server-pair-broken", body(user(), model(result("a"), TEXT), user())),
    ("server-pair-broken", body(user(), model(use("a", type="server_tool_use"), TEXT), user(), model(), user())),
    ("id-twice", body(user(), model(use("a"), use("a")), user(result("a")))),
    ("id-twice", body(user(), model(use("a")), user(result("a"), result("a")))),
    ("tool-use-id-invalid", body(user(), model(use("a b")), user(result("a b")))),
    ("error-result-empty", body(user(), model(use("a")), user(result("a", "", status="error")))),
    ("prose-beside-results", body(user(), model(use("a")), user(result("a"), TEXT)), LLAMA),
    ("cache-point-misplaced", body(user(POINT, TEXT))),
    ("cache-point-misplaced", body(user(TEXT, POINT, POINT))),
    ("cache-point-misplaced", body(user(TEXT, DOCUMENT, POINT))),
    ("document-alone", body(user(DOCUMENT))),
    ("tool-config-missing", body(user(), model(use("a")), user(result("a")), tools=False)),
    ("reasoning-missing", body(user(), model(use("a")), user(result("a")), **ON)),
    ("reasoning-missing", body(user(), model(REASONING, TEXT), user(), model(use("a")), user(result("a")), **ON)),
]
