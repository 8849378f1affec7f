"""generateContent: calls have ids, and the first one a signature."""

import base64
import secrets

from . import OUTPUT_TOKENS, TOOL_NAME, Reply, encode, events, halves, text, unique, whole


def reply(ask):
    """A candidate, or one part after the other."""
    parts = parts_of(ask)
    name = unique("response")
    if ":streamGenerateContent" not in ask.path:
        return whole(response(ask, name, parts, "STOP"))
    chunks = [response(ask, name, [part], None) for part in pieces(parts)]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    if "alt=sse" in ask.path:
        return events(chunks, named=False)
    # Without it the stream is one array.
    encoded = [encode(chunk) for chunk in chunks]
    return Reply("application/json", [b"[" + encoded[0]] + [b"," + chunk for chunk in encoded[1:]] + [b"]"])


def parts_of(ask):
    """The parts of the model's content."""
    calls = [{"id": unique("", 8), "name": TOOL_NAME, "args": arguments} for arguments in ask.calls]
    if not calls:
        return [{"text": text()}]
    parts = [{"functionCall": call} for call in calls]
    parts[0]["thoughtSignature"] = base64.b64encode(secrets.token_bytes(60)).decode()
    return parts


def pieces(parts):
    """Texts in halves, calls whole."""
    for part in parts:
        yield from ([{"text": piece} for piece in halves(part["text"])] if "text" in part else [part])


def response(ask, name, parts, reason):
    """The object around the parts; every one of a stream tells the usage."""
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    usage = {
        "promptTokenCount": ask.input_tokens,
        "candidatesTokenCount": OUTPUT_TOKENS,
        "totalTokenCount": ask.input_tokens + OUTPUT_TOKENS,
    }
    return {
        "candidates": [{**candidate, **({"finishReason": reason} if reason else {})}],
        "usageMetadata": usage,
        "modelVersion": ask.model,
        "responseId": name,
    }


def refusal(message):
    """The body of an error."""
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
