"""How Anthropic reads messages: as turns of blocks."""

from typing import NamedTuple


class Turn(NamedTuple):
    """Neighbouring messages of one role: the first one's index, and each block with its message's index and its own."""

    role: str
    at: int
    blocks: list


def blocks_of(message):
    """The blocks of a message; a text stands for one block, an empty one for none."""
    content = message["content"]
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


def turns(request):
    """All turns in order."""
    found = []
    for at, message in enumerate(request.body["messages"]):
        if not found or found[-1].role != message["role"]:
            found.append(Turn(message["role"], at, []))
        found[-1].blocks.extend((at, index, block) for index, block in enumerate(blocks_of(message)))
    return found


def is_server_use(block):
    """Whether a block is a call that the provider carries out itself."""
    return block["type"] in {"server_tool_use", "mcp_tool_use"}


def is_server_result(block):
    """Whether a block is the result of such a call."""
    return block["type"].endswith("_tool_result")
