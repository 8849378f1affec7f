"""Responses: calls come with the reasoning that led to them, encrypted."""

import base64
import json
import secrets

from . import OUTPUT_TOKENS, TOOL_NAME, events, halves, text, unique, whole


def reply(ask):
    """A response, or the events of its making."""
    items = items_of(ask)
    if not ask.body.get("stream"):
        return whole(response(ask, unique("resp_"), items, "completed"))
    made = list(steps(ask, items))
    return events([{**event, "sequence_number": number} for number, event in enumerate(made)])


def items_of(ask):
    """The output items."""
    calls = ask.calls
    if not calls:
        part = {"type": "output_text", "text": text(), "annotations": [], "logprobs": []}
        return [
            {"id": unique("msg_"), "type": "message", "status": "completed", "role": "assistant", "content": [part]}
        ]
    secret = base64.b64encode(secrets.token_bytes(90)).decode()
    reasoning = {"id": unique("rs_"), "type": "reasoning", "summary": [], "encrypted_content": secret}
    return [reasoning] + [call(arguments) for arguments in calls]


def call(arguments):
    """One call."""
    return {
        "id": unique("fc_"),
        "type": "function_call",
        "status": "completed",
        "call_id": unique("call_", 24),
        "name": TOOL_NAME,
        "arguments": json.dumps(arguments),
    }


def steps(ask, items):
    """Every event in order, without its number."""
    name = unique("resp_")
    yield {"type": "response.created", "response": response(ask, name, [], "in_progress")}
    yield {"type": "response.in_progress", "response": response(ask, name, [], "in_progress")}
    for index, item in enumerate(items):
        place = {"item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun(item)}
        if item["type"] == "message":
            yield from text_steps(item["content"][0], {**place, "content_index": 0})
        elif item["type"] == "function_call":
            for piece in halves(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            yield {
                "type": "response.function_call_arguments.done",
                **place,
                "name": item["name"],
                "arguments": item["arguments"],
            }
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response(ask, name, items, "completed")}


def begun(item):
    """An item as it is when it is added."""
    empty = {"message": {"content": []}, "function_call": {"arguments": ""}}.get(item["type"], {})
    return {**item, **empty, **({"status": "in_progress"} if "status" in item else {})}


def text_steps(part, place):
    """How a text comes."""
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in halves(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def response(ask, name, items, status):
    """The object around the items."""
    usage = {
        "input_tokens": ask.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": ask.input_tokens + OUTPUT_TOKENS,
    }
    return {
        "id": name,
        "object": "response",
        "created_at": 1767225600,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": ask.body.get("instructions"),
        "metadata": {},
        "model": ask.model,
        "output": items,
        "parallel_tool_calls": True,
        "store": False,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }


def refusal(message):
    """The body of an error."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": "input", "code": None}}
