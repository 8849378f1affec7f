"""Stands in for the providers: `python3 stand_in.py [PORT]` prints {"port": N} and serves until it is ended.

POST /__script with an array of "say", "call" and "parallel" sets what the next requests are answered with; after the
last of them it says. GET /__requests gives every request that arrived and the rules it broke; DELETE forgets them.
Every other POST is a request to the provider at that path.
"""

import importlib
import json
import sys
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import provider_rules
import replies

REPLIES = {name: importlib.import_module(f"replies.{name}") for name in provider_rules.FORMATS}


class State:
    """The script and the requests; handlers of several connections share them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.moves = deque()
        self.requests = []

    def script(self, moves):
        """Replaces the moves that are left."""
        unknown = [move for move in moves if move not in replies.CALLS]
        if unknown:
            raise ValueError(f"unknown moves: {unknown}")
        with self.lock:
            self.moves = deque(moves)

    def arrived(self, request):
        """Keeps a request, and takes the move that answers it."""
        with self.lock:
            self.requests.append(request)
            return self.moves.popleft() if self.moves else "say"

    def clear(self):
        """Forgets every request."""
        with self.lock:
            self.requests = []

    def seen(self):
        """Every request so far."""
        with self.lock:
            return list(self.requests)


class Handler(BaseHTTPRequestHandler):
    """One connection, kept open between requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    state = State()

    def do_POST(self):
        body = self.read_body()
        if self.path == "/__script":
            self.set_script(body)
            return
        name, model = provider_rules.detect(self.path)
        broken = provider_rules.verdict(self.path, body)
        headers = {key.lower(): value for key, value in self.headers.items()}
        text = body.decode("utf-8", "replace")
        if name is None:
            self.send_json(404, {"error": {"message": broken[0]}})
            return
        move = self.state.arrived({"path": self.path, "headers": headers, "body": text, "broken": broken})
        if broken:
            error = {"x-amzn-errortype": "ValidationException"} if "/model/" in self.path else {}
            self.send_json(400, REPLIES[name].refusal("; ".join(broken)), error)
            return
        parsed = json.loads(body)
        ask = replies.Ask(unquote(self.path), parsed, len(body), model or provider_rules.model_of(parsed), move)
        self.send_reply(REPLIES[name].reply(ask))

    def do_GET(self):
        if self.path == "/__requests":
            self.send_json(200, self.state.seen())
        else:
            self.send_json(404, {})

    def do_DELETE(self):
        if self.path == "/__requests":
            self.state.clear()
        self.send_json(200 if self.path == "/__requests" else 404, {})

    def set_script(self, body):
        """Answers 400 to anything that is no script."""
        try:
            self.state.script(json.loads(body))
        except (ValueError, TypeError) as error:
            self.send_json(400, {"error": str(error)})
        else:
            self.send_json(200, {})

    def read_body(self):
        """The body, sent with its length or in chunks."""
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(pieces)

    def send_json(self, status, value, headers=None):
        """Sends a value with its length."""
        self.send_whole(status, "application/json", json.dumps(value).encode(), headers or {})

    def send_whole(self, status, content_type, body, headers):
        """Sends a body with its length."""
        self.send_response(status)
        for name, value in {"content-type": content_type, "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_reply(self, reply):
        """Sends a reply of one piece with its length, and any other in chunks."""
        if len(reply.pieces) == 1:
            self.send_whole(200, reply.content_type, reply.pieces[0], {})
            return
        self.send_response(200)
        self.send_header("content-type", reply.content_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in reply.pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):
        """Says nothing about requests; the client asks for them."""


def main():
    """Serves until the process ends."""
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Handler)
    print(json.dumps({"port": server.server_port}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
