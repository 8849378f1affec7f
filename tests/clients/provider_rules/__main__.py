"""Line mode: one {"path", "body"} a line comes in, one array of "rule: message" goes out for each."""

import json
import sys

from . import verdict


def answer(line):
    """What the provider says to one line, even if the line is none."""
    try:
        request = json.loads(line)
        # A body that arrived with half a surrogate pair has no bytes of its own; it is refused as no UTF-8.
        path, body = request["path"], request["body"].encode("utf-8", "surrogatepass")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return [f"not-a-request: {type(error).__name__}: {error}"]
    return verdict(path, body)


def main():
    """Answers until the input ends."""
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        out.write(json.dumps(answer(line)).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
