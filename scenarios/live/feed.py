"""Sends messages from a guarded loop to the live page's server, a separate process.

Each message is a line of JSON: a list whose first entry is the kind of message.

    begin: The run's name, its laws with their thresholds, and its predicates.
    told: The names of the signals that each `frame` contains.
    ground: The stationary parts of the scene, if the world can be drawn.
    frame: Risks, pending obligations, true predicates, the decision, and signals.
    scene: The moving parts of the scene.
    event: A sentence about an event.
    end: Why the run ended, and the number of dropped messages.
    drift: Whether drift was found in the runs so far, and the evidence.

A frame that closely follows another is sent only if a law was broken or the decision
changed. A thread sends the messages, so neither a browser nor the server can delay the
loop: messages that would have to wait behind too many others are dropped and counted.
"""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.chain import LawWatch
from forewarn.monitors.guarding.decision import RANK, Decision
from forewarn.monitors.guarding.drift import Drift
from forewarn.monitors.guarding.guard import REVOKED
from forewarn.monitors.guarding.listening import Run
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.contracts import Scenic, Thing
from forewarn.scenarios.live.server import APART_S
from forewarn.scenarios.live.viewer import Viewer
from forewarn.scenarios.report.film import SEEN_M, TOLD, concerned
from forewarn.scenarios.running.scenery import shape_row, thing_row

MOST_WAITING, MOST_FRAMES = 10_000, 1_000
"""The maximum number of messages that may wait to be sent; a frame or a scene is
dropped if `MOST_FRAMES` wait.
"""
FAREWELL_S = 1.0
"""The time limit in seconds for sending the last messages after a run has ended."""
READS_S = 30.0
"""The time limit in seconds for the server to read what was sent."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class ToPage:
    """Creates feeds to a live page's server, in any process.

    Args:
        host: The server's host.
        port: The server's port.
        token: The token that the server expects.
    """

    host: str
    port: int
    token: str = field(repr=False)

    def __call__(self) -> Feed:
        """Creates a feed for one loop."""
        return Feed(self)

    def connect(self, limit_s: float) -> socket.socket:
        """Connects to the server, with a time limit for each message."""
        line = socket.create_connection((self.host, self.port), limit_s)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = (
            f"POST /feed HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Authorization: Bearer {self.token}\r\n\r\n"
        )
        line.sendall(head.encode())
        return line

    def drift(self, drift: Drift) -> None:
        """Sends the result of the drift test on the runs so far."""
        content = "drift", drift.found_at is not None, *_told(drift)
        with suppress(OSError), self.connect(FAREWELL_S) as line:
            line.sendall(_encode(content).encode() + b"\n")


class Line:
    """Sends messages to the server from its own thread.

    Args:
        server: The connection settings of the server.
    """

    def __init__(self, server: ToPage) -> None:
        self._server = server
        self._waiting: SimpleQueue[bytes] = SimpleQueue()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()
        self.dropped = 0

    def put(self, content: Any, most: int = MOST_WAITING) -> None:
        """Queues a message, or drops it if `most` others are already waiting."""
        if self._waiting.qsize() >= most:
            self.dropped += 1
        else:
            self._waiting.put(_encode(content).encode() + b"\n")

    def _send(self) -> None:
        with suppress(OSError), self._server.connect(READS_S) as line:
            while data := self._waiting.get():
                line.sendall(data)

    def close(self) -> None:
        """Waits until everything is sent, but at most `FAREWELL_S`."""
        self._waiting.put(b"")
        self._thread.join(FAREWELL_S)


class Feed(Viewer):
    """Sends one loop's runs to a live page's server.

    Args:
        server: The connection settings of the server.
    """

    def __init__(self, server: ToPage) -> None:
        super().__init__()
        self._server = server
        self._line: Line | None = None
        self._told: list[str] | None = None
        self._rows: dict[str, tuple[Thing, list[Any]]] = {}
        self._told_s, self._warned = -math.inf, False

    # -- callbacks of the loop --------------------------------------------------------

    def began(self, run: Run) -> None:
        """Connects to the server, and sends the facts about the run and the ground."""
        if run.watch is None or run.policy is None:
            return
        try:
            self._line = Line(self._server)
            self._begin(run.name, run.watch, run.policy, run.scenic)
        except Exception:
            self.failures += 1

    def _show(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        if self._line is None:
            return
        self._warn(frame, decision)
        news = bool(decision.violated) or RANK[decision.kind] != self._rank
        soon = self._told_s <= frame.time_s < self._told_s + APART_S
        if soon and not news:
            return
        self._told_s = frame.time_s
        self._frame(watch, frame, decision, news)
        self._tell(frame, decision)
        self._draw(frame.time_s)

    def _warn(self, frame: Frame, decision: Decision) -> None:
        """Reports once per run that the guard's certificate was revoked."""
        for note in decision.notes:
            if note.startswith(REVOKED) and not self._warned:
                self._warned = True
                text = f"{note[:1].upper()}{note[1:]}."
                self._event(frame.time_s, "alert", text)

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Sends the reason why the run ended; blocks for at most `FAREWELL_S`."""
        line, self._line = self._line, None
        if line is not None:
            line.put(("end", facts["ended"], line.dropped))
            line.close()

    # -- messages ---------------------------------------------------------------------

    def _begin(
        self, name: str, watch: Watch, policy: Policy, scenic: Scenic | None
    ) -> None:
        self._told, self._rows = None, {}
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
            ],
            "predicates": list(watch.texts),
            "concern": sorted(concerned(law.law for law in watch.laws)),
            "units": {n: units[n].unit for n in TOLD if n in units and units[n].unit},
        }
        self._must("begin", about)
        ground = [] if scenic is None else scenic.ground()
        if ground:
            self._must("ground", [shape_row(shape) for shape in ground])
        # A world without a ground is not drawn at all.
        self._follow(scenic if ground else None, policy.shadow)

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

    def _scene(self, things: Sequence[Thing], time_s: float) -> None:
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

    def _event(self, time_s: float, kind: str, text: str) -> None:
        self._must("event", time_s, kind, text)

    def _must(self, *content: Any) -> None:
        """Sends an essential message."""
        if self._line is not None:
            self._line.put(content)

    def _send(self, content: Any) -> None:
        """Sends a message that may be dropped."""
        if self._line is not None:
            self._line.put(content, MOST_FRAMES)


def _told(drift: Drift) -> tuple[str, list[str]]:
    """Returns a sentence about drift, and a line for each tested quantity."""
    lines = [
        f"{each.came}: {each.share * each.by.evidence:.2g}" for each in drift.examined
    ]
    if drift.not_examined:
        lines.append(f"not tested: {', '.join(drift.not_examined)}")
    return next(drift.sentences(), "No quantity is being tested for drift."), lines


def _risk(law: LawWatch) -> tuple[float | None, ...] | None:
    """Returns a risk's lower bound, point, upper bound, both ends of its likely
    interval, and the time left; None if the risk is unknown.
    """
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
