"""An oracle for ROSMonitoring, whose nodes send each message and receive a verdict.

The protocol is that of the published oracles. A message on a topic, or a service call,
is a JSON object with `topic` or `service`, with `time` in seconds, and with the fields
of the message. The answer repeats these fields, and adds `verdict`. The verdict
`currently_false` means that the guard would stop the vehicle; a node with the action
`filter` then withholds the message. The verdicts `true` and `false` would end a node,
so they are never sent.

All connections share one guard, whose run ends when the last node disconnects.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from typing import Any, Literal

from forewarn.abstractions.errors import InvalidInput, clean, said
from forewarn.abstractions.frame import Frame, Source, is_number
from forewarn.monitors.guarding.decision import Decision, Kind
from forewarn.plugins.contracts import Replacing
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.remote.messages import parse_object
from forewarn.plugins.remote.server import Server
from forewarn.plugins.ros.topics import TopicMap, Topics, WentBack
from forewarn.plugins.ros.websocket import Gone, WebSocket

NAME = "ros-oracle"
_KEPT = ("topic", "service", "time", "request", "response", "data")
"""The fields that an answer repeats; nodes read no other fields."""

Verdict = Literal["currently_true", "currently_false"]


class Oracle:
    """Reviews the frames from topics, and gives a verdict on each message.

    Args:
        guarding: The configuration of the guard.
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
        self._why = "no frame has been reviewed yet"
        self._kind: Kind | None = None
        self._passes = False

    def enter(self) -> None:
        """Registers a node that has connected."""
        with self._lock:
            self.nodes += 1

    def leave(self) -> None:
        """Unregisters a node that has disconnected; the last node ends the run."""
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
        """Answers a message; a message that cannot be reviewed does not pass."""
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
                self._kind, why = None, "no frame has been reviewed for a while"
            passes = self._passes if self._kind is not None else self._shadow
            verdict: Verdict = "currently_true" if passes else "currently_false"
            told = {**kept, "verdict": verdict, "decision": self._kind, "spec": why}
            return json.dumps(told).encode()

    def _take(self, event: Mapping[str, Any]) -> None:
        time_s = event.get("time")
        if not is_number(time_s) or not -1e15 < time_s < 1e15:
            raise InvalidInput("'time' must be a number of seconds")
        topic = event.get("topic")
        if not isinstance(topic, str):
            return  # the verdict on a service call is that on the last frame
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


class Filter(Replacing):
    """An actuator that can only stop, because nodes can only withhold messages."""

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        """Whether the vehicle is stationary or brakes; None if its speed is unknown."""
        speed, braking = frame.values.get("speed"), frame.values.get("braking")
        if not is_number(speed):
            return None
        return speed < 1.0 or braking is True


class OracleServer(Server):
    """Serves an oracle on a WebSocket.

    The address must be a loopback address, because nodes send no token.

    Args:
        oracle: The oracle to serve.
        host: A host name or address of this machine.
        port: The port; 0 for any free port.
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
            pass  # nodes disconnect without closing the WebSocket
        finally:
            self.oracle.leave()
