"""Every rule of the validator refuses something, sound bodies pass, and so does what real providers accepted."""

import importlib
import json
import pathlib
import re
import subprocess
import sys

import pytest

from provider_rules import FORMATS, check, detect
from provider_rules.rules import name_of

HERE = pathlib.Path(__file__).resolve().parent
RECORDED = HERE.parents[2] / "shared" / "data"
EXAMPLES = {name: importlib.import_module(f"rule_examples.{name}") for name in FORMATS}

# Recorded bodies that are refused all the same, each with the reason.
EDITED_AFTERWARDS = "the ids of call and result differ since the recording was edited; the answer belongs to equal ids"
REFUSED_RECORDINGS = {
    "ddtrace-anthropic-completion-tools-call-with-tool-result-stream-0.json": EDITED_AFTERWARDS,
    "ddtrace-anthropic-completion-tools-call-with-tool-result-stream-help-0.json": EDITED_AFTERWARDS,
}


# Examples from which half a pair may go: the provider holds the other half, or answers come in pieces.
LOOSE = {"state", "reference", "cached", "in pieces"}
# How a call or a result is named where it is a part of an entry.
PAIRED = {"tool_use", "tool_result", "toolUse", "toolResult", "functionCall", "functionResponse"}


def encode(body):
    return json.dumps(body).encode()


def rules_of(module):
    """The names of all rules of a format."""
    return [name_of(rule) for rule in [module.malformed, *module.RULES]]


def accepted():
    for name, examples in EXAMPLES.items():
        for title, body in examples.ACCEPTED.items():
            yield pytest.param(examples.PATH, body, id=f"{name}: {title}")
    for title, body in EXAMPLES["gemini"].ACCEPTED_BY_THREE.items():
        yield pytest.param(EXAMPLES["gemini"].THREE, body, id=f"gemini 3: {title}")


def refused():
    for name, examples in EXAMPLES.items():
        for number, (rule, body, *path) in enumerate(examples.REFUSED):
            yield pytest.param(path[0] if path else examples.PATH, rule, body, id=f"{name}: {number} {rule}")


@pytest.mark.parametrize(("path", "body"), list(accepted()))
def test_accepts(path, body):
    assert check(path, encode(body)) == []


@pytest.mark.parametrize(("path", "rule", "body"), list(refused()))
def test_refuses(path, rule, body):
    assert rule in {broken.rule for broken in check(path, encode(body))}


@pytest.mark.parametrize("name", FORMATS)
def test_every_rule_refuses_something(name):
    rules = rules_of(FORMATS[name])
    assert len(rules) == len(set(rules)), "two rules have one name"
    assert set(rules) == {rule for rule, *_ in EXAMPLES[name].REFUSED}


@pytest.mark.parametrize("name", FORMATS)
def test_half_a_pair_is_refused(name):
    """From each accepted body with calls, every single entry that holds calls or results is taken out."""
    examples = EXAMPLES[name]
    taken = 0
    for title, body in examples.ACCEPTED.items():
        entries = body[examples.ENTRIES]
        if title in LOOSE or isinstance(entries, str):
            continue
        for at, entry in enumerate(entries):
            if examples.is_half(entry):
                rest = {**body, examples.ENTRIES: entries[:at] + entries[at + 1 :]}
                assert check(examples.PATH, encode(rest)), f"{title}, entry {at}"
                taken += 1
    assert taken


def without_one_part(examples, body):
    """The body without one call or result inside an entry that holds several of them."""
    for at, entry in enumerate(body[examples.ENTRIES]):
        for key in ("tool_calls", "content", "parts"):
            parts = entry.get(key) if isinstance(entry.get(key), list) else []
            pairs = [part for part in parts if key == "tool_calls" or PAIRED & ({part.get("type")} | set(part))]
            for gone in pairs if len(pairs) > 1 else []:
                rest = {**entry, key: [part for part in parts if part is not gone]}
                yield {
                    **body,
                    examples.ENTRIES: [*body[examples.ENTRIES][:at], rest, *body[examples.ENTRIES][at + 1 :]],
                }


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"openai_responses"}))
def test_part_of_parallel_calls_is_refused(name):
    examples = EXAMPLES[name]
    accepted_bodies = [body for title, body in examples.ACCEPTED.items() if title not in LOOSE]
    bodies = [rest for body in accepted_bodies for rest in without_one_part(examples, body)]
    assert len(bodies) >= 2
    for body in bodies:
        assert check(examples.PATH, encode(body)), body


@pytest.mark.parametrize(
    ("path", "name", "model"),
    [
        ("/openai/deployments/mine/chat/completions?api-version=1", "openai_chat", None),
        ("/v1beta/openai/chat/completions", "openai_chat", None),
        ("/backend-api/codex/responses", "openai_responses", None),
        ("/v1/responses/compact", None, None),
        ("/anthropic/v1/messages", "anthropic", None),
        ("/v1/messages/count_tokens", None, None),
        ("/v1/projects/p/publishers/anthropic/models/claude-x%4020:streamRawPredict", "anthropic", "claude-x@20"),
        ("/model/us.anthropic.claude-3-v1%3A0/invoke", "anthropic", "us.anthropic.claude-3-v1:0"),
        ("/model/amazon.nova-micro-v1%3A0/invoke-with-response-stream", "bedrock", "amazon.nova-micro-v1:0"),
        ("/model/arn%3Aaws%3Abedrock%3Ax%2Fy/converse-stream", "bedrock", "arn:aws:bedrock:x/y"),
        ("/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", "gemini", "gemini-3-pro"),
        ("/v1beta/models/gemini-3-pro:countTokens", None, None),
        ("/api/chat", "ollama", None),
        ("/v2/chat", "cohere", None),
        ("/v1/chat", None, None),
    ],
)
def test_tells_formats_by_path(path, name, model):
    assert detect(path) == (name, model)


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b'"x"', b"\xff", b"\xef\xbb\xbf{}", b'{"a":NaN}', b'{"a":1} x', b"[" * 100000]
)
def test_refuses_what_is_no_json_object(body):
    assert [broken.rule for broken in check("/v1/chat/completions", body)] == ["not-json"]


def test_refuses_unknown_paths():
    assert [broken.rule for broken in check("/v1/embeddings", b"{}")] == ["unknown-path"]


def test_accepts_duplicate_keys():
    assert check("/api/chat", b'{"messages":[],"messages":[{"role":"user","content":"x"}]}') == []


def test_line_mode_answers_every_line():
    sound = json.dumps({"path": "/api/chat", "body": '{"messages":[{"role":"user","content":"x"}]}'})
    half = '{"path":"/api/chat","body":"{\\"a\\":\\"\ud83d\\"}"}'.encode("utf-8", "surrogatepass")
    lines = [
        sound.encode(),
        b"no json",
        b"[]",
        b'{"path":1,"body":"{}"}',
        half,
        b'{"path":"/api/chat","body":"\\ud800"}',
        b"",
        sound.encode(),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "provider_rules"],
        input=b"\n".join(lines),
        cwd=HERE,
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    assert answers[0] == answers[-1] == []
    assert all(len(answer) == 1 for answer in answers[1:-1])


def recorded():
    """Each recorded body with the path it was sent to."""
    index = RECORDED / "bodies" / "index.json"
    if not index.exists():
        pytest.skip("the recorded bodies are not beside this repository (../shared/data/bodies)")
    for entry in json.loads(index.read_text()):
        path = re.sub(r"^(https?://[^/]+|<[^>]+>)", "", entry["uri"])
        yield RECORDED / entry["file"], path, (RECORDED / entry["file"]).read_bytes()


def test_accepts_what_providers_accepted():
    found, count = {}, 0
    for file, path, body in recorded():
        count += 1
        broken = check(path, body)
        if broken:
            found[file.name] = [str(one) for one in broken]
    assert set(found) == set(REFUSED_RECORDINGS), found
    print(f"{count - len(found)} of {count} recorded bodies are accepted")


def test_recorded_bodies_without_one_result_are_refused():
    taken = 0
    for file, path, body in recorded():
        parsed = json.loads(body)
        stateful = any(parsed.get(key) for key in ("previous_response_id", "conversation", "cachedContent"))
        entries = next(parsed[key] for key in ("messages", "input", "contents") if key in parsed)
        for at, entry in enumerate([] if stateful else entries):
            if holds_result(entry):
                taken += 1
                left = entries[:at] + entries[at + 1 :]
                key = next(key for key in ("messages", "input", "contents") if key in parsed)
                assert check(path, encode({**parsed, key: left})), f"{file.name}, entry {at}"
    assert taken > 100


def holds_result(entry):
    """Whether a recorded entry holds a client's result, in any format."""
    if entry.get("role") in {"tool", "function"} or entry.get("type") == "function_call_output":
        return True
    blocks = entry.get("content") if isinstance(entry.get("content"), list) else entry.get("parts") or []
    keys = {"toolResult", "functionResponse", "function_response"}
    return entry.get("role") != "assistant" and any(b.get("type") == "tool_result" or keys & set(b) for b in blocks)
