"""Wrong messages of a control loop: each error must say what the loop should send."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.forewarn.test_guard import model_path, stdio  # noqa: F401
from tests.plugins.remote.serving import CALM, frame, hello, serving
from tests.plugins.remote.test_server import Line

FRAME = {"sequence": 0, "time_s": 0.0, "signals": CALM}
TRACE = {"format": "forewarn.trace/1", "vocabulary": "driving", "provides": []}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (gzip.compress(b"x", mtime=0),
         "the input is gzipped (unpack it first, as in zcat FILE | …)"),
        (json.dumps(TRACE).encode(),
         "this is the first line of a file of the format 'forewarn.trace/1', not a "
         "frame (leave this line out)"),
        (b'{"sequence": 0, "time_s": 0, "speed": 30}',
         "line 1: unknown key 'speed' (if it is a signal, write "
         '"signals":{"speed":30})'),
        (b'{"sequence": 0, "time_s": 0, "signals": {"speed": 30,}}',
         "line 1, column 54: not JSON: expecting property name enclosed in double "
         "quotes "
         "(remove the ',' before the '}')"),
        (b'{"a": [1, 2,]}',
         "column 13: not JSON: expecting value (remove the ',' before the ']')"),
        (b"{'sequence': 0}",
         "column 2: not JSON: expecting property name enclosed in double quotes "
         "(write \"sequence\")"),
        (b"{sequence: 0}",
         "column 2: not JSON: expecting property name enclosed in double quotes "
         "(write \"sequence\")"),
        (b'{"sequence": 0, "signals": {"braking": True}}',
         "column 40: not JSON: expecting value (write true)"),
        (b'{"sequence": 0, "signals": {"braking": None}}', "(write null)"),
        (b'{"sequence": 0, "signals": {"light": red}}', '(write "red")'),
        (b'{"sequence": 0} {"sequence": 1}',
         "column 17: not JSON: extra data (write one JSON value, or in JSON Lines one "
         "on each line)"),
        (b'{"sequence": 0 "time_s": 1}', "column 16: not JSON: expecting ','"),
        (b'{"sequence" 0}', "column 13: not JSON: expecting ':'"),
        (b'{"sequence": 0, "time_s": 0}',
         'signals: this key is missing (write "signals": …)'),
        (b'{"sequence": 0, "time_s": 0, "signals": []}',
         'signals: expected a mapping, found a list (write "signals": {"key": value})'),
        (b'{"sequence": 0, "time_s": 0, "signals": {}, "proposal": "go"}',
         "proposal: expected a mapping, found 'go' (write \"proposal\": {\"name\": …, "
         '"arguments": …})'),
        (b"30", 'a message must be a JSON object, not 30'),
        (hello(provides={"speed": "km/h"}),
         'provides: expected a list, found a mapping (write ["speed"])'),
        (hello(provides="speed"), '(write ["speed"])'),
        (hello(can={"stop": {}}), '(write ["stop"])'),
    ],
)  # fmt: skip
def test_a_wrong_line_says_what_to_send(
    line: bytes,
    message: str,
    model_path: str,  # noqa: F811
) -> None:
    done = stdio(model_path, line)
    assert done.exit_code == 2
    assert message in json.loads(done.stdout.splitlines()[-1])["error"]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (hello(),
         "a message is longer than 65536 bytes, or its first four bytes, b'{\"fo', are "
         "not its length (precede each message with its length as four bytes, "
         "big-endian)"),
        (len(hello()).to_bytes(4, "little") + hello(),
         "are not its length (precede each message with"),
        (len(frame(0)).to_bytes(4, "big") + frame(0),
         'the first message is not a hello (send {"forewarn": "guard/1", "token": …, '
         '"provides": […]} first)'),
    ],
)  # fmt: skip
def test_a_client_is_told_how_to_begin(sent: bytes, message: str) -> None:
    with serving() as server:
        line = Line(server)
        line.socket.sendall(sent)
        answer: Any = line.read()
        assert answer is not None and message in answer["error"]
        assert line.read() is None
        line.close()
