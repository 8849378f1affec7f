"""What all clients share: the script of an agent's conversation, and what must be true of the requests that arrived."""

import json
import os
import secrets
import urllib.request

SYSTEM_PROMPT = "You maintain a small program. Read before you answer."
TURNS = [
    ["call", "parallel", "call", "call", "say"],
    ["call", "parallel", "call", "say"],
    ["call", "call", "call", "say"],
]
TOOL_NAME = "read_file"
TOOL_DESCRIPTION = "Reads a file of the project."
TOOL_SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "Where the file is."}},
    "required": ["path"],
    "additionalProperties": False,
}
TIMEOUT_SECONDS = 15
RESULT_CHARS = 6000


class StandIn:
    """The recording stand-in for the provider, reached past the filter."""

    def __init__(self, url):
        self.url = url.rstrip("/")

    def _send(self, method, path, data=None):
        body = None if data is None else json.dumps(data).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as reply:
            return reply.read()

    def script(self, moves):
        """Says how the next requests are answered."""
        self._send("POST", "/__script", moves)

    def clear(self):
        """Forgets every request."""
        self._send("DELETE", "/__requests")
        self.script([])

    def requests(self):
        """Every request since the last `clear`."""
        return json.loads(self._send("GET", "/__requests"))


class Talk:
    """What the client said, heard and read."""

    def __init__(self):
        self.said = []  # prompts and the assistant's texts, in order
        self.results = []  # every tool result; number n at n - 1
        self.steps = []  # what each step of the agent is told by: a prompt, or how the results of a reply begin
        self.sent = []  # for each request: how much had been said, how many results there were
        self.first_turn = 0  # how many results the first prompt led to

    def new_result(self):
        """A long tool result that is told from all others by how it begins."""
        head = marker(len(self.results) + 1) + "\n"
        line = "a line of a file in which nothing stands that anyone needs again\n"
        self.results.append((head + line * (RESULT_CHARS // len(line) + 1))[:RESULT_CHARS])
        return self.results[-1]


def marker(number):
    """How a result begins; no marker is the beginning of another."""
    return f"result-{number}:"


def play(agent, stand_in):
    """Plays all turns. An agent can `prompt`, `ask` (which gives texts and calls) and `answer` calls with results."""
    talk = Talk()
    stand_in.clear()
    # Two runs against one filter are two conversations.
    task = secrets.token_hex(4)
    for number, moves in enumerate(TURNS, 1):
        stand_in.script(moves)
        prompt = f"Part {number} of task {task}: say what the files do."
        agent.prompt(prompt)
        talk.said.append(prompt)
        talk.steps.append([prompt])
        for move in moves:
            talk.sent.append((len(talk.said), len(talk.results)))
            texts, calls = agent.ask()
            talk.said.extend(texts)
            expected = {"say": 0, "call": 1, "parallel": 2}[move]
            assert len(calls) == expected, f"{move}: the client saw {len(calls)} calls"
            if calls:
                first = len(talk.results) + 1
                agent.answer([(call, talk.new_result()) for call in calls])
                talk.steps.append([marker(n) for n in range(first, len(talk.results) + 1)])
            else:
                assert texts, "the client saw neither text nor calls"
        if number == 1:
            talk.first_turn = len(talk.results)
    return talk


def filter_url():
    """Where clients send their requests."""
    return os.environ["FILTER_URL"].rstrip("/")


def strings(value):
    """Every string inside a JSON value, in order."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [s for item in value for s in strings(item)]
    if isinstance(value, dict):
        return [s for item in value.values() for s in strings(item)]
    return []


def entries(body, key):
    """The entries of the message list under `key`, as the bytes that arrived."""
    decoder = json.JSONDecoder()
    at = body.index("[", body.index(f'"{key}":'))
    found = []
    while body[at] != "]":
        at += 1
        while body[at] in ", \n\t\r":
            at += 1
        if body[at] != "]":
            start = at
            _, at = decoder.raw_decode(body, at)
            found.append(body[start:at])
    assert len(found) == len(json.loads(body)[key])
    return found


def results_left(talk, body):
    """How much of each result a body holds: 2 all of it, 1 a part, 0 nothing."""
    there = strings(json.loads(body))
    levels = []
    for number, result in enumerate(talk.results, 1):
        pieces = [s for s in there if marker(number) in s]
        levels.append(2 if any(result in s for s in pieces) else min(len(pieces), 1))
    return levels


def assert_sound(talk, requests, key):
    """What is true of every conversation, whether anything left it or not."""
    refused = [r["broken"] for r in requests if r["broken"]]
    assert not refused, f"the provider refused: {refused}"
    assert len(requests) == len(talk.sent), "the client sent something twice, or something did not arrive"
    bodies = [r["body"] for r in requests]
    for body, (said, sent) in zip(bodies, talk.sent):
        assert_said(talk.said[:said], body, key)
        newest = results_left(talk, body)[:sent][-2:]
        assert newest == [2] * len(newest), "one of the two newest results is not there in full"
    for before, after, (_, sent) in zip(bodies, bodies[1:], talk.sent):
        assert_stable(talk, before, after, sent, key)


def assert_said(said, body, key):
    """The system prompt, and every prompt and text so far in its order, stand in the body word for word."""
    assert SYSTEM_PROMPT in strings(json.loads(body)), "the system prompt is not there"
    there = iter(strings(json.loads(body)[key]))
    for text in said:
        assert any(s == text for s in there), f"lost, or not in its place: {text!r}"


def assert_stable(talk, before, after, sent, key):
    """What left stays away, and everything before the first step that lost something is the same bytes as before."""
    had, has = results_left(talk, before)[:sent], results_left(talk, after)[:sent]
    old, new = entries(before, key), entries(after, key)
    unchanged = len(old)
    for number, (was, now) in enumerate(zip(had, has), 1):
        assert now <= was, f"result {number} came back"
        if now < was:
            unchanged = min(unchanged, step_start(talk, old, number))
    assert old[:unchanged] == new[:unchanged], "bytes changed before the first step that lost something"


def step_start(talk, old, number):
    """Where the step begins that led to a result: behind the last entry that shows an earlier step."""
    step = next(i for i, signs in enumerate(talk.steps) if marker(number) in signs)
    earlier = [sign for signs in talk.steps[:step] for sign in signs]
    return max(i + 1 for i, entry in enumerate(old) if any(sign in entry for sign in earlier))


def assert_old_results_gone(talk, requests):
    """Of the first prompt's results at least one left as a whole. Without a filter this fails."""
    levels = results_left(talk, requests[-1]["body"])[: talk.first_turn]
    assert 0 in levels, "nothing is gone: every result of the first prompt is still there"


def assert_old_results_shortened(talk, requests):
    """Of the first prompt's results at least one is there in part only. Without a filter this fails."""
    levels = results_left(talk, requests[-1]["body"])[: talk.first_turn]
    assert 1 in levels, "nothing is gone: no result of the first prompt is shortened"
