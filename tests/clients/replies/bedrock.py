"""Converse, and Invoke of models whose body is the same."""

import base64
import json

from . import OUTPUT_TOKENS, TOOL_NAME, Reply, encode, halves, text, unique, whole
from .eventstream import CONTENT_TYPE, frame


def reply(ask):
    """A message, or the events of its making."""
    blocks = [tool_use(arguments) for arguments in ask.calls] or [{"text": text()}]
    reason = "end_turn" if ask.move == "say" else "tool_use"
    end = {"usage": usage(ask), "metrics": {"latencyMs": 1}}
    if ask.path.endswith("/converse-stream"):
        return Reply(CONTENT_TYPE, [frame(kind, payload) for kind, payload in steps(blocks, reason, end)])
    if ask.path.endswith("/invoke-with-response-stream"):
        events = [encode({kind: payload}) for kind, payload in steps(blocks, reason, end)]
        return Reply(CONTENT_TYPE, [frame("chunk", {"bytes": base64.b64encode(event).decode()}) for event in events])
    return whole({"output": {"message": {"role": "assistant", "content": blocks}}, "stopReason": reason, **end})


def tool_use(arguments):
    """One call."""
    return {"toolUse": {"toolUseId": unique("tooluse_", 22), "name": TOOL_NAME, "input": arguments}}


def steps(blocks, reason, end):
    """Every event in order, with its name."""
    yield "messageStart", {"role": "assistant"}
    for index, block in enumerate(blocks):
        place = {"contentBlockIndex": index}
        if "toolUse" in block:
            use = block["toolUse"]
            start = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
            yield "contentBlockStart", {"start": start, **place}
            deltas = [{"toolUse": {"input": piece}} for piece in halves(json.dumps(use["input"]))]
        else:
            deltas = [{"text": piece} for piece in halves(block["text"])]
        for delta in deltas:
            yield "contentBlockDelta", {"delta": delta, **place}
        yield "contentBlockStop", place
    yield "messageStop", {"stopReason": reason}
    yield "metadata", end


def usage(ask):
    """The figures of the request."""
    total = ask.input_tokens + OUTPUT_TOKENS
    return {"inputTokens": ask.input_tokens, "outputTokens": OUTPUT_TOKENS, "totalTokens": total}


def refusal(message):
    """The body of an error, whose name stands in a header."""
    return {"message": message}
