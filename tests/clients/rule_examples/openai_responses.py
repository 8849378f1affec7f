"""Responses."""

PATH = "/v1/responses"
ENTRIES = "input"

USER = {"role": "user", "content": "hello"}


def is_half(item):
    kind = item.get("type", "message")
    return kind.endswith(("_call", "_call_output")) and kind != "web_search_call"


def said(name="msg_1"):
    return {"type": "message", "id": name, "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}


def call(name, kind="function_call", **more):
    """One call."""
    return {"type": kind, "call_id": name, "name": "read", "arguments": "{}", "id": f"fc_{name}", **more}


def output(name, kind="function_call_output", **more):
    """The output of one call."""
    return {"type": kind, "call_id": name, "output": "text", **more}


def reasoning(name="rs_1", **more):
    """A reasoning item."""
    return {"type": "reasoning", "id": name, "summary": [], "encrypted_content": "x", **more}


def body(*items, model="gpt-5.2", **more):
    """A request."""
    return {"model": model, "input": list(items), **more}


LOCAL = {"type": "local_shell_call", "id": "lsh_1", "call_id": "a", "action": {}}
LOCAL_OUTPUT = {"type": "local_shell_call_output", "id": "a", "output": "{}"}
CUSTOM = {"type": "custom_tool_call", "call_id": "a", "name": "sh", "input": "ls"}
PATCH = {"type": "apply_patch_call", "call_id": "a", "operation": {}, "status": "completed"}
DEEPSEEK = {"model": "deepseek-v4-flash"}

ACCEPTED = {
    "text": {"model": "gpt-5.2", "input": "hello"},
    "single": body(USER, reasoning(), call("a"), output("a")),
    "parallel": body(USER, reasoning(), call("a"), call("b"), output("b"), output("a"), said(), USER),
    "several rounds": body(
        USER, reasoning(), call("a"), output("a"), reasoning("rs_2"), call("b"), output("b"), said(), USER
    ),
    "prose and call": body(USER, reasoning(), said(), call("a"), output("a")),
    "an item between": body(USER, call("a"), said(), output("a")),
    "an id again": body(USER, call("a"), output("a"), call("a", id="fc_2"), output("a")),
    "custom": body(USER, CUSTOM, output("a", "custom_tool_call_output")),
    "patch": body(USER, PATCH, {"type": "apply_patch_call_output", "call_id": "a", "status": "completed"}),
    "local shell": body(USER, LOCAL, LOCAL_OUTPUT),
    "local shell by its own id": body(USER, LOCAL, {**LOCAL_OUTPUT, "id": "lsh_1"}),
    "state": body(output("a"), previous_response_id="resp_1"),
    "reference": body({"type": "item_reference", "id": "fc_1"}, output("a")),
    "server tools": body(
        USER, reasoning(), {"type": "web_search_call", "id": "ws_1", "status": "completed"}, said(), USER
    ),
    "compaction": body({"type": "compaction", "encrypted_content": "x"}, USER, {"type": "compaction_trigger"}),
    "grok": body(USER, reasoning(), said(), reasoning(), said("msg_2"), USER, reasoning(), USER, model="grok-4.3"),
    "deepseek": body(
        USER, reasoning("a"), reasoning("b"), call("a"), call("b"), output("a"), output("b"), USER, **DEEPSEEK
    ),
}
REFUSED = [
    ("malformed", body("x")),
    ("malformed", body(USER, {"type": "function_call", "name": "read", "arguments": "{}"})),
    ("malformed", body(USER, call("a", arguments={}), output("a"))),
    ("malformed", body(USER, {"content": "x"})),
    ("input-empty", body()),
    ("output-orphan", body(USER, output("a"))),
    ("output-orphan", body(USER, output("a"), call("a"))),
    ("output-orphan", body(USER, call("a"), output("a"), output("b"))),
    ("output-orphan", body(USER, call("a"), output("a"), output("a"))),
    ("output-of-other-type", body(USER, call("a"), output("a", "custom_tool_call_output"))),
    ("call-unanswered", body(USER, call("a"), said(), USER)),
    ("call-unanswered", body(USER, call("a"), call("b"), output("a"))),
    ("call-unanswered", body(USER, call("a"), previous_response_id="resp_1")),
    ("call-unanswered", body(USER, LOCAL)),
    ("output-missing", body(USER, call("a"), {"type": "function_call_output", "call_id": "a"})),
    ("reasoning-alone", body(USER, reasoning(), USER)),
    ("reasoning-alone", body(USER, reasoning())),
    ("reasoning-alone", body(USER, call("a"), reasoning(), output("a"))),
    ("reasoning-alone", body(USER, reasoning(), reasoning("rs_2"), USER)),
    ("reasoning-without-summary", body(USER, {"type": "reasoning", "id": "rs_1"}, said())),
    ("item-id-twice", body(USER, reasoning(), said(), reasoning(), said("msg_2"), USER)),
    ("foreign-id", body(USER, reasoning("x1"), said())),
    ("message-empty", body({"role": "user", "content": []})),
    ("compaction-trigger-not-last", body({"type": "compaction_trigger"}, USER)),
    (
        "deepseek-calls-apart",
        body(USER, reasoning(), call("a"), reasoning("rs_2"), call("b"), output("a"), output("b"), **DEEPSEEK),
    ),
    (
        "deepseek-call-without-reasoning",
        body(USER, reasoning(), call("a"), output("a"), call("b"), output("b"), **DEEPSEEK),
    ),
]
