"""Chat, version 2."""

import json

from . import OUTPUT_TOKENS, TOOL_NAME, events, halves, text, unique, whole


def reply(ask):
    """A message, or the events of its making."""
    functions = [{"name": TOOL_NAME, "arguments": json.dumps(arguments)} for arguments in ask.calls]
    calls = [{"id": unique(f"{TOOL_NAME}_"), "type": "function", "function": function} for function in functions]
    message = {"role": "assistant", "content": [{"type": "text", "text": text()}]}
    if calls:
        message = {"role": "assistant", "tool_plan": "I will read.", "tool_calls": calls}
    end = {"finish_reason": "TOOL_CALL" if calls else "COMPLETE", "usage": usage(ask)}
    if ask.body.get("stream"):
        return events(list(steps(message, end)))
    return whole({"id": unique("chat-"), "message": message, **end})


def steps(message, end):
    """Every event in order."""
    yield {"type": "message-start", "id": unique("chat-"), "delta": {"message": {"role": "assistant"}}}
    for index, part in enumerate(message.get("content", [])):
        empty = {"type": "text", "text": ""}
        yield {"type": "content-start", "index": index, "delta": {"message": {"content": empty}}}
        for piece in halves(part["text"]):
            yield {"type": "content-delta", "index": index, "delta": {"message": {"content": {"text": piece}}}}
        yield {"type": "content-end", "index": index}
    if "tool_plan" in message:
        yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": message["tool_plan"]}}}
    for index, call in enumerate(message.get("tool_calls", [])):
        begun = {**call, "function": {**call["function"], "arguments": ""}}
        yield {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": begun}}}
        for piece in halves(call["function"]["arguments"]):
            delta = {"message": {"tool_calls": {"function": {"arguments": piece}}}}
            yield {"type": "tool-call-delta", "index": index, "delta": delta}
        yield {"type": "tool-call-end", "index": index}
    yield {"type": "message-end", "delta": end}


def usage(ask):
    """The figures of the request."""
    tokens = {"input_tokens": ask.input_tokens, "output_tokens": OUTPUT_TOKENS}
    return {"billed_units": tokens, "tokens": tokens}


def refusal(message):
    """The body of an error."""
    return {"id": unique("error-"), "message": message}
