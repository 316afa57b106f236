"""The messages that a guarded loop sends to the page's server, a separate process.

A message is a line of JSON, a list whose first entry is its kind:

    begin    what the run is: its name, its laws with their steps, its predicates
    ground   what does not move, where there is something to see
    frame    a moment: risks, what is owed, what holds, what was decided
    scene    what there is to see at a moment
    event    something to be told in a sentence
    end      why it is over
    drift    whether there is any over all runs so far, and what was examined

A moment that closely follows another is sent only if it contains news. The socket takes
as much as it can immediately. Messages without room are dropped and counted, so neither
a browser nor a server ever makes the loop wait.
"""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.chain import LawWatch
from forewarn.monitors.guarding.decision import RANK, Decision, Turn
from forewarn.monitors.guarding.drift import Drift
from forewarn.monitors.guarding.guard import REVOKED
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.contracts import Scenic, Thing
from forewarn.scenarios.live.server import APART_S
from forewarn.scenarios.report.film import SEEN_M, TOLD, concerned
from forewarn.scenarios.report.runs import Telling
from forewarn.scenarios.running.scenery import shape_row, thing_row

MOST_WAITING = 4 * 1024 * 1024
"""The maximum number of bytes of essential messages that may wait for the socket."""
SENDS_APART_S, MOST_HELD = 0.02, 64
"""How long moments wait to be sent together with the next ones, and the maximum number
that wait.
"""
SCENES_APART_S = 0.04
"""The minimum real time between two scenes."""
FAREWELL_S = 1.0
"""How long sending the last messages of a run may take, once nothing is guarded any
more.
"""

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class ToPage:
    """Creates feeds to a page's server, from any process.

    Args:
        host: The server's host.
        port: The server's port.
        token: The token that the server expects.
    """

    host: str
    port: int
    token: str

    def __call__(self) -> Feed:
        """A feed for one loop."""
        return Feed(self)

    def connect(self) -> tuple[socket.socket, bytes]:
        """Connects to the server without blocking, and prepares the first message."""
        line = socket.socket()
        line.setblocking(False)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(BlockingIOError):
            line.connect((self.host, self.port))
        head = (
            f"POST /feed HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Authorization: Bearer {self.token}\r\n\r\n"
        )
        return line, head.encode()

    def drift(self, drift: Drift) -> None:
        """Sends the evidence of drift in the runs so far."""
        content = "drift", drift.found_at is not None, *_told(drift)
        with suppress(OSError):
            line, head = self.connect()
            with line:
                line.settimeout(FAREWELL_S)
                line.sendall(head + _encode(content).encode() + b"\n")


class Feed(Listener):
    """Sends one loop's runs to a page's server.

    Args:
        server: The server.
    """

    def __init__(self, server: ToPage) -> None:
        self._server = server
        self._socket: socket.socket | None = None
        self._rest = b""
        self._telling = Telling(watched_only=False)
        self._told: list[str] | None = None
        self._scenic: Scenic | None = None
        self._rows: dict[str, tuple[Thing, list[Any]]] = {}
        self._next_s, self._rank, self._told_s = 0.0, 0, -math.inf
        self._held: list[str] = []
        self._due_s = 0.0
        self.dropped = self.failures = 0
        self._warned = False

    # -- what the loop tells ----------------------------------------------------------

    def began(self, run: Run) -> None:
        """Sends the facts about the run, and the ground of its scene."""
        if run.watch is None or run.policy is None:
            return
        try:
            self._socket, self._rest = self._server.connect()
            self._begin(run.name, run.watch, run.policy, run.scenic)
        except Exception:
            self.failures += 1

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Sends the decision and its reason."""
        try:
            if self._socket is None:
                return
            self._warn(frame, decision)
            news = bool(decision.violated) or RANK[decision.kind] != self._rank
            soon = self._told_s <= frame.time_s < self._told_s + APART_S
            if soon and not news:
                return
            self._told_s = frame.time_s
            self._frame(watch, frame, decision, news)
            if decision.kind != "proceed" or self._rank:
                for event in self._telling.decided(decision.as_dict()):
                    self._must("event", event.time_s, event.kind, event.text)
            self._rank = RANK[decision.kind]
            for law in decision.violated:
                self._must("event", frame.time_s, "violated", f"{law} is broken.")
            if self._scenic is not None:
                self._scene(self._scenic, frame.time_s)
        except Exception:
            self.failures += 1

    def _warn(self, frame: Frame, decision: Decision) -> None:
        """Sends once per run that the guard's certificate was revoked."""
        for note in decision.notes:
            if note.startswith(REVOKED) and not self._warned:
                self._warned = True
                text = f"{note[:1].upper()}{note[1:]}."
                self._must("event", frame.time_s, "alert", text)

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        """Sends the outcome of a decision, if it is news."""
        if turn.outcome.obeyed is None:
            return
        try:
            outcome = turn.outcome
            for event in self._telling.carried_out(frame.time_s, outcome.as_dict()):
                self._must("event", event.time_s, event.kind, event.text)
        except Exception:
            self.failures += 1

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Sends the reason why the run ended, and waits briefly until it is sent."""
        self._hand_over()
        line, self._socket = self._socket, None
        if line is None:
            return
        try:
            last = _encode(("end", facts["ended"], self.dropped)).encode()
            line.settimeout(FAREWELL_S)
            line.sendall(self._rest + last + b"\n")
        except Exception:
            self.failures += 1
        finally:
            line.close()

    # -- messages ---------------------------------------------------------------------

    def _begin(
        self, name: str, watch: Watch, policy: Policy, scenic: Scenic | None
    ) -> None:
        self._telling = Telling(watched_only=policy.shadow)
        self._told, self._rows = None, {}
        self._next_s, self._rank, self.dropped = 0.0, 0, 0
        self._told_s, self._warned = -math.inf, False
        vocabulary = watch.vocabulary
        units = {} if vocabulary is None else vocabulary.signals
        about = {
            "name": name,
            "shadow": policy.shadow,
            "horizon_s": policy.horizon_s,
            "laws": [
                {
                    "name": law.name,
                    "text": law.law.text,
                    "steps": [
                        [s.kind, s.threshold] for s in policy.steps_for(law.name)
                    ],
                }
                for law in watch.laws
                for steps in [policy.steps_for(law.name)]
            ],
            "predicates": list(watch.texts),
            "concern": sorted(concerned(law.law for law in watch.laws)),
            "units": {n: units[n].unit for n in TOLD if n in units and units[n].unit},
        }
        self._must("begin", about)
        ground = [] if scenic is None else scenic.ground()
        if ground:
            self._must("ground", [shape_row(shape) for shape in ground])
        # What cannot show its ground shows nothing.
        self._scenic = scenic if ground else None

    def _frame(
        self, watch: Watch, frame: Frame, decision: Decision, news: bool
    ) -> None:
        values = frame.values
        told = self._told
        if told is None:
            told = self._told = [name for name in TOLD if name in values]
            self._must("told", told)
        risks = [_risk(law) for law in watch.laws]
        shown = [_plain(values.get(name)) for name in told]
        time_s = frame.time_s if math.isfinite(frame.time_s) else None
        content = (
            "frame", time_s, news, decision.kind, decision.law, decision.left_s, risks,
            f"{watch.holding:x}", watch.unknown, shown,
        )  # fmt: skip
        self._send(content)

    def _scene(self, scenic: Scenic, time_s: float) -> None:
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + SCENES_APART_S
        things = scenic.things()
        ego = next((each for each in things if each.kind == "ego"), None)
        before, rows = self._rows, []
        self._rows = {}
        for thing in things:
            if ego is not None and _apart(ego, thing) > SEEN_M:
                continue
            known = before.get(thing.name)
            if known is None or known[0] is not thing:
                known = thing, [thing.name, *thing_row(thing)]
            self._rows[thing.name] = known
            rows.append(known[1])
        self._send(("scene", time_s, rows))

    # -- the socket -------------------------------------------------------------------

    def _must(self, *content: Any) -> None:
        """Sends an essential message, which waits its turn if there is room."""
        self._hand_over()
        data = _encode(content).encode() + b"\n"
        if len(self._rest) + len(data) > MOST_WAITING:
            self.dropped += 1
            return
        self._rest += data
        self._flush()

    def _send(self, content: Any) -> None:
        """Sends a message soon or never; messages close together are sent together."""
        self._held.append(_encode(content))
        now_s = time.monotonic()
        if now_s >= self._due_s or len(self._held) >= MOST_HELD:
            self._due_s = now_s + SENDS_APART_S
            self._hand_over()

    def _hand_over(self) -> None:
        """Passes the held messages to the socket, or drops them."""
        held, self._held = self._held, []
        if not held:
            return
        if self._rest and not self._flush():
            self.dropped += len(held)
            return
        self._rest = ("\n".join(held) + "\n").encode()
        whole = len(self._rest)
        self._flush()
        if len(self._rest) == whole:
            self._rest = b""
            self.dropped += len(held)

    def _flush(self) -> bool:
        """Sends waiting messages without blocking; returns whether none is left."""
        if self._socket is None:
            self._rest = b""
            return True
        try:
            self._rest = self._rest[self._socket.send(self._rest) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._socket.close()
            self._socket, self._rest = None, b""
        return not self._rest


def _told(drift: Drift) -> tuple[str, list[str]]:
    """A sentence about drift, and a line for each examined quantity."""
    lines = [
        f"{each.came}: {each.share * each.by.evidence:.2g}" for each in drift.examined
    ]
    if drift.not_examined:
        lines.append(f"not examined: {', '.join(drift.not_examined)}")
    return next(drift.sentences(), "Nothing is examined for drift."), lines


def _risk(law: LawWatch) -> tuple[float | None, ...] | None:
    """A risk as low, point, high, likely interval, time left; None if unknown."""
    if law.point != law.point:
        return None
    low, high = law.likely or (None, None)
    return law.low, law.point, law.high, low, high, law.left_s


def _apart(one: Thing, other: Thing) -> float:
    return math.hypot(one.x - other.x, one.y - other.y)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float():
            return round(value, 3) if math.isfinite(value) else str(value)
    return str(value)[:60]
