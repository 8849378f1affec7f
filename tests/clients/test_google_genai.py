"""The google-genai SDK on generateContent. Results leave from turns before the current one only."""

import pytest
from google import genai
from google.genai import types

import conversation
from conversation import SYSTEM_PROMPT, TIMEOUT_SECONDS, TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA

CONFIG = types.GenerateContentConfig(
    system_instruction=SYSTEM_PROMPT,
    tools=[
        types.Tool(
            function_declarations=[
                types.FunctionDeclaration(
                    name=TOOL_NAME, description=TOOL_DESCRIPTION, parameters_json_schema=TOOL_SCHEMA
                )
            ]
        )
    ],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


class Agent:
    """Appends contents as the SDK returns them, with their thought signatures. A stream's chunks become one content."""

    def __init__(self, model, streaming):
        self.client = genai.Client(
            api_key="key",
            http_options=types.HttpOptions(
                base_url=conversation.filter_url(),
                timeout=TIMEOUT_SECONDS * 1000,
                retry_options=types.HttpRetryOptions(attempts=1),
            ),
        )
        self.model = model
        self.streaming = streaming
        self.contents = []

    def prompt(self, text):
        self.contents.append(types.Content(role="user", parts=[types.Part.from_text(text=text)]))

    def ask(self):
        request = {"model": self.model, "contents": self.contents, "config": CONFIG}
        if self.streaming:
            content = types.Content(role="model", parts=[])
            for chunk in self.client.models.generate_content_stream(**request):
                piece = chunk.candidates[0].content if chunk.candidates else None
                # The end of a stream is an empty part; only its signature is worth keeping.
                content.parts += [p for p in (piece and piece.parts) or [] if p.text != "" or p.thought_signature]
        else:
            content = self.client.models.generate_content(**request).candidates[0].content
        self.contents.append(content)
        texts = [part.text for part in content.parts if part.text and not part.thought]
        return texts, [part.function_call for part in content.parts if part.function_call]

    def answer(self, results):
        parts = []
        for call, text in results:
            part = types.Part.from_function_response(name=call.name, response={"result": text})
            part.function_response.id = call.id
            parts.append(part)
        self.contents.append(types.Content(role="user", parts=parts))


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro-preview"])
def test_generate_content(stand_in, model, streaming):
    talk = conversation.play(Agent(model, streaming), stand_in)
    requests = stand_in.requests()
    conversation.assert_sound(talk, requests, "contents")
    conversation.assert_old_results_gone(talk, requests)
