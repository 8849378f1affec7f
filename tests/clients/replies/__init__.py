"""What the provider of each format answers: `reply` to a move of the script, `refusal` to a body it does not take."""

import json
import secrets
from typing import NamedTuple

TOOL_NAME = "read_file"
CALLS = {"say": 0, "call": 1, "parallel": 2}
OUTPUT_TOKENS = 20


class Ask(NamedTuple):
    """A request that was accepted, and the move to answer it with."""

    path: str
    body: dict
    size: int
    model: str
    move: str

    @property
    def input_tokens(self):
        """A figure in the place of a real count."""
        return self.size // 4 + 1

    @property
    def calls(self):
        """The arguments of each call in the reply."""
        return [{"path": f"src/{unique('file')}.txt"} for _ in range(CALLS[self.move])]


class Reply(NamedTuple):
    """A body in the pieces in which it is sent; a single piece is sent with its length."""

    content_type: str
    pieces: list


def unique(prefix, characters=12):
    """An id that no other reply has."""
    return f"{prefix}{secrets.token_hex(characters)[:characters]}"


def text():
    """A text that no other reply has."""
    return f"This is what the files say, as of {unique('note ')}."


def halves(value):
    """A text in two deltas."""
    return [value[: len(value) // 2], value[len(value) // 2 :]]


def whole(value):
    """A reply in one piece."""
    return Reply("application/json", [encode(value)])


def encode(value):
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def events(values, named=True, end=b""):
    """A stream of server-sent events; those of some formats are named by their type."""
    pieces = []
    for value in values:
        name = f"event: {value['type']}\n".encode() if named else b""
        pieces.append(name + b"data: " + encode(value) + b"\n\n")
    return Reply("text/event-stream", pieces + [end] * bool(end))
