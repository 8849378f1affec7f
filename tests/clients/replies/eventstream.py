"""The binary frames of AWS: two lengths and their checksum, headers, a payload, and a checksum over all of it."""

import struct
import zlib

from . import encode

CONTENT_TYPE = "application/vnd.amazon.eventstream"
STRING = 7


def frame(kind, payload):
    """One event."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    head = b"".join(header(name, value) for name, value in headers.items())
    body = encode(payload)
    lengths = struct.pack(">II", 16 + len(head) + len(body), len(head))
    message = lengths + struct.pack(">I", zlib.crc32(lengths)) + head + body
    return message + struct.pack(">I", zlib.crc32(message))


def header(name, value):
    """One header whose value is a text."""
    return struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", STRING, len(value)) + value.encode()
