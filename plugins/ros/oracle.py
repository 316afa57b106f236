"""An oracle of ROSMonitoring's: its nodes send each message, and hear a verdict.

The protocol is that of its published oracles: a message of a topic or a call of a
service is one JSON object, with `topic` or `service`, `time` in seconds and its fields
beside them; the answer holds it again with `verdict`. `currently_false` says that the
guard would stop; a node with the action `filter` then holds the message back. The
verdicts `true` and `false` would end a node, so they are never given.

All connections share one guard, whose run ends when the last of them leaves.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from typing import Any, Literal

from forewarn.abstractions.errors import InvalidInput, clean, said
from forewarn.abstractions.frame import Frame, Source, is_number
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.remote.messages import parse_object
from forewarn.plugins.remote.server import Server
from forewarn.plugins.ros.topics import TopicMap, Topics, WentBack
from forewarn.plugins.ros.websocket import Gone, WebSocket

NAME = "ros-oracle"
_KEPT = ("topic", "service", "time", "request", "response", "data")
"""What of a message is in its answer: nodes look at no more."""

Verdict = Literal["currently_true", "currently_false"]


class Oracle:
    """Judges what topics say.

    Args:
        guarding: The parts of its guard.
        told: The mapping from topics to signals.
    """

    def __init__(self, guarding: Guarding, told: TopicMap) -> None:
        self._map, self._lock = told, threading.Lock()
        source = Source(
            NAME, told.vocabulary.name, told.provides, told.period_s, embedded=False
        )
        self.loop: GuardedLoop = guarding.open(source)
        self._shadow = guarding.policy.shadow
        self.frames = self.nodes = 0
        self._begin()

    def _begin(self) -> None:
        self._topics = Topics(self._map)
        self._sequence = 0
        self._why = "no frame was judged yet"
        self._kind: Kind | None = None
        self._passes = False

    def enter(self) -> None:
        """A node has come."""
        with self._lock:
            self.nodes += 1

    def leave(self) -> None:
        """A node has left; the run ends with the last."""
        with self._lock:
            self.nodes -= 1
            if not self.nodes:
                self.close("the last node left")

    def close(self, why: str) -> None:
        """Ends the run."""
        if self._sequence:
            self.loop.close(why)
        self._begin()

    def answer(self, message: bytes) -> bytes:
        """The answer to a message; one that cannot be judged may not pass."""
        with self._lock:
            kept: dict[str, Any] = {}
            try:
                event = parse_object(message)
                kept = {name: event[name] for name in _KEPT if name in event}
                self._take(event)
                why = self._why
            except Exception as error:
                self._kind, why = None, clean(said(error))
            if self._kind is not None and not self.loop.lease.held:
                self._kind, why = None, "no frame has been judged for a while"
            passes = self._passes if self._kind is not None else self._shadow
            verdict: Verdict = "currently_true" if passes else "currently_false"
            told = {**kept, "verdict": verdict, "decision": self._kind, "spec": why}
            return json.dumps(told).encode()

    def _take(self, event: Mapping[str, Any]) -> None:
        time_s = event.get("time")
        if not is_number(time_s) or not -1e15 < time_s < 1e15:
            raise InvalidInput("time must be a number of seconds")
        topic = event.get("topic")
        if not isinstance(topic, str):
            return  # a call of a service is judged by what topics said before
        name = topic if topic.startswith("/") else f"/{topic}"
        try:
            due = self._topics.take(name, event, time_s)
        except WentBack as back:
            self.close(back.problem)
            raise
        if due is None:
            return
        if not self._sequence:
            self.loop.begin(Filter())
        frame = Frame(due[0], self._sequence, due[1])
        self._sequence += 1
        self.frames += 1
        turn = self.loop.decide(frame)
        self._kind, self._passes = turn.outcome.kind, turn.passes
        self._why = turn.outcome.because or turn.decision.reason


class Filter:
    """Acts through nodes that hold messages back: it can stop, but nothing milder."""

    can: frozenset[Kind] = frozenset({"stop"})

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        return None

    def fallback(self, frame: Frame | None = None) -> Action | None:
        return None

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        """If the speed is known, it has to fall."""
        speed, braking = frame.values.get("speed"), frame.values.get("braking")
        if not is_number(speed):
            return None
        return speed < 1.0 or braking is True


class OracleServer(Server):
    """Serves an oracle on a WebSocket, on this machine alone: its nodes show no token.

    Args:
        oracle: The oracle.
        host: A name or address of this machine.
        port: 0 for any that is free.
    """

    def __init__(self, oracle: Oracle, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(host, port)
        self.oracle = oracle

    def converse(self, connection: socket.socket) -> None:
        line = WebSocket(connection)
        line.shake_hands()
        self.admit()
        self.oracle.enter()
        try:
            for message in line.messages():
                line.send(self.oracle.answer(message))
        except Gone:
            pass  # nodes leave without a word
        finally:
            self.oracle.leave()
