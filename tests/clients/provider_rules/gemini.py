"""generateContent: the rules of Gemini, on Google's two hosts. Keys may be written in camel case or in snake case."""

import re
from collections import Counter

from .rules import dicts, not_objects, quoted, type_name

# What a part may hold; a part that holds none of them is unset, and so is one with an empty text.
DATA = (
    "text",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
SNAKE = {
    name: re.sub("([A-Z])", lambda found: "_" + found[1].lower(), name)
    for name in (*DATA, "thoughtSignature", "willContinue")
}
USER_ROLES = {"user", "function", "tool"}


def get(part, name):
    """A member under either spelling."""
    return part.get(name, part.get(SNAKE[name]))


def parts(content):
    """The parts of a content."""
    return content.get("parts") or []


def calls(content):
    """The calls in a content of the model."""
    return [call for call in (get(part, "functionCall") for part in parts(content)) if call is not None]


def responses(content):
    """The responses in a content of the user."""
    return [response for response in (get(part, "functionResponse") for part in parts(content)) if response is not None]


def role(content):
    """The role of a content; without one it is the user's."""
    return content.get("role") or "user"


def is_cached(request):
    """Whether the conversation begins in a cache at the provider."""
    return bool(request.body.get("cachedContent") or request.body.get("cached_content"))


def neighbours(request):
    """Each content with its index, the one before and the one after it; an empty one where there is none."""
    contents = request.body["contents"]
    return [
        (at, contents[at - 1] if at else {}, content, contents[at + 1] if at + 1 < len(contents) else {})
        for at, content in enumerate(contents)
    ]


def malformed(request):
    """Source: schema of Content and Part."""
    contents = request.body.get("contents")
    if isinstance(contents, dict):
        request.body["contents"] = contents = [contents]
    yield from not_objects(contents, "contents")
    for at, content in enumerate(dicts(contents)):
        if not isinstance(role(content), str):
            yield f"Invalid value at 'contents[{at}].role'"
        if content.get("parts") is not None:
            yield from not_objects(content["parts"], f"contents[{at}].parts")
        for index, part in enumerate(dicts(content.get("parts"))):
            yield from malformed_part(part, f"contents[{at}].parts[{index}]")


def malformed_part(part, place):
    """What keeps one part from being read."""
    if not isinstance(part.get("text"), (str, type(None))):
        yield f"Invalid value at '{place}.text'"
    for name in ("functionCall", "functionResponse"):
        value = get(part, name)
        if not isinstance(value, (dict, type(None))):
            yield f"Invalid value at '{place}.{name}'"
        elif value and not (isinstance(value.get("name"), str) and isinstance(value.get("id", ""), str)):
            yield f"Invalid value at '{place}.{name}': name and id are strings"


def contents_empty(request):
    """Source: schema."""
    if not request.body["contents"]:
        yield "* GenerateContentRequest.contents: contents is not specified"


def unknown_role(request):
    """Source: schema."""
    for content in request.body["contents"]:
        if role(content) not in USER_ROLES | {"model"}:
            yield f"Please use a valid role: user, model. (got {role(content)})"


def first_not_user(request):
    """Source: the API's guide to conversations; the order of turns below says the same of a call turn."""
    first = (request.body["contents"] or [{}])[0]
    if role(first) not in USER_ROLES and not is_cached(request):
        yield "Please ensure that multiturn requests start with a user turn. (contents[0])"


def parts_empty(request):
    """Source: vercel/ai#3775; Vertex says `must include at least one parts field`."""
    for at, content in enumerate(request.body["contents"]):
        if not parts(content):
            yield f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."


def part_unset(request):
    """A signature may arrive beside an empty text and is sent back so. Source: router-for-me/CLIProxyAPI#1293,
    langgenius/dify#30566, Google's guide to thought signatures."""
    for at, content in enumerate(request.body["contents"]):
        for index, part in enumerate(parts(content)):
            unset = all(get(part, name) in (None, "") for name in DATA)
            if unset and not get(part, "thoughtSignature"):
                yield (
                    f"* GenerateContentRequest.contents[{at}].parts[{index}].data: required oneof field"
                    " 'data' must have one initialized field"
                )


def counts_differ(request):
    """All responses to a turn's calls stand in the next turn. Source: google-gemini/gemini-cli#16415 and #4217,
    cloudwego/eino-ext#571, microsoft/vscode#299295. A response that goes on may come in several pieces."""
    for at, _, content, after in neighbours(request):
        called, answered = len(calls(content)), responses(after)
        if called and called != len(answered) and not any(get(response, "willContinue") for response in answered):
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call parts"
                f" of the function call turn. (contents[{at}]: {called} calls, {len(answered)} responses)"
            )


def call_turn_misplaced(request):
    """Source: google-gemini/gemini-cli#26486 and #11814, lobehub/lobe-chat#10049."""
    for at, before, content, _ in neighbours(request):
        if calls(content) and (role(before) not in USER_ROLES or at == 0) and not (at == 0 and is_cached(request)):
            yield (
                "Please ensure that function call turn comes immediately after a user turn or after a"
                " function response turn."
                f" (contents[{at}])"
            )


def response_turn_misplaced(request):
    """Source: google/generative-ai-docs#368, langchain-ai/langchain#27799, BerriAI/litellm#26755."""
    for at, before, content, _ in neighbours(request):
        more = any(get(response, "willContinue") for response in responses(before))
        if responses(content) and not calls(before) and not more and not (at == 0 and is_cached(request)):
            yield (
                "Please ensure that function response turn comes immediately after a function call turn."
                f" (contents[{at}])"
            )


def id_differs(request):
    """Ids are given by newer models only. Source: router-for-me/CLIProxyAPI#5199."""
    for at, _, content, after in neighbours(request):
        called = Counter(call["id"] for call in calls(content) if call.get("id"))
        answered = Counter(response["id"] for response in responses(after) if response.get("id"))
        if called and answered and called != answered:
            ours, theirs = quoted(answered - called), quoted(called - answered)
            yield f'functionResponse.id "{ours}" does not match functionCall.id "{theirs}" (contents[{at}])'


def name_differs(request):
    """Without ids, calls and responses are matched by place, and by name as a check. Source: schema of
    FunctionResponse."""
    for at, _, content, after in neighbours(request):
        called = Counter(call.get("name") for call in calls(content))
        answered = Counter(response.get("name") for response in responses(after))
        if called and answered and set(called) != set(answered):
            yield (
                f"functionResponse.name does not match functionCall.name: {sorted(map(str, called))},"
                f" {sorted(map(str, answered))} (contents[{at}])"
            )


def response_no_object(request):
    """Source: schema; `response` is a Struct."""
    for at, content in enumerate(request.body["contents"]):
        for response in responses(content):
            if not isinstance(response.get("response"), dict):
                yield (
                    f"Invalid value at 'contents[{at}].function_response.response' (Struct),"
                    f" {type_name(response.get('response'))}"
                )


def current_turn(contents):
    """Where the current turn begins: after the last content in which the user says something of their own."""
    for at in range(len(contents) - 1, -1, -1):
        own = [part for part in parts(contents[at]) if get(part, "functionResponse") is None]
        if role(contents[at]) in USER_ROLES and own:
            return at + 1
    return 0


def signature_missing(request):
    """The first call of each step of the current turn carries the signature; of older turns none is asked for.
    Source: Google's guide to thought signatures, lbjlaq/Antigravity-Manager#3202."""
    if not request.model.startswith("gemini-3"):
        return
    contents = request.body["contents"]
    for at in range(current_turn(contents), len(contents)):
        first = next((part for part in parts(contents[at]) if get(part, "functionCall") is not None), None)
        if first is not None and not get(first, "thoughtSignature"):
            yield (
                "Function call is missing a thought_signature in functionCall parts. This is required for"
                " tools to work correctly."
                f" Additional data, function call `default_api:{get(first, 'functionCall').get('name')}` ,"
                f" position {at}."
            )


RULES = [
    contents_empty,
    unknown_role,
    first_not_user,
    parts_empty,
    part_unset,
    counts_differ,
    call_turn_misplaced,
    response_turn_misplaced,
    id_differs,
    name_differs,
    response_no_object,
    signature_missing,
]
