"""What single families of models ask for behind Chat Completions, on top of the shared rules."""

import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from . import claude
from .rules import blank, dicts

MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
# Mistral: which roles may come after a role. The API refuses a user after a tool as well as a system message there.
MISTRAL_AFTER = {
    "system": {"system", "user", "assistant"},
    "user": {"system", "user", "assistant"},
    "assistant": {"user", "assistant", "tool"},
    "tool": {"assistant", "tool"},
}


def calls_of(message):
    """The tool calls of a message."""
    return dicts(message.get("tool_calls")) if message["role"] == "assistant" else []


def says_nothing(message):
    """Whether a message has no content worth the name."""
    content = message.get("content")
    if isinstance(content, list):
        return not any(part.get("text") or part.get("type") != "text" for part in content)
    return not content or blank(content)


def roles_in_order(request):
    """Pairs of neighbours: the index of the second, the role of the first, the role of the second."""
    roles = [message["role"] for message in request.body["messages"]]
    return zip(range(1, len(roles)), roles, roles[1:])


def mistral_id(request):
    """Source: mistral-common, validator for v3 on."""
    for message in request.body["messages"]:
        ids = [message["tool_call_id"]] if message["role"] == "tool" else [call["id"] for call in calls_of(message)]
        for found in ids:
            if not MISTRAL_ID.fullmatch(found):
                yield f"Tool call id was {found} but must be a-z, A-Z, 0-9, with a length of 9."


def mistral_order(request):
    """Source: mistral-common, _validate_message_order; the API answers invalid_request_message_order, code 3230."""
    for at, before, role in roles_in_order(request):
        if role not in MISTRAL_AFTER.get(before, {role}) and (before, role) != ("tool", "user"):
            yield f"Unexpected role '{role}' after role '{before}' (messages.{at})"


def mistral_user_after_tool(request):
    """Source: datapizza-labs/datapizza-ai#98, BerriAI/litellm#6323."""
    for at, before, role in roles_in_order(request):
        if (before, role) == ("tool", "user"):
            yield f"Unexpected role 'user' after role 'tool' (messages.{at})"


def mistral_count(request):
    """Source: mistral-common, _validate_tool_calls_followed_by_tool_messages."""
    expected = 0
    for at, message in enumerate(request.body["messages"] + [{"role": "assistant"}]):
        if message["role"] == "tool":
            expected -= 1
        elif message["role"] == "assistant":
            if expected:
                yield f"Not the same number of function calls and responses (before messages.{at})"
            expected = len(calls_of(message))


def mistral_id_twice(request):
    """Source: mistral-common, validator for v13 on."""
    calls, results = Counter(), Counter()
    for message in request.body["messages"]:
        if message["role"] == "tool":
            results[message["tool_call_id"]] += 1
            if results[message["tool_call_id"]] == 2:
                yield f"Duplicate tool call id {message['tool_call_id']} in tool results"
        elif message["role"] == "assistant":
            calls, results = Counter(call["id"] for call in calls_of(message)), Counter()
            yield from (f"Duplicate tool call id {i} in assistant message" for i, count in calls.items() if count > 1)


def mistral_last_role(request):
    """Source: mistral-common, _validate_last_message in serving mode."""
    last = (request.body["messages"] or [{"role": "user"}])[-1]
    if last["role"] not in {"user", "tool"} and not last.get("prefix"):
        yield f"Expected last role User or Tool (or Assistant with prefix True) for serving but got {last['role']}"


def assistant_empty(request):
    """Source: mistral-common (neither content nor calls), MoonshotAI/kimi-code#1985 for the wording."""
    for at, message in enumerate(request.body["messages"]):
        if message["role"] == "assistant" and not calls_of(message) and says_nothing(message):
            yield f"The message at position {at} with role 'assistant' must not be empty"


def reasoning_dropped(request):
    """Messages with calls keep their reasoning in all later requests. Source: DeepSeek's guide to the thinking mode,
    badlogic/pi-mono#3636. Whether it was there at all is known only where some message still has it."""
    if (request.body.get("thinking") or {}) == {"type": "disabled"}:
        return
    callers = [(at, m) for at, m in enumerate(request.body["messages"]) if calls_of(m)]
    if not any(message.get("reasoning_content") for _, message in callers):
        return
    for at, message in callers:
        if not isinstance(message.get("reasoning_content"), str):
            yield f"The reasoning_content in the thinking mode must be passed back to the API. (messages[{at}])"


def roles_alternate(request):
    """Tool messages and assistants with calls are skipped when the template counts turns. Source: the chat template
    of Mistral's open models; its answer stands in eclipse-peon-ai#75."""
    expected = "user"
    for at, message in enumerate(request.body["messages"]):
        if message["role"] not in {"user", "assistant"} or calls_of(message) or message.get("function_call"):
            continue
        if message["role"] != expected:
            yield (
                "After the optional system message, conversation roles must alternate user and assistant roles"
                f" except for tool calls and results. (messages[{at}])"
            )
            return
        expected = "assistant" if expected == "user" else "user"


def system_first(request):
    """Source: the chat template of Qwen's open models."""
    for at, message in enumerate(request.body["messages"]):
        if at and message["role"] == "system":
            yield f"System message must be at the beginning. (messages[{at}])"


def first_call_unsigned(request):
    """The first of parallel calls carries the signature, in a field or inside the id. Source: Google's guide to
    thought signatures, continuedev/continue#8865. Without any signature the client never kept them."""
    firsts = [(at, calls_of(m)[0]) for at, m in enumerate(request.body["messages"]) if calls_of(m)]
    if any(signed(call) for _, call in firsts):
        for at, call in firsts:
            if not signed(call):
                yield (
                    f"Function call is missing a thought_signature in functionCall parts. (messages[{at}],"
                    f" {call['id']})"
                )


def signed(call):
    """Whether a call carries a thought signature."""
    extra = call.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    return bool(isinstance(google, dict) and google.get("thought_signature")) or "__thought__" in call["id"]


def ends_in_assistant(request):
    """Source: see `claude`."""
    messages = request.body["messages"]
    if messages and messages[-1]["role"] == "assistant" and claude.refuses_prefill(request.model):
        yield claude.PREFILL_MESSAGE


class Family(NamedTuple):
    """Models that are checked alike, told by how the last part of their name begins."""

    name: str
    begins: tuple
    rules: list


FAMILIES = [
    Family(
        "mistral",
        ("mistral", "ministral", "codestral", "devstral", "magistral", "pixtral", "open-mi"),
        [
            mistral_id,
            mistral_order,
            mistral_user_after_tool,
            mistral_count,
            mistral_id_twice,
            mistral_last_role,
            assistant_empty,
        ],
    ),
    Family("deepseek", ("deepseek",), [reasoning_dropped]),
    Family("kimi", ("kimi", "moonshot"), [assistant_empty]),
    Family(
        "template",
        ("llama", "meta-llama", "qwen", "qwq", "gpt-oss", "gemma", "phi-", "mixtral", "hermes", "granite"),
        [roles_alternate, system_first],
    ),
    Family("gemini", ("gemini-",), [first_call_unsigned]),
    Family("claude", ("claude-",), [ends_in_assistant]),
    Family("openai", ("gpt-", "chatgpt-", "o1", "o3", "o4", "ft:gpt-"), []),
    Family("other", ("",), []),
]
RULES = list(dict.fromkeys(rule for family in FAMILIES for rule in family.rules))


@lru_cache
def family_of(model):
    """The family of a model; gateways put the maker's name before a slash."""
    name = model.lower().rsplit("/", 1)[-1]
    return next(family for family in FAMILIES if name.startswith(family.begins))
