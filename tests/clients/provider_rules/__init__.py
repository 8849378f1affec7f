"""Plays the providers: says which of a provider's rules a request breaks, where the provider would answer 400."""

import json
import re
from urllib.parse import unquote

from . import anthropic, bedrock, cohere, gemini, ollama, openai_chat, openai_responses
from .rules import Broken, Request, apply

__all__ = ["FORMATS", "Broken", "check", "detect", "verdict"]

FORMATS = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
    "ollama": ollama,
    "cohere": cohere,
}

# The first that is found decides. A group is the model's name where the path holds it.
PATHS = [
    (re.compile(r"/chat/completions$"), "openai_chat"),
    (re.compile(r"/responses$"), "openai_responses"),
    (re.compile(r"/v1/messages$"), "anthropic"),
    (re.compile(r"/publishers/anthropic/models/([^/]+):(?:rawPredict|streamRawPredict)$"), "anthropic"),
    # Nova has one body for Invoke and Converse.
    (re.compile(r"/model/([^/]*nova[^/]*)/invoke(?:-with-response-stream)?$"), "bedrock"),
    (re.compile(r"/model/(.+)/invoke(?:-with-response-stream)?$"), "anthropic"),
    (re.compile(r"/model/(.+)/converse(?:-stream)?$"), "bedrock"),
    (re.compile(r"/([^/:]+):(?:generateContent|streamGenerateContent)$"), "gemini"),
    (re.compile(r"/api/chat$"), "ollama"),
    (re.compile(r"/v2/chat$"), "cohere"),
]


def detect(path):
    """The name of the format and the model's name in the path, or (None, None) for an unknown path."""
    plain = unquote(path.split("?", 1)[0])
    for pattern, name in PATHS:
        found = pattern.search(plain)
        if found:
            return name, found[1] if pattern.groups else None
    return None, None


def check(path: str, body: bytes) -> list[Broken]:
    """Every rule that the body breaks; an empty list means that the provider accepts it."""
    name, model = detect(path)
    if name is None:
        return [Broken("unknown-path", f"no provider listens at {path.split('?', 1)[0]}")]
    try:
        parsed = json.loads(body.decode("utf-8"), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        return [Broken("not-json", f"We could not parse the JSON body of your request. ({error})")]
    if not isinstance(parsed, dict):
        return [Broken("not-json", "We could not parse the JSON body of your request: expected an object.")]
    module = FORMATS[name]
    request = Request(path, model or model_of(parsed), parsed)
    return apply([module.malformed], request) or apply(rules_for(module, request), request)


def verdict(path, body):
    """What `check` finds, as one text for each rule. It never raises, for its callers owe an answer to each request."""
    try:
        return [str(broken) for broken in check(path, body)]
    except Exception as error:
        return [f"check-failed: {type(error).__name__}: {error}"]


def rules_for(module, request):
    """The rules of a format that hold for the request's model."""
    chosen = getattr(module, "rules_for", None)
    return chosen(request.model) if chosen else module.RULES


def model_of(body):
    """The model that the body names."""
    model = body.get("model", body.get("modelId"))
    return model if isinstance(model, str) else ""


def refuse_constant(name):
    """NaN and the infinities are no JSON."""
    raise ValueError(f"{name} is not a value")
