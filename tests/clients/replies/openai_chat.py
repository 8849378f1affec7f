"""Chat Completions."""

import json

from . import OUTPUT_TOKENS, TOOL_NAME, events, halves, text, unique, whole


def reply(ask):
    """A completion, or its chunks."""
    message, reason = message_of(ask)
    if not ask.body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        return whole({**head("chat.completion", ask), "choices": [choice], "usage": usage(ask)})
    chunks = [chunk(ask, delta) for delta in deltas(message)] + [chunk(ask, {}, reason)]
    if (ask.body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head("chat.completion.chunk", ask), "choices": [], "usage": usage(ask)})
    # All chunks belong to one completion.
    return events([{**value, "id": chunks[0]["id"]} for value in chunks], named=False, end=b"data: [DONE]\n\n")


def message_of(ask):
    """The assistant's message, and why it ends."""
    calls = ask.calls
    if not calls:
        return {"role": "assistant", "content": text(), "refusal": None}, "stop"
    # Mistral's ids are nine letters and digits.
    ids = [unique("", 9) if "mistral" in ask.model else unique("call_", 24) for _ in calls]
    functions = [{"name": TOOL_NAME, "arguments": json.dumps(arguments)} for arguments in calls]
    made = [{"id": i, "type": "function", "function": function} for i, function in zip(ids, functions)]
    return {"role": "assistant", "content": None, "refusal": None, "tool_calls": made}, "tool_calls"


def deltas(message):
    """The pieces of a message: its text in halves, each call's head and then its arguments in halves."""
    yield {"role": "assistant", "content": message["content"] and "", "refusal": None}
    for piece in halves(message["content"] or "")[: 2 * bool(message["content"])]:
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls", [])):
        function = call["function"]
        yield {"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]}
        for piece in halves(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def chunk(ask, delta, reason=None):
    """One chunk of the stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
    return {**head("chat.completion.chunk", ask), "choices": [choice]}


def head(kind, ask):
    """What every object of the format begins with."""
    return {"id": unique("chatcmpl-"), "object": kind, "created": 1767225600, "model": ask.model}


def usage(ask):
    """The figures of the request."""
    return {
        "prompt_tokens": ask.input_tokens,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": ask.input_tokens + OUTPUT_TOKENS,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def refusal(message):
    """The body of an error."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": None}}
