"""Messages, on Anthropic's own host and on those that wrap them."""

import base64
import json
import secrets

from . import OUTPUT_TOKENS, TOOL_NAME, Reply, encode, events, halves, text, unique, whole
from .eventstream import CONTENT_TYPE, frame


def reply(ask):
    """A message, or the events of its making."""
    message = message_of(ask)
    if "invoke-with-response-stream" in ask.path:
        return Reply(CONTENT_TYPE, [wrapped(step) for step in steps(message)])
    if ask.body.get("stream") or "streamRawPredict" in ask.path:
        return events(list(steps(message)))
    return whole(message)


def message_of(ask):
    """The assistant's message; before its calls stands thinking if the request turned it on."""
    blocks = [tool_use(arguments) for arguments in ask.calls] or [{"type": "text", "text": text()}]
    if (ask.body.get("thinking") or {}).get("type") == "enabled":
        signature = base64.b64encode(secrets.token_bytes(60)).decode()
        blocks.insert(0, {"type": "thinking", "thinking": f"I consider {unique('step ')}.", "signature": signature})
    return {
        "id": unique("msg_"),
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": blocks,
        "stop_reason": "end_turn" if ask.move == "say" else "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": ask.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": OUTPUT_TOKENS,
        },
    }


def tool_use(arguments):
    """One call."""
    return {"type": "tool_use", "id": unique("toolu_", 24), "name": TOOL_NAME, "input": arguments}


def steps(message):
    """Every event in order."""
    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        empty, deltas = block_steps(block)
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": OUTPUT_TOKENS}}
    yield {"type": "message_stop"}


def block_steps(block):
    """What a block lacks when it begins, and the deltas that bring it."""
    if block["type"] == "tool_use":
        pieces = halves(json.dumps(block["input"]))
        return {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in halves(block["thinking"])]
        return {"thinking": "", "signature": ""}, deltas + [
            {"type": "signature_delta", "signature": block["signature"]}
        ]
    return {"text": ""}, [{"type": "text_delta", "text": piece} for piece in halves(block["text"])]


def wrapped(step):
    """An event as Bedrock's Invoke sends it."""
    return frame("chunk", {"bytes": base64.b64encode(encode(step)).decode()})


def refusal(message):
    """The body of an error."""
    return {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": message},
        "request_id": unique("req_"),
    }
