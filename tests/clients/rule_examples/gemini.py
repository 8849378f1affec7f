"""generateContent."""

PATH = "/v1beta/models/gemini-2.5-flash:generateContent"
ENTRIES = "contents"

THREE = "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse"


def is_half(content):
    return any("functionCall" in part or "functionResponse" in part for part in content["parts"])


def user(*parts):
    return {"role": "user", "parts": list(parts) or [{"text": "hello"}]}


def model(*parts):
    return {"role": "model", "parts": list(parts) or [{"text": "done"}]}


def call(name="read", signature=None, **more):
    part = {"functionCall": {"name": name, "args": {}, **more}}
    return {**part, "thoughtSignature": signature} if signature else part


def response(name="read", value=None, **more):
    return {"functionResponse": {"name": name, "response": {"output": "text"} if value is None else value, **more}}


def body(*contents, **more):
    """A request."""
    return {"contents": list(contents), **more}


SNAKE = body(
    user(),
    model({"function_call": {"name": "read", "args": {}}, "thought_signature": "c2ln"}),
    user({"function_response": {"name": "read", "response": {}}}),
)
SERVER = {"toolCall": {"id": "s", "args": {}}, "thoughtSignature": "c2ln"}

ACCEPTED = {
    "no tools": body(user(), model(), user()),
    "no role": body({"parts": [{"text": "hello"}]}),
    "single": body(user(), model(call()), user(response())),
    "parallel": body(
        user(), model(call(id="a"), call(id="b")), user(response(id="b"), response(id="a")), model(), user()
    ),
    "same name without ids": body(user(), model(call(), call()), user(response(), response())),
    "several rounds": body(user(), model(call()), user(response()), model(call()), user(response()), model(), user()),
    "prose and call": body(user(), model({"text": "I look"}, call()), user(response())),
    "role function": body(user(), model(call()), {"role": "function", "parts": [response()]}),
    "snake case": SNAKE,
    "signature beside an empty text": body(user(), model({"text": "", "thoughtSignature": "c2ln"}), user()),
    "cached": body(user(response()), cachedContent="cachedContents/1"),
    "in pieces": body(user(), model(call()), user(response(willContinue=True), response(willContinue=False))),
    "server tool": body(user(), model(call(), SERVER), user(response())),
}
REFUSED = [
    ("malformed", {}),
    ("malformed", body(user("x"))),
    ("malformed", body(user({"text": 1}))),
    ("contents-empty", body()),
    ("unknown-role", body({"role": "assistant", "parts": [{"text": "x"}]})),
    ("first-not-user", body(model(), user())),
    ("parts-empty", body(user(), {"role": "model", "parts": []}, user())),
    ("part-unset", body(user(), model({"text": ""}), user())),
    ("part-unset", body(user({}))),
    ("counts-differ", body(user(), model(call(), call()), user(response()))),
    ("counts-differ", body(user(), model(call(), call()), user(response()), user(response()))),
    ("counts-differ", body(user(), model(call()), model(), user())),
    ("call-turn-misplaced", body(user(), model(), model(call()), user(response()))),
    ("call-turn-misplaced", body(model(call()), user(response()))),
    ("response-turn-misplaced", body(user(), user(response()))),
    ("response-turn-misplaced", body(user(), model(), user(response()))),
    ("id-differs", body(user(), model(call(id="a"), call(id="b")), user(response(id="a"), response(id="c")))),
    ("name-differs", body(user(), model(call("read")), user(response("write")))),
    ("response-no-object", body(user(), model(call()), user(response(value="text")))),
    ("signature-missing", body(user(), model(call()), user(response())), THREE),
    (
        "signature-missing",
        body(user(), model(call(signature="s")), user(response()), model(call()), user(response())),
        THREE,
    ),
    ("signature-missing", body(user(), model(call(), call(signature="s")), user(response(), response())), THREE),
]
ACCEPTED_BY_THREE = {
    "signed": body(user(), model(call(signature="s"), call()), user(response(), response())),
    "older turns": body(user(), model(call()), user(response()), model(), user()),
}
