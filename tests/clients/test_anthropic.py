"""The anthropic SDK on Messages."""

import anthropic
import pytest

import conversation
from conversation import SYSTEM_PROMPT, TIMEOUT_SECONDS, TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA

TOOLS = [{"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "input_schema": TOOL_SCHEMA}]


class Agent:
    """Appends content blocks as the SDK returns them; the results of one reply stand in one message."""

    def __init__(self, model, streaming, **options):
        self.client = anthropic.Anthropic(
            api_key="key", base_url=conversation.filter_url(), max_retries=0, timeout=TIMEOUT_SECONDS
        )
        self.request = {"model": model, "max_tokens": 4000, "system": SYSTEM_PROMPT, "tools": TOOLS, **options}
        self.streaming = streaming
        self.messages = []

    def prompt(self, text):
        self.messages.append({"role": "user", "content": text})

    def ask(self):
        if self.streaming:
            with self.client.messages.stream(messages=self.messages, **self.request) as stream:
                message = stream.get_final_message()
        else:
            message = self.client.messages.create(messages=self.messages, **self.request)
        self.messages.append({"role": "assistant", "content": message.content})
        texts = [block.text for block in message.content if block.type == "text"]
        return texts, [block.id for block in message.content if block.type == "tool_use"]

    def answer(self, results):
        blocks = [{"type": "tool_result", "tool_use_id": call, "content": text} for call, text in results]
        self.messages.append({"role": "user", "content": blocks})


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_messages(stand_in, streaming):
    talk = conversation.play(Agent("claude-sonnet-4-5", streaming), stand_in)
    requests = stand_in.requests()
    conversation.assert_sound(talk, requests, "messages")
    conversation.assert_old_results_gone(talk, requests)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_messages_with_thinking(stand_in, streaming):
    """Next to thinking a result is shortened; the assistant's messages stay as they are."""
    thinking = {"type": "enabled", "budget_tokens": 2000}
    talk = conversation.play(Agent("claude-sonnet-4-5", streaming, thinking=thinking), stand_in)
    requests = stand_in.requests()
    conversation.assert_sound(talk, requests, "messages")
    conversation.assert_old_results_shortened(talk, requests)
