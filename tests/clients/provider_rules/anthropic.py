"""Messages: the rules of Anthropic, on all hosts that serve Claude in this format. What is said once about turns
holds after neighbours of one role were merged, as the API does. Rules about thinking are in `anthropic_thinking`."""

from collections import Counter

from . import anthropic_thinking, claude
from .anthropic_turns import blocks_of, is_server_result, is_server_use, turns
from .rules import blank, dicts, not_objects, quoted

MAX_MARKERS = 4


def malformed(request):
    """Source: schema of MessageParam and its blocks."""
    messages = request.body.get("messages")
    yield from not_objects(messages, "messages")
    for at, message in enumerate(dicts(messages)):
        if not isinstance(message.get("role"), str):
            yield f"messages.{at}.role: Field required"
        if not isinstance(message.get("content"), (str, list)):
            yield f"messages.{at}.content: Field required"
        if isinstance(message.get("content"), list):
            yield from not_objects(message["content"], f"messages.{at}.content")
            for index, block in enumerate(dicts(message["content"])):
                yield from malformed_block(block, f"messages.{at}.content.{index}")


def malformed_block(block, name):
    """What keeps one block from being read."""
    kind = block.get("type")
    if not isinstance(kind, str):
        yield f"{name}.type: Field required"
        return
    required = {
        "text": {"text": str},
        "tool_use": {"id": str, "name": str, "input": dict},
        "tool_result": {"tool_use_id": str},
    }
    for key, expected in required.get(kind, {}).items():
        if not isinstance(block.get(key), expected):
            yield f"{name}.{kind}.{key}: Field required"
    if kind == "tool_result" and not isinstance(block.get("content", ""), (str, list)):
        yield f"{name}.tool_result.content: Input should be a valid array"


def messages_empty(request):
    """Source: schema."""
    if not request.body["messages"]:
        yield "messages: at least one message is required"


def unknown_role(request):
    """Source: schema, which knows system messages between turns too."""
    for at, message in enumerate(request.body["messages"]):
        if message["role"] not in {"user", "assistant", "system"}:
            yield f"messages.{at}.role: Input should be 'user' or 'assistant'"


def first_not_user(request):
    """Source: the API's guide to the Messages format."""
    if request.body["messages"] and request.body["messages"][0]["role"] != "user":
        yield 'messages: first message must use the "user" role'


def ends_in_assistant(request):
    """A turn that paused in a server tool may be continued. Source: see `claude`."""
    last = (turns(request) or [None])[-1]
    if last and last.role == "assistant" and claude.refuses_prefill(request.model):
        if not any(is_server_use(block) for _, _, block in last.blocks):
            yield claude.PREFILL_MESSAGE


def system_misplaced(request):
    """A system message stands after a user's turn, or one that a server tool's result ends, and before an assistant's
    turn or at the end. Source: pydantic-ai, which tried it against the API."""
    every = turns(request)
    for at, turn in enumerate(every):
        if turn.role != "system":
            continue
        before = every[at - 1] if at else None
        paused = before and before.role == "assistant" and before.blocks and is_server_result(before.blocks[-1][2])
        if not (before and (before.role == "user" or paused)) or (
            every[at + 1 : at + 2] and every[at + 1].role != "assistant"
        ):
            yield f"messages.{turn.at}: a system message must follow a user turn and precede an assistant turn"


def user_content_empty(request):
    """Source: a table of live answers in experientiallabs/experiential#804."""
    for at, message in enumerate(request.body["messages"]):
        if message["role"] == "user" and not message["content"]:
            yield f"messages.{at}: user messages must have non-empty content"


def text_empty(request):
    """Source: experientiallabs/experiential#804. Texts inside tool results may be empty."""
    for at, message in enumerate(request.body["messages"]):
        for index, block in enumerate(blocks_of(message)):
            if block["type"] == "text" and not block["text"]:
                yield f"messages.{at}.content.{index}: text content blocks must be non-empty"


def text_blank(request):
    """White space is no message when there is nothing beside it. Source: experientiallabs/experiential#804."""
    for at, message in enumerate(request.body["messages"]):
        blocks = blocks_of(message)
        if blocks and all(block["type"] == "text" and blank(block["text"]) for block in blocks):
            yield f"messages.{at}: text content blocks must contain non-whitespace text"


def system_blank(request):
    """Source: experientiallabs/experiential#804."""
    system = request.body.get("system")
    texts = (
        [system] if isinstance(system, str) else [b["text"] for b in dicts(system) if isinstance(b.get("text"), str)]
    )
    if texts and all(map(blank, texts)) and any(texts):
        yield "system: text content blocks must contain non-whitespace text"


def calls_and_answers(request):
    """Every assistant turn with the ids of its calls and the turn after it, and a first pair for what
    nothing precedes."""
    every = turns(request)
    for before, after in zip([None] + every, every + [None]):
        calls = [] if before is None or before.role != "assistant" else before.blocks
        ids = [block["id"] for _, _, block in calls if block["type"] == "tool_use"]
        yield before, ids, after.blocks if after and after.role == "user" else []


def tool_use_unanswered(request):
    """Source: anthropics/claude-code#5060, Kilo-Org/kilocode#5163, All-Hands-AI/OpenHands#7512."""
    for turn, ids, answer in calls_and_answers(request):
        answered = {block["tool_use_id"] for _, _, block in answer if block["type"] == "tool_result"}
        missing = [i for i in ids if i not in answered]
        if missing:
            yield (
                f"messages.{turn.at}: `tool_use` ids were found without `tool_result` blocks immediately"
                f" after: {quoted(missing)}."
            )


def result_not_first(request):
    """Source: anthropics/anthropic-sdk-typescript#653, aws/language-servers#1235."""
    for _, ids, answer in calls_and_answers(request):
        kinds = [block["type"] == "tool_result" for _, _, block in answer]
        if ids and kinds != sorted(kinds, reverse=True):
            yield (
                f"messages.{answer[0][0]}: Did not find {len(ids)} `tool_result` block(s) at the beginning of"
                " this message."
            )


def tool_result_orphan(request):
    """Source: router-for-me/CLIProxyAPI#497, anthropics/claude-code#13460."""
    for _, ids, answer in calls_and_answers(request):
        for at, index, block in answer:
            if block["type"] == "tool_result" and block["tool_use_id"] not in ids:
                yield (
                    f"messages.{at}.content.{index}: unexpected `tool_use_id` found in `tool_result` blocks:"
                    f" {block['tool_use_id']}."
                    " Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )


def tool_result_twice(request):
    """Source: vectorize-io/hindsight#4250."""
    for _, _, answer in calls_and_answers(request):
        counts = Counter(block["tool_use_id"] for _, _, block in answer if block["type"] == "tool_result")
        for found, count in counts.items():
            if count > 1:
                yield f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {found}"


def tool_use_id_twice(request):
    """Within one turn; later turns may use an id again. Source: trycua/cua#524, BerriAI/litellm#23510; a request in
    pydantic-ai's recordings repeats an id in the next turn and was accepted."""
    for turn, ids, _ in calls_and_answers(request):
        if len(ids) != len(set(ids)):
            yield f"messages.{turn.at}: `tool_use` ids must be unique"


def server_result_orphan(request):
    """Source: anthropics/claude-code#64383."""
    known = set()
    for at, message in enumerate(request.body["messages"]):
        for index, block in enumerate(blocks_of(message)):
            if is_server_use(block):
                known.add(block.get("id"))
            elif is_server_result(block) and block.get("tool_use_id") not in known:
                yield (
                    f"messages.{at}.content.{index}: unexpected `tool_use_id` found in `{block['type']}` blocks:"
                    f" {block.get('tool_use_id')}. Each must have a corresponding `server_tool_use` block before it."
                )


def server_use_unanswered(request):
    """Only a turn at the end, or one that waits for the client's tools as well, may have paused in a server tool.
    Source: the wording for client tools."""
    every = turns(request)
    answered = {b.get("tool_use_id") for turn in every for _, _, b in turn.blocks if is_server_result(b)}
    last = [turn for turn in every if turn.role == "assistant"][-1:]
    for turn in every:
        waits = turn in last and (turn is every[-1] or any(b["type"] == "tool_use" for _, _, b in turn.blocks))
        for at, index, block in [] if waits else turn.blocks:
            if is_server_use(block) and block.get("id") not in answered:
                yield (
                    f"messages.{at}.content.{index}: `{block['type']}` {block.get('id')} was found"
                    " without a corresponding result block"
                )


def cache_markers(request):
    """All cache markers in the order in which the API reads the request."""
    body = request.body
    places = dicts(body.get("tools")) + dicts(body.get("system"))
    for message in body["messages"]:
        for block in blocks_of(message):
            places += dicts(block.get("content")) if block["type"] == "tool_result" else []
            places.append(block)
    return [place["cache_control"] for place in places if isinstance(place.get("cache_control"), dict)]


def too_many_cache_markers(request):
    """The marker at the top level takes a place too. Source: Wei-Shaw/sub2api#176."""
    count = len(cache_markers(request)) + isinstance(request.body.get("cache_control"), dict)
    if count > MAX_MARKERS:
        yield f"A maximum of {MAX_MARKERS} blocks with cache_control may be provided. Found {count}."


def cache_marker_order(request):
    """Source: headroomlabs-ai/headroom#2939."""
    short = False
    for marker in cache_markers(request):
        if marker.get("ttl") == "1h" and short:
            yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
            return
        short = short or marker.get("ttl", "5m") == "5m"


RULES = [
    messages_empty,
    unknown_role,
    first_not_user,
    ends_in_assistant,
    system_misplaced,
    user_content_empty,
    text_empty,
    text_blank,
    system_blank,
    tool_use_unanswered,
    result_not_first,
    tool_result_orphan,
    tool_result_twice,
    tool_use_id_twice,
    server_result_orphan,
    server_use_unanswered,
    too_many_cache_markers,
    cache_marker_order,
] + anthropic_thinking.RULES
