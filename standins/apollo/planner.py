"""Imitates how Apollo's planning module handles the commands of a guard.

The last pad action stays active. A pad message with an unchanged header is ignored.

A command service answers RUNNING once it has forwarded a command, whether or not the
command is carried out. A request with an old timestamp is dropped and gets an empty
reply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, Literal

from forewarn.standins.apollo.server import FakeCyber

LATE_S = 2.0

ServiceName = Literal["action", "lane_follow"]
STOCK: frozenset[ServiceName] = frozenset({"action", "lane_follow"})
"""The services of the public version of Apollo."""

_RUNNING = 1
_ACTION_PADS = {1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5}
"""The pad action that corresponds to each action command."""

_STOP = 4


class Planner:
    """Receives commands through Cyber RT and determines their effect on the car.

    Args:
        cyber: The Cyber RT instance that provides channels and services.
        messages: The message classes of an Apollo edition. Apollo 8 and earlier have no
            services.
        clock: Returns the time of Apollo's clock in seconds.
        services: The names of the services that are available.
        guardian: Whether the guardian module is enabled. Apollo disables it by default.
    """

    def __init__(
        self,
        cyber: FakeCyber,
        messages: Any,
        clock: Callable[[], float],
        services: Collection[ServiceName] = STOCK,
        *,
        guardian: bool = False,
    ) -> None:
        self._messages, self._clock = messages, clock
        channels = self._channels = messages.channels
        self._guardian = guardian
        self.pad_action = 100
        self.target_speed: float | None = None
        self.routes = 0
        self.dropped = 0
        self._safety = False
        self._header = b""
        node = cyber.Node("stand-in planning")
        pad, status = channels.PLANNING_PAD, channels.SYSTEM_STATUS
        node.create_reader(pad.name, messages[pad.type], self._on_pad)
        node.create_reader(status.name, messages[status.type], self._on_status)
        self._pads = node.create_writer(pad.name, messages[pad.type])
        if messages.edition == 9:
            if "action" in services:
                self._serve(node, channels.ACTION_SERVICE, self._on_action)
            if "lane_follow" in services:
                self._serve(node, channels.LANE_FOLLOW_SERVICE, self._on_lane_follow)

    def _serve(self, node: Any, service: Any, answer: Callable[[Any], None]) -> None:
        request_type = self._messages[service.request]
        reply_type = self._messages[service.response]

        def handle(request: Any) -> Any:
            reply = reply_type()
            age_s = self._clock() - request.header.timestamp_sec
            if age_s > LATE_S:
                self.dropped += 1
                return reply  # as in Apollo, the required status is missing
            reply.command_id = request.command_id
            reply.status = _RUNNING
            answer(request)
            return reply

        node.create_service(service.name, request_type, reply_type, handle)

    # -- active commands --------------------------------------------------------------

    @property
    def stops(self) -> bool:
        """Whether an emergency stop is the last action that was commanded."""
        return self.pad_action == _STOP

    @property
    def braked(self) -> bool:
        """Whether the guardian is braking, which overrides planning."""
        return self._safety and self._guardian

    @property
    def cap(self) -> float:
        """The commanded maximum speed in m/s; infinite if there is none."""
        return math.inf if self.target_speed is None else self.target_speed

    def decide(self, planning: Any) -> None:
        """Writes the main decision into a planning message."""
        main = planning.decision.main_decision
        if self.stops:
            main.stop.reason_code = 202
            main.stop.reason = "stop by EMERGENCY_STOP"
        else:
            main.cruise.SetInParent()

    def _on_pad(self, message: Any) -> None:
        header = message.header.SerializeToString()
        if header == self._header:
            return
        self._header = header
        self.pad_action = message.action

    def _on_status(self, message: Any) -> None:
        self._safety = bool(message.require_emergency_stop)

    def _on_action(self, request: Any) -> None:
        if request.command in _ACTION_PADS:
            pad = self._messages[self._channels.PLANNING_PAD.type]()
            pad.header.timestamp_sec = self._clock()
            pad.header.module_name = "external_command"
            pad.header.sequence_num = request.header.sequence_num
            pad.action = _ACTION_PADS[request.command]
            self._pads.write(pad)

    def _on_lane_follow(self, request: Any) -> None:
        self.routes += 1
        self.target_speed = (
            request.target_speed if request.HasField("target_speed") else None
        )
