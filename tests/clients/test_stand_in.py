"""The stand-in on the wire: it follows its script, plays every format, and takes its own replies back."""

import base64
import http.client
import json
import pathlib
import struct
import subprocess
import sys
import zlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PROMPT = {"role": "user", "content": "hello"}


@pytest.fixture
def connection():
    """A connection to a stand-in of this test's own, kept open throughout."""
    process = subprocess.Popen([sys.executable, "stand_in.py"], cwd=HERE, stdout=subprocess.PIPE)
    opened = http.client.HTTPConnection("127.0.0.1", json.loads(process.stdout.readline())["port"], timeout=10)
    yield opened
    opened.close()
    process.terminate()
    process.wait()
    process.stdout.close()


def send(connection, path, value=None, method="POST", chunked=False):
    """One exchange: the status, the headers and the body."""
    body = None if value is None else json.dumps(value).encode()
    if chunked:
        connection.request(
            method, path, iter([body[:5], body[5:]]), encode_chunked=True, headers={"transfer-encoding": "chunked"}
        )
    else:
        connection.request(method, path, body)
    reply = connection.getresponse()
    return reply.status, dict(reply.getheaders()), reply.read()


def sse(body):
    """The data of each event."""
    lines = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def frames(body):
    """The payload of each frame, by the name of its event; both checksums are verified."""
    found = []
    while body:
        total, head = struct.unpack(">II", body[:8])
        message, body = body[:total], body[total:]
        assert zlib.crc32(message[:8]) == struct.unpack(">I", message[8:12])[0]
        assert zlib.crc32(message[:-4]) == struct.unpack(">I", message[-4:])[0]
        headers = message[12 : 12 + head]
        name = headers.split(b":event-type\x07")[1]
        length = struct.unpack(">H", name[:2])[0]
        found.append((name[2 : 2 + length].decode(), json.loads(message[12 + head : -4])))
    return found


def test_follows_the_script_and_tells_what_arrived(connection):
    path, body = "/v1/chat/completions", {"model": "gpt-5.2", "messages": [PROMPT]}
    assert send(connection, "/__script", ["parallel", "call"])[0] == 200
    counts = []
    for chunked in [False, True, False]:
        status, _, reply = send(connection, path, body, chunked=chunked)
        assert status == 200
        counts.append(len(json.loads(reply)["choices"][0]["message"].get("tool_calls", [])))
    assert counts == [2, 1, 0]
    seen = json.loads(send(connection, "/__requests", method="GET")[2])
    assert [json.loads(request["body"]) for request in seen] == [body] * 3
    assert "content-length" not in seen[1]["headers"] and [request["broken"] for request in seen] == [[]] * 3
    send(connection, "/__requests", method="DELETE")
    assert json.loads(send(connection, "/__requests", method="GET")[2]) == []


def test_refuses_scripts_and_paths_it_does_not_know(connection):
    assert send(connection, "/__script", ["shout"])[0] == 400
    assert send(connection, "/v1/embeddings", {})[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v1/chat/completions", {"model": "gpt-5.2", "messages": []}, ("error", "message")),
        ("/v1/responses", {"model": "gpt-5.2", "input": []}, ("error", "message")),
        ("/v1/messages", {"model": "claude-sonnet-4-5", "messages": []}, ("error", "message")),
        ("/v1beta/models/gemini-3-pro:generateContent", {"contents": []}, ("error", "message")),
        ("/model/amazon.nova-pro-v1:0/converse", {"messages": []}, ("message",)),
        ("/api/chat", {"model": "qwen3", "messages": []}, ("error",)),
        ("/v2/chat", {"model": "command-a", "messages": []}, ("message",)),
    ],
)
def test_refuses_in_the_providers_shape(connection, path, body, where):
    send(connection, "/__script", ["call"])
    status, _, reply = send(connection, path, body)
    found = json.loads(reply)
    for key in where:
        found = found[key]
    assert status == 400 and "-empty: " in found
    assert json.loads(send(connection, "/__requests", method="GET")[2])[0]["broken"] == [found]


def chat(messages, reply):
    message = reply["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in message.get("tool_calls", [])]
    return [*messages, message, *(results or [PROMPT])]


def responses(items, reply):
    calls = [item["call_id"] for item in reply["output"] if item["type"] == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": call, "output": "x"} for call in calls]
    return items + reply["output"] + (outputs or [PROMPT])


def anthropic(messages, reply):
    ids = [block["id"] for block in reply["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": name, "content": "x"} for name in ids]
    return [
        *messages,
        {"role": "assistant", "content": reply["content"]},
        {"role": "user", "content": results or "hello"},
    ]


def gemini(contents, reply):
    content = reply["candidates"][0]["content"]
    calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
    answers = [{"functionResponse": {"id": c["id"], "name": c["name"], "response": {"output": "x"}}} for c in calls]
    return [*contents, content, {"role": "user", "parts": answers or [{"text": "hello"}]}]


def bedrock(messages, reply):
    message = reply["output"]["message"]
    ids = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
    results = [{"toolResult": {"toolUseId": name, "content": [{"text": "x"}]}} for name in ids]
    return [*messages, message, {"role": "user", "content": results or [{"text": "hello"}]}]


def ollama(messages, reply):
    results = [
        {"role": "tool", "tool_name": "read_file", "content": "x"} for _ in reply["message"].get("tool_calls", [])
    ]
    return [*messages, reply["message"], *(results or [PROMPT])]


def cohere(messages, reply):
    return chat(messages, {"choices": [{"message": reply["message"]}]})


MISTRAL = {"model": "mistral-large-latest"}
CLAUDE = {"model": "claude-sonnet-4-5", "max_tokens": 100}
THINKING = {**CLAUDE, "thinking": {"type": "enabled", "budget_tokens": 2000}}
TOOLS = {"toolConfig": {"tools": [{}]}}


@pytest.mark.parametrize(
    ("path", "more", "key", "first", "answer"),
    [
        pytest.param("/v1/chat/completions", {"model": "gpt-5.2"}, "messages", PROMPT, chat, id="chat"),
        pytest.param("/v1/chat/completions", MISTRAL, "messages", PROMPT, chat, id="mistral"),
        pytest.param("/v1/responses", {"model": "gpt-5.2"}, "input", PROMPT, responses, id="responses"),
        pytest.param("/v1/messages", CLAUDE, "messages", PROMPT, anthropic, id="anthropic"),
        pytest.param(
            "/model/us.anthropic.claude-opus-4-6-v1%3A0/invoke", THINKING, "messages", PROMPT, anthropic, id="invoke"
        ),
        pytest.param(
            "/v1beta/models/gemini-3-pro:generateContent",
            {},
            "contents",
            {"parts": [{"text": "x"}]},
            gemini,
            id="gemini",
        ),
        pytest.param(
            "/model/meta.llama4/converse",
            TOOLS,
            "messages",
            {"role": "user", "content": [{"text": "x"}]},
            bedrock,
            id="bedrock",
        ),
        pytest.param("/api/chat", {"model": "qwen3", "stream": False}, "messages", PROMPT, ollama, id="ollama"),
        pytest.param("/v2/chat", {"model": "command-a"}, "messages", PROMPT, cohere, id="cohere"),
    ],
)
def test_takes_its_own_replies_back(connection, path, more, key, first, answer):
    send(connection, "/__script", ["call", "parallel", "say", "parallel", "call", "say"])
    entries = [first]
    for _ in range(7):
        status, _, reply = send(connection, path, {**more, key: entries})
        assert status == 200, reply
        entries = answer(entries, json.loads(reply))


def test_streams_chat_with_usage_when_asked(connection):
    body = {"model": "gpt-5.2", "messages": [PROMPT], "stream": True}
    chunks = sse(send(connection, "/v1/chat/completions", body)[2])
    assert all(chunk["choices"] for chunk in chunks)
    chunks = sse(send(connection, "/v1/chat/completions", {**body, "stream_options": {"include_usage": True}})[2])
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["prompt_tokens"] > 0


def test_streams_gemini_as_events_and_as_an_array(connection):
    path, body = "/v1beta/models/gemini-3-pro:streamGenerateContent", {"contents": [{"parts": [{"text": "x"}]}]}
    assert (
        len(sse(send(connection, path + "?alt=sse", body)[2])) == len(json.loads(send(connection, path, body)[2])) == 2
    )


def test_streams_frames_on_bedrock(connection):
    send(connection, "/__script", ["parallel", "call"])
    body = {"messages": [{"role": "user", "content": [{"text": "x"}]}]}
    names = [name for name, _ in frames(send(connection, "/model/amazon.nova-pro-v1%3A0/converse-stream", body)[2])]
    assert names[0] == "messageStart" and names[-1] == "metadata" and names.count("contentBlockStart") == 2
    body = {"messages": [PROMPT], "anthropic_version": "bedrock-2023-05-31"}
    found = frames(send(connection, "/model/claude/invoke-with-response-stream", body)[2])
    events = [json.loads(base64.b64decode(payload["bytes"]))["type"] for _, payload in found]
    assert events[0] == "message_start" and events[-1] == "message_stop"


def test_streams_lines_from_ollama_and_events_from_cohere(connection):
    send(connection, "/__script", ["parallel", "call"])
    lines = send(connection, "/api/chat", {"model": "qwen3", "messages": [PROMPT]})[2].splitlines()
    assert len(json.loads(lines[0])["message"]["tool_calls"]) == 2 and json.loads(lines[-1])["done"]
    events = sse(send(connection, "/v2/chat", {"model": "command-a", "messages": [PROMPT], "stream": True})[2])
    assert events[0]["type"] == "message-start" and events[-1]["type"] == "message-end"
