"""boto3 on Bedrock's Converse, with a bearer key.

A signature would cover the body that the filter changes; a bearer key does not. boto3 sends AWS_BEARER_TOKEN_BEDROCK
over TLS only, and the filter's listener speaks plain HTTP: so the client does not sign, and sets the header by itself.
"""

import json
import os

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config

import conversation
from conversation import SYSTEM_PROMPT, TIMEOUT_SECONDS, TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA

TOOLS = {
    "tools": [
        {"toolSpec": {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "inputSchema": {"json": TOOL_SCHEMA}}}
    ]
}


class Agent:
    """Appends messages as boto3 returns them; streams have no helper and are put together by hand."""

    def __init__(self, client, model, streaming):
        self.client = client
        self.model = model
        self.streaming = streaming
        self.messages = []

    def prompt(self, text):
        self.messages.append({"role": "user", "content": [{"text": text}]})

    def ask(self):
        request = {
            "modelId": self.model,
            "system": [{"text": SYSTEM_PROMPT}],
            "messages": self.messages,
            "toolConfig": TOOLS,
        }
        if self.streaming:
            message = put_together(self.client.converse_stream(**request)["stream"])
        else:
            message = self.client.converse(**request)["output"]["message"]
        self.messages.append(message)
        texts = [block["text"] for block in message["content"] if "text" in block]
        return texts, [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]

    def answer(self, results):
        blocks = [{"toolResult": {"toolUseId": call, "content": [{"text": text}]}} for call, text in results]
        self.messages.append({"role": "user", "content": blocks})


def client(url, **config):
    """A client of Bedrock behind an address."""
    limits = {"connect_timeout": TIMEOUT_SECONDS, "read_timeout": TIMEOUT_SECONDS, "retries": {"total_max_attempts": 1}}
    settings = {"region_name": "us-east-1", "endpoint_url": url, "config": Config(**limits, **config)}
    return boto3.client("bedrock-runtime", **settings)


def set_key(request, **_):
    """The header that boto3 would set over TLS."""
    request.headers["Authorization"] = "Bearer " + os.environ["AWS_BEARER_TOKEN_BEDROCK"]


def put_together(events):
    """The message that a stream of events describes."""
    role, blocks, inputs = None, {}, {}
    for event in events:
        if "messageStart" in event:
            role = event["messageStart"]["role"]
        elif "contentBlockStart" in event:
            start = event["contentBlockStart"]
            blocks[start["contentBlockIndex"]] = {"toolUse": dict(start["start"]["toolUse"])}
        elif "contentBlockDelta" in event:
            index, delta = event["contentBlockDelta"]["contentBlockIndex"], event["contentBlockDelta"]["delta"]
            if "toolUse" in delta:
                inputs[index] = inputs.get(index, "") + delta["toolUse"]["input"]
            else:
                block = blocks.setdefault(index, {"text": ""})
                block["text"] += delta["text"]
    for index, block in blocks.items():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(inputs.get(index) or "{}")
    return {"role": role, "content": [blocks[index] for index in sorted(blocks)]}


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["amazon.nova-pro-v1:0", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"])
def test_converse(stand_in, monkeypatch, model, streaming):
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key")
    unsigned = client(conversation.filter_url(), signature_version=UNSIGNED)
    unsigned.meta.events.register("request-created.bedrock-runtime", set_key)
    talk = conversation.play(Agent(unsigned, model, streaming), stand_in)
    requests = stand_in.requests()
    conversation.assert_sound(talk, requests, "messages")
    conversation.assert_old_results_gone(talk, requests)
