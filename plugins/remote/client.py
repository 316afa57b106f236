"""A single-file client for `forewarn guard --socket`, which can be copied anywhere.

It requires only Python 3.6 or later and the standard library, and does not need
Forewarn:

    guard = GuardClient("127.0.0.1:7007", token, ["speed", "traffic_light"])
    while driving:
        decision = guard.review(sequence, time_s, {"speed": 12.5, ...})
        if decision["decision"] in ("proceed", "alert"):
            ...

The client holds the lease on the guard's decisions. A decision is valid for `lease_s`
from the moment its frame was sent. After that, and whenever the guard is lost,
`decision()` and `review()` return `stop`. Call `decision()` wherever commands are sent
to the vehicle, so that the vehicle also stops if the loop hangs.

When it is run as a program, it reads one frame per line as JSON from standard input,
and writes decisions to standard output:

    python client.py HOST:PORT TOKEN_FILE SIGNAL,SIGNAL,...
"""

import json
import socket
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

PROTOCOL = "guard/1"
MAX_BYTES = 1 << 20
RETRY_S = 0.5
KINDS = frozenset("proceed alert reflect substitute skip ask slow stop cut".split())

Decision = Dict[str, Any]


class Lost(Exception):
    """The guard cannot be reached, or its answer is invalid."""


class GuardClient(object):
    """The connection of a control loop to its guard; its methods raise no exceptions.

    Args:
        address: The address of the guard, as `HOST:PORT`.
        token: The content of the token file of the guard.
        provides: The signals that every frame contains.
        lease_s: The time in seconds for which a decision is valid after its frame was
            sent.
        clock: A monotonic clock in seconds.
        can: The decisions that the loop can carry out, such as `["alert", "stop"]`. The
            guard replaces any other decision with the next more severe one in the list,
            asks people itself, and records what was carried out. By default, the loop
            only receives decisions.
        foresees: Whether each proposal is sent with the signals that it would lead to
            (`foreseen`). A policy whose `when` is not `after` requires them.
        actions: The actions that the loop accepts, each with the names of its
            arguments. Rules that substitute an action require them.
    """

    def __init__(
        self,
        address: str,
        token: str,
        provides: Optional[Sequence[str]] = None,
        lease_s: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
        can: Optional[Sequence[str]] = None,
        foresees: bool = False,
        actions: Optional[Dict[str, List[str]]] = None,
    ) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError("the address must be HOST:PORT, not {!r}".format(address))
        self._address = (host.strip("[]"), int(port))
        hello = {"forewarn": PROTOCOL, "token": token}  # type: Dict[str, Any]
        hello["provides"] = provides
        if can is not None:
            hello["can"] = list(can)
        if foresees:
            hello["foresees"] = True
        if actions is not None:
            hello["actions"] = actions
        self._hello = hello
        self._lease_s = lease_s
        self._clock = clock
        self._socket: Optional[socket.socket] = None
        self._data = b""
        self._tried_s: Optional[float] = None
        self._held: Optional[Tuple[float, Decision]] = None
        self.problem = "the guard has not been asked yet"

    def review(
        self,
        sequence: int,
        time_s: float,
        signals: Dict[str, Any],
        proposal: Optional[Dict[str, Any]] = None,
        wait_s: Optional[float] = None,
        foreseen: Optional[Dict[str, Any]] = None,
        obeyed: Optional[bool] = True,
    ) -> Decision:
        """Sends a frame, and returns the decision that is valid now.

        Args:
            sequence: The sequence number of the frame, which must increase.
            time_s: The time of the frame in seconds, by the clock of its source.
            signals: The values of the signals; None means, for example, that there is
                no vehicle ahead.
            proposal: The proposed action: `{"name": ..., "arguments": {...}}`.
            wait_s: The maximum time in seconds to wait for the answer; by default
                `lease_s`. Without an answer, the decision on an earlier frame remains
                valid until its lease expires.
            foreseen: The values of the signals that the proposal would lead to, for a
                policy whose `when` is not `after`.
            obeyed: Whether the vehicle has obeyed the last decision; None if it is too
                early to tell.
        """
        frame = {"sequence": sequence, "time_s": time_s, "signals": signals}
        if proposal is not None:
            frame["proposal"] = proposal
        if foreseen is not None:
            frame["foreseen"] = foreseen
        if obeyed is not True:
            frame["obeyed"] = obeyed
        sent_s = self._clock()
        until_s = sent_s + (self._lease_s if wait_s is None else wait_s)
        try:
            self._send(_framed(frame), until_s)
            answer = self._answer(sequence, until_s)
            if answer is not None:
                self._held = (sent_s, answer)
        except Exception as error:
            self._lose("%s" % error)
        return self.decision()

    def decision(self) -> Decision:
        """Returns the decision that is valid now; `stop` if there is none."""
        held = self._held
        if held is None:
            return _stop(None, self.problem)
        sent_s, answer = held
        age_s = self._clock() - sent_s
        if 0 <= age_s < self._lease_s:
            return answer
        return _stop(
            answer["sequence"], "the guard's last decision is %.3g s old" % age_s
        )

    def __enter__(self) -> "GuardClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; from then on, the decision is `stop`."""
        self._lose("the connection was closed")

    def _lose(self, problem: str) -> None:
        self._held = None
        self.problem = problem
        self._data = b""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self, until_s: float) -> socket.socket:
        now_s = self._clock()
        if self._tried_s is not None and 0 <= now_s - self._tried_s < RETRY_S:
            raise Lost(self.problem)
        self._tried_s = now_s
        made = socket.create_connection(self._address, self._left_s(until_s))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = made
        made.sendall(_framed(self._hello))
        return made

    def _left_s(self, until_s: float) -> float:
        # A timeout of zero would make the socket non-blocking, so use a small positive
        # one.
        return max(until_s - self._clock(), 0.001)

    def _send(self, message: bytes, until_s: float) -> None:
        line = self._socket or self._connect(until_s)
        line.settimeout(self._left_s(until_s))
        try:
            line.sendall(message)
        except socket.timeout:
            raise Lost("the guard has stopped reading from the connection")

    def _answer(self, sequence: int, until_s: float) -> Optional[Decision]:
        """Returns the answer to a frame; None if it does not arrive in time."""
        while True:
            content = self._message(until_s)
            if content is None:
                return None
            if "error" in content:
                raise Lost("the guard reported: %s" % content["error"])
            answered = content.get("sequence")
            if content.get("decision") not in KINDS or type(answered) is not int:
                raise Lost("the guard's answer is not a decision")
            if content["decision"] == "slow" and not _is_speed(content.get("cap_kmh")):
                raise Lost("the guard's decision slow has no valid speed cap")
            if answered == sequence:
                return content
            if answered > sequence:
                raise Lost("the guard answered for a frame that was not sent")
            # Otherwise, this is a late answer to an earlier frame.
            if self._clock() > until_s:
                return None

    def _message(self, until_s: float) -> Optional[Decision]:
        line = self._socket
        if line is None:
            raise Lost("there is no connection")
        while True:
            if len(self._data) >= 4:
                end = 4 + int.from_bytes(self._data[:4], "big")
                if end > 4 + MAX_BYTES:
                    raise Lost("the guard's answer is too long")
                if len(self._data) >= end:
                    body, self._data = self._data[4:end], self._data[end:]
                    return _parsed(body)
            if self._clock() > until_s:
                return None
            line.settimeout(self._left_s(until_s))
            try:
                chunk = line.recv(65536)
            except socket.timeout:
                return None
            if not chunk:
                raise Lost("the guard closed the connection (is the token right?)")
            self._data += chunk


def _stop(sequence: Optional[int], why: str) -> Decision:
    return {
        "sequence": sequence,
        "decision": "stop",
        "law": "",
        "risk": None,
        "reason": "no guard: %s" % why,
        "left_s": None,
        "cap_kmh": None,
    }


def _framed(content: Dict[str, Any]) -> bytes:
    body = _encode(content).encode("utf-8")
    if len(body) > MAX_BYTES:
        raise Lost("the frame is longer than %d bytes" % MAX_BYTES)
    return len(body).to_bytes(4, "big") + body


def _parsed(body: bytes) -> Decision:
    content = _decode(body.decode("utf-8"))
    if not isinstance(content, dict):
        raise Lost("the guard's answer is not a JSON object")
    return content


def _is_speed(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e6


def _no_repeats(pairs: List[Tuple[str, Any]]) -> Decision:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise Lost("the guard's answer contains a key twice")
    return content


def _no_constant(name: str) -> float:
    raise Lost("the guard's answer contains %s" % name)


# Created once, because creating them takes longer than sending a message.
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_decode = json.JSONDecoder(
    parse_constant=_no_constant, object_pairs_hook=_no_repeats
).decode


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 3:
        sys.stderr.write("usage: client.py HOST:PORT TOKEN_FILE SIGNAL,SIGNAL,...\n")
        return 2
    address, token_file, provides = arguments
    with open(token_file) as file:
        token = file.read().strip()
    guard = GuardClient(address, token, provides.split(","))
    for line in sys.stdin:
        try:
            decision = guard.review(**json.loads(line))
        except (ValueError, TypeError):
            decision = _stop(None, "the line is not a valid frame")
        sys.stdout.write(json.dumps(decision) + "\n")
        sys.stdout.flush()
    guard.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
