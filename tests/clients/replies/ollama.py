"""Ollama's own chat, which streams lines unless it is asked not to."""

from . import OUTPUT_TOKENS, TOOL_NAME, Reply, encode, halves, text, whole

CREATED = "2026-01-01T00:00:00Z"


def reply(ask):
    """A message, or lines of it."""
    calls = [{"function": {"name": TOOL_NAME, "arguments": arguments}} for arguments in ask.calls]
    said = "" if calls else text()
    if ask.body.get("stream") is False:
        return whole({**line(ask, said, calls), **end(ask)})
    lines = [line(ask, piece, []) for piece in halves(said) if piece] + [line(ask, "", calls)] * bool(calls)
    lines.append({**line(ask, "", []), **end(ask)})
    return Reply("application/x-ndjson", [encode(value) + b"\n" for value in lines])


def line(ask, said, calls):
    """A piece of the message."""
    message = {"role": "assistant", "content": said, **({"tool_calls": calls} if calls else {})}
    return {"model": ask.model, "created_at": CREATED, "message": message, "done": False}


def end(ask):
    """What the last line tells besides."""
    figures = {"prompt_eval_count": ask.input_tokens, "eval_count": OUTPUT_TOKENS}
    return {"done": True, "done_reason": "stop", "total_duration": 1, **figures}


def refusal(message):
    """The body of an error."""
    return {"error": message}
