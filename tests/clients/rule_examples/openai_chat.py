"""Chat Completions."""

PATH = "/v1/chat/completions"
ENTRIES = "messages"

USER = {"role": "user", "content": "hello"}
SAID = {"role": "assistant", "content": "done"}
SYSTEM = {"role": "system", "content": "be kind"}


def is_half(message):
    return message["role"] in {"tool", "function"} or "tool_calls" in message or "function_call" in message


def call(*ids, content=None, **more):
    """An assistant's message with a call for each id."""
    made = [{"id": i, "type": "function", "function": {"name": "read", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": content, "tool_calls": made, **more}


def result(name, content="text"):
    """The result of one call."""
    return {"role": "tool", "tool_call_id": name, "content": content}


def body(*messages, model="gpt-5.2", **more):
    """A request."""
    return {"model": model, "messages": list(messages), **more}


def signed(name, *others):
    """Parallel calls whose first carries a signature."""
    message = call(name, *others)
    message["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    return message


FUNCTION_CALL = {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}}
FUNCTION = {"role": "function", "name": "read", "content": "text"}
CUSTOM = {"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]}
BAD_ARGUMENTS = {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"path": "cu'}}
M1, M2 = "abcdefghi", "ABCDEFGH9"
MISTRAL = {"model": "mistral-large-latest"}
DEEPSEEK = {"model": "deepseek-v4"}
TEMPLATE = {"model": "meta-llama/Llama-3.3-70B-Instruct"}
GEMINI = {"model": "google/gemini-3-pro"}

ACCEPTED = {
    "no tools": body(SYSTEM, USER),
    "single": body(SYSTEM, USER, call("a"), result("a")),
    "parallel, other order": body(USER, call("a", "b"), result("b"), result("a"), SAID, USER),
    "several rounds, one id": body(USER, call("a"), result("a"), call("a"), result("a"), SAID, USER),
    "prose and call": body(USER, call("a", content="I look"), result("a", [{"type": "text", "text": "x"}]), SAID, USER),
    "two users": body(USER, call("a"), result("a"), USER, USER),
    "old functions": body(USER, FUNCTION_CALL, FUNCTION, SAID, USER),
    "custom tool": body(USER, CUSTOM, result("a")),
    "ends in assistant": body(USER, SAID),
    "empty text": body(USER, {"role": "assistant", "content": ""}, USER),
    "mistral": body(SYSTEM, USER, call(M1, M2, content=[]), result(M1), result(M2), SAID, USER, **MISTRAL),
    "mistral, prefix": body(USER, {**SAID, "prefix": True}, **MISTRAL),
    "deepseek": body(USER, call("a", reasoning_content="hm"), result("a"), SAID, USER, **DEEPSEEK),
    "deepseek, never reasoned": body(USER, call("a"), result("a"), **DEEPSEEK),
    "template": body(SYSTEM, USER, call("a", content="I look"), result("a"), SAID, USER, **TEMPLATE),
    "template, call goes on": body(USER, call("a"), result("a"), call("b"), result("b"), SAID, USER, **TEMPLATE),
    "gemini": body(USER, signed("a", "b"), result("a"), result("b"), signed("c"), result("c"), **GEMINI),
    "gemini, in the id": body(USER, call("a__thought__c2ln", "b"), result("a__thought__c2ln"), result("b"), **GEMINI),
    "claude": body(USER, call("a"), result("a"), model="anthropic/claude-sonnet-4.6"),
    "older claude": body(USER, SAID, model="anthropic/claude-sonnet-4.5"),
}
REFUSED = [
    ("malformed", {"model": "gpt-5.2"}),
    ("malformed", body(USER, {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]})),
    ("malformed", body(USER, call("a"), {"role": "tool", "content": "x"})),
    ("messages-empty", body()),
    ("unknown-role", body({"role": "robot", "content": "x"})),
    ("content-null", body(USER, {"role": "assistant", "content": None}, USER)),
    ("content-null", body(USER, call("a"), {"role": "tool", "tool_call_id": "a"})),
    ("content-empty-array", body(USER, {"role": "assistant", "content": []}, USER)),
    ("tool-calls-empty", body(USER, {"role": "assistant", "content": "x", "tool_calls": []}, USER)),
    ("call-unanswered", body(USER, call("a"), SAID, USER)),
    ("call-unanswered", body(USER, call("a", "b"), result("a"), SAID)),
    ("call-unanswered", body(USER, call("a"), USER, result("a"))),
    ("call-unanswered", body(USER, call("a"))),
    ("result-orphan", body(USER, result("a"), SAID)),
    ("result-orphan", body(result("a"), USER)),
    ("result-orphan", body(USER, call("a"), result("a"), SAID, result("a"))),
    ("result-orphan", body(USER, call("a"), result("a"), result("b"))),
    ("result-twice", body(USER, call("a"), result("a"), result("a"))),
    ("result-twice", body(USER, call("a", "b"), result("a"), result("b"), result("a"), SAID, USER)),
    ("function-unanswered", body(USER, FUNCTION_CALL, SAID, USER)),
    ("function-unanswered", body(USER, FUNCTION_CALL, {**FUNCTION, "name": "write"})),
    ("function-orphan", body(USER, FUNCTION)),
    ("tools-empty", body(USER, tools=[])),
    ("arguments-not-json", body(USER, {"role": "assistant", "tool_calls": [BAD_ARGUMENTS]}, result("a"), **TEMPLATE)),
    ("mistral-id", body(USER, call("call_1"), result("call_1"), **MISTRAL)),
    ("mistral-order", body(USER, result(M1), **MISTRAL)),
    ("mistral-order", body(USER, call(M1), result(M1), SYSTEM, SAID, USER, **MISTRAL)),
    ("mistral-user-after-tool", body(USER, call(M1), result(M1), USER, **MISTRAL)),
    ("mistral-count", body(USER, call(M1, M2), result(M1), SAID, USER, **MISTRAL)),
    ("mistral-count", body(USER, call(M1), **MISTRAL)),
    ("mistral-id-twice", body(USER, call(M1), result(M1), result(M1), SAID, USER, **MISTRAL)),
    ("mistral-id-twice", body(USER, call(M1, M1), result(M1), result(M2), **MISTRAL)),
    ("mistral-last-role", body(USER, SAID, **MISTRAL)),
    ("assistant-empty", body(USER, {"role": "assistant", "content": ""}, USER, **MISTRAL)),
    ("assistant-empty", body(USER, {"role": "assistant", "content": ""}, USER, model="kimi-k2.5")),
    (
        "reasoning-dropped",
        body(USER, call("a", reasoning_content="hm"), result("a"), call("b"), result("b"), **DEEPSEEK),
    ),
    ("roles-alternate", body(USER, USER, **TEMPLATE)),
    ("roles-alternate", body(USER, {**SAID, "content": "I look"}, SAID, USER, model="qwen3-32b")),
    ("roles-alternate", body(SYSTEM, SAID, USER, model="openai/gpt-oss-120b")),
    ("system-first", body(USER, SAID, SYSTEM, USER, **TEMPLATE)),
    ("first-call-unsigned", body(USER, signed("a"), result("a"), call("c"), result("c"), **GEMINI)),
    ("ends-in-assistant", body(USER, SAID, model="anthropic/claude-sonnet-4.6")),
]
