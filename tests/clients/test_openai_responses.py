"""The openai SDK on Responses, without state at the provider and with encrypted reasoning."""

import openai
import pytest

import conversation
from conversation import SYSTEM_PROMPT, TIMEOUT_SECONDS, TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA

TOOLS = [
    {"type": "function", "name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_SCHEMA, "strict": True}
]


class Agent:
    """Appends all output items, reasoning among them, as the SDK returns them."""

    def __init__(self, model, streaming):
        self.client = openai.OpenAI(
            api_key="key", base_url=conversation.filter_url() + "/v1", max_retries=0, timeout=TIMEOUT_SECONDS
        )
        self.model = model
        self.streaming = streaming
        self.input = []

    def prompt(self, text):
        self.input.append({"role": "user", "content": text})

    def ask(self):
        request = {
            "model": self.model,
            "instructions": SYSTEM_PROMPT,
            "input": self.input,
            "tools": TOOLS,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if self.streaming:
            with self.client.responses.stream(**request) as stream:
                response = stream.get_final_response()
        else:
            response = self.client.responses.create(**request)
        self.input += response.output
        texts = [part.text for item in response.output if item.type == "message" for part in item.content]
        return texts, [item.call_id for item in response.output if item.type == "function_call"]

    def answer(self, results):
        for call, text in results:
            self.input.append({"type": "function_call_output", "call_id": call, "output": text})


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_responses(stand_in, streaming):
    talk = conversation.play(Agent("gpt-5.2", streaming), stand_in)
    requests = stand_in.requests()
    conversation.assert_sound(talk, requests, "input")
    conversation.assert_old_results_gone(talk, requests)
