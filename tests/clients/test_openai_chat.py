"""The openai SDK on Chat Completions."""

import openai
import pytest

import conversation
from conversation import SYSTEM_PROMPT, TIMEOUT_SECONDS, TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA

TOOLS = [
    {
        "type": "function",
        "function": {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_SCHEMA, "strict": True},
    }
]


class Agent:
    """Appends messages as the SDK returns them."""

    def __init__(self, model, how):
        self.client = openai.OpenAI(
            api_key="key", base_url=conversation.filter_url() + "/v1", max_retries=0, timeout=TIMEOUT_SECONDS
        )
        self.model = model
        self.receive = {"whole": self.whole, "stream": self.stream, "deltas": self.deltas}[how]
        self.messages = [{"role": "system", "content": SYSTEM_PROMPT}]

    def prompt(self, text):
        self.messages.append({"role": "user", "content": text})

    def ask(self):
        message, text, calls = self.receive(model=self.model, messages=self.messages, tools=TOOLS)
        self.messages.append(message)
        return [text] if text else [], calls

    def answer(self, results):
        for call, text in results:
            self.messages.append({"role": "tool", "tool_call_id": call, "content": text})

    def whole(self, **request):
        message = self.client.chat.completions.create(**request).choices[0].message
        return message, message.content, [call.id for call in message.tool_calls or []]

    def stream(self, **request):
        """Through the SDK's helper, which parses arguments and puts them into the message as well."""
        with self.client.chat.completions.stream(**request) as stream:
            message = stream.get_final_completion().choices[0].message
        return message, message.content, [call.id for call in message.tool_calls or []]

    def deltas(self, **request):
        """By hand, as agents do that show text while it arrives."""
        text, calls = "", {}
        for chunk in self.client.chat.completions.create(stream=True, **request):
            if not chunk.choices:
                continue
            delta = chunk.choices[0].delta
            text += delta.content or ""
            for piece in delta.tool_calls or []:
                call = calls.setdefault(
                    piece.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] += piece.id or ""
                call["function"]["name"] += piece.function.name or ""
                call["function"]["arguments"] += piece.function.arguments or ""
        message = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = list(calls.values())
        return message, text, [call["id"] for call in calls.values()]


@pytest.mark.parametrize("how", ["whole", "stream", "deltas"])
@pytest.mark.parametrize("model", ["gpt-5.2"])
def test_chat_completions(stand_in, model, how):
    talk = conversation.play(Agent(model, how), stand_in)
    requests = stand_in.requests()
    conversation.assert_sound(talk, requests, "messages")
    conversation.assert_old_results_gone(talk, requests)
