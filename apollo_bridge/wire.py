"""The way to Apollo, and what is kept of what came by it.

Readers' callbacks run on threads of the host, which swallows what they raise: ours do
nothing but keep the newest message.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from forewarn.apollo_bridge.buses.contract import Bus
from forewarn.apollo_bridge.messages.channels import Channel
from forewarn.apollo_bridge.messages.pool import Messages


def connect(address: str, *, newest_only: bool = True) -> Bus:
    """The way to Apollo: `node`, inside its container, or `tcp://HOST:PORT`."""
    from forewarn.apollo_bridge.buses.node import NodeBus
    from forewarn.apollo_bridge.buses.tcp import TcpBus, parse_address

    if address == "node":
        return NodeBus()
    return TcpBus(*parse_address(address), newest_only=newest_only)


class Received(NamedTuple):
    """A message, when it came by the local clock, and how many came before it."""

    message: Any
    at_s: float
    number: int


class Inbox:
    """The newest message of each input.

    Args:
        bus: Where they come from.
        channels: The channel of each input.
        messages: The classes to read them with.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        bus: Bus,
        channels: Mapping[str, Channel],
        messages: Messages,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._newest: dict[str, Received] = {}
        self._came = threading.Event()
        for name, channel in channels.items():
            bus.create_reader(channel.name, messages[channel.type], self._keep, name)

    def _keep(self, message: Any, name: str) -> None:
        before = self._newest.get(name)
        number = 0 if before is None else before.number + 1
        self._newest[name] = Received(message, self._clock(), number)
        self._came.set()

    def apollo_time_s(self) -> float | None:
        """Apollo's clock now: its newest time stamp, and how long ago that came."""
        stamped = [(stamp(each.message), each.at_s) for each in self._newest.values()]
        latest = max(((s, at) for s, at in stamped if s is not None), default=None)
        return None if latest is None else latest[0] + self._clock() - latest[1]

    def age_s(self, name: str) -> float | None:
        """How old an input is: by its stamp and Apollo's clock, or since it came."""
        newest = self._newest.get(name)
        if newest is None:
            return None
        stamped, now_s = stamp(newest.message), self.apollo_time_s()
        if stamped is None or now_s is None:
            return max(0.0, self._clock() - newest.at_s)
        return max(0.0, now_s - stamped)

    def newest(self, name: str) -> Received | None:
        """The newest message of an input, if any came."""
        return self._newest.get(name)

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until something holds that a message can bring about; in real time."""
        end_s = time.monotonic() + timeout_s
        while not until():
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return False
            self._came.wait(left_s)
            self._came.clear()
        return True


def stamp(message: Any) -> float | None:
    """The time in a message's header; None if it has none."""
    time_s: float = message.header.timestamp_sec
    return time_s if 0.0 < time_s < math.inf else None
