"""Responses: the rules of OpenAI, and of DeepSeek's endpoint of the same form."""

from collections import Counter

from .rules import dicts, not_objects, type_name

# Which output answers which call. Source: schema of ResponseInputItemParam.
ANSWERED_BY = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
}
OUTPUTS = set(ANSWERED_BY.values())
PREFIXES = {"reasoning": "rs", "function_call": "fc"}
# With these the provider knows items that are not in the body.
STATE = ("previous_response_id", "conversation", "prompt")


def items(request):
    """The input items in order; a text is no item."""
    return dicts(request.body.get("input"))


def kind(item):
    """The type of an item; a message may leave it out."""
    return item.get("type") or "message"


def key_of(item):
    """What pairs a call with its output. The output of the local shell has only `id`."""
    return item.get("call_id") or (item.get("id") if kind(item) == "local_shell_call_output" else None)


def has_state(request):
    """Whether calls may be known to the provider that the body does not hold."""
    return any(request.body.get(key) for key in STATE) or any(kind(i) == "item_reference" for i in items(request))


def is_grok(request):
    """Whether the model is one of xAI's."""
    return request.model.lower().startswith("grok")


def of_model(item):
    """Whether the model wrote an item; what the client adds is messages of others and outputs of its tools."""
    if kind(item) == "message":
        return item.get("role") == "assistant"
    return kind(item) not in OUTPUTS and kind(item) not in {
        "additional_tools",
        "configuration_update",
        "compaction_trigger",
        "mcp_approval_response",
        "item_reference",
    }


def malformed(request):
    """Source: schema of ResponseCreateParams and ResponseInputItemParam."""
    value = request.body.get("input")
    if value is None or isinstance(value, str):
        return
    yield from not_objects(value, "input")
    for at, item in enumerate(items(request)):
        if not isinstance(kind(item), str) or (kind(item) == "message" and not isinstance(item.get("role"), str)):
            yield f"Invalid value: 'input[{at}]' has neither a type nor a role."
        elif not isinstance(item.get("id"), (str, type(None))):
            yield f"Invalid type for 'input[{at}].id': expected a string, got {type_name(item['id'])}."
        elif kind(item) in ANSWERED_BY and not isinstance(item.get("call_id"), str):
            yield f"Missing required parameter: 'input[{at}].call_id'."
        elif kind(item) in OUTPUTS and not isinstance(key_of(item), str):
            yield f"Missing required parameter: 'input[{at}].call_id'."
        elif kind(item) == "function_call" and not isinstance(item.get("arguments"), str):
            yield (
                f"Invalid type for 'input[{at}].arguments': expected a string, got {type_name(item.get('arguments'))}."
            )


def input_empty(request):
    """Source: schema; without items, a text or state of the provider there is nothing to answer."""
    if not request.body.get("input") and not has_state(request):
        yield "Missing required parameter: 'input'."


def output_orphan(request):
    """An output comes after its call. Source: microsoft/vscode#320060, continuedev/continue#10092, vercel/ai#8216."""
    if has_state(request):
        return
    waiting, types = Counter(), set()
    for item in items(request):
        if kind(item) in ANSWERED_BY:
            names = {item.get("call_id"), item.get("id")} if kind(item) == "local_shell_call" else {item["call_id"]}
            waiting.update(names)
            types.update((name, ANSWERED_BY[kind(item)]) for name in names)
        elif kind(item) in OUTPUTS:
            key = key_of(item)
            waiting[key] -= 1
            # Another type under the same id is the next rule's.
            if waiting[key] < 0 and ((key, kind(item)) in types or all(name != key for name, _ in types)):
                yield f"No tool call found for {kind(item).replace('_', ' ')} with call_id {key}."


def output_of_other_type(request):
    """A custom tool's output cannot answer a function call, and so on. Source: schema; openai-agents keeps one type
    of output for each type of call."""
    expected = {}
    for item in items(request):
        if kind(item) in ANSWERED_BY:
            expected[item["call_id"]] = ANSWERED_BY[kind(item)]
        elif kind(item) in OUTPUTS and expected.get(key_of(item), kind(item)) != kind(item):
            yield f"No tool call found for {kind(item).replace('_', ' ')} with call_id {key_of(item)}."


def call_unanswered(request):
    """Source: sst/opencode#16717, cockpit-tools#1234."""
    if any(kind(item) == "item_reference" for item in items(request)):
        return
    answers = Counter(key_of(item) for item in items(request) if kind(item) in OUTPUTS)
    for item in items(request):
        if kind(item) in ANSWERED_BY:
            names = [item["call_id"]] + [item.get("id")] * (kind(item) == "local_shell_call")
            answered = next((name for name in names if answers[name] > 0), None)
            if answered is None:
                yield f"No tool output found for {kind(item).replace('_', ' ')} {item['call_id']}."
            else:
                answers[answered] -= 1


def output_missing(request):
    """Source: schema."""
    for at, item in enumerate(items(request)):
        if kind(item) in OUTPUTS - {"apply_patch_call_output"} and item.get("output") is None:
            yield f"Missing required parameter: 'input[{at}].output'."


def reasoning_alone(request):
    """After reasoning comes what it led to: a message or a call of the model. Source: continuedev/continue#8933,
    vercel/ai#7099, openai/openai-agents-python#1611. Grok takes reasoning as it comes (xAI's guide)."""
    if is_grok(request):
        return
    every = items(request)
    for at, item in enumerate(every):
        if kind(item) == "reasoning":
            after = every[at + 1] if at + 1 < len(every) else None
            if after is None or not of_model(after):
                yield f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."


def reasoning_without_summary(request):
    """Source: newo-ether/Agora#141."""
    for at, item in enumerate(items(request)):
        if kind(item) == "reasoning" and not isinstance(item.get("summary"), list):
            yield f"Input[{at}] missing required field summary"


def item_id_twice(request):
    """Source: vercel/ai#7883. A reference and the local shell's output name the ids of others. Grok itself gives one
    id to several pieces of reasoning."""
    if is_grok(request):
        return
    seen = set()
    for item in items(request):
        found = item.get("id")
        if not found or kind(item) in {"item_reference", "local_shell_call_output"}:
            continue
        if found in seen:
            yield f"Duplicate item found with id {found}. Remove duplicate items from your input and try again."
        seen.add(found)


def foreign_id(request):
    """Source: experientiallabs/experiential#851; other makers' endpoints have ids of their own."""
    if not request.model.lower().startswith(("gpt-", "o1", "o3", "o4", "codex")):
        return
    for at, item in enumerate(items(request)):
        prefix = "msg" if kind(item) == "message" and item.get("role") == "assistant" else PREFIXES.get(kind(item))
        if prefix and item.get("id") and not str(item["id"]).startswith(prefix):
            yield f"Invalid 'input[{at}].id': '{item['id']}'. Expected an ID that begins with '{prefix}'."


def message_empty(request):
    """Source: schema; the wording is that of other empty arrays."""
    for at, item in enumerate(items(request)):
        if kind(item) == "message" and item.get("content") in (None, []):
            yield f"Invalid 'input[{at}].content': empty array. Expected an array with minimum length 1."


def compaction_trigger_not_last(request):
    """Source: schema of the compaction trigger."""
    for at, item in enumerate(items(request)[:-1]):
        if kind(item) == "compaction_trigger":
            yield f"input[{at}]: a compaction_trigger must be the last input item."


def deepseek_calls_apart(request):
    """DeepSeek joins calls that stand together to one message, whose outputs come right after. Source: a recorded
    answer in pydantic-ai's tests of DeepSeek on Responses."""
    if not request.model.startswith("deepseek") or has_state(request):
        return
    open_calls, before = set(), None
    for item in items(request) + [{"type": "message", "role": "user"}]:
        starts = kind(item) == "function_call" and before != "function_call"
        if (starts or kind(item) not in {"function_call", "function_call_output"}) and open_calls:
            yield f"No tool output found for {', '.join(sorted(open_calls))}."
            open_calls = set()
        if kind(item) == "function_call":
            open_calls.add(item["call_id"])
        open_calls -= {key_of(item)} if kind(item) == "function_call_output" else set()
        before = kind(item)


def deepseek_call_without_reasoning(request):
    """Every step with a call has reasoning before it. Source: rikkahub#1690. Whether it was there at all is known
    only where some step still has it."""
    every = items(request)
    if not request.model.startswith("deepseek") or all(kind(item) != "reasoning" for item in every):
        return
    reasoned = False
    for item in every:
        if kind(item) == "function_call" and not reasoned:
            yield f"The reasoning in the thinking mode must be passed back to the API before call {item['call_id']}."
        reasoned = kind(item) == "reasoning" or (reasoned and of_model(item))


RULES = [
    input_empty,
    output_orphan,
    output_of_other_type,
    call_unanswered,
    output_missing,
    reasoning_alone,
    reasoning_without_summary,
    item_id_twice,
    foreign_id,
    message_empty,
    compaction_trigger_not_last,
    deepseek_calls_apart,
    deepseek_call_without_reasoning,
]
