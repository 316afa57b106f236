"""The connection to Apollo, and the newest messages from it.

A bus has the methods of a cyber_py3 node, so a node, a connection to cyber_bridge and a
fake are interchangeable. Readers' callbacks run on the host's threads, which swallow
exceptions, so ours only store the newest message.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from forewarn.abstractions.errors import ForewarnError
from forewarn.apollo_bridge.channels import Channel, Messages
from forewarn.apollo_bridge.support import PLACES

Callback = Callable[..., None]


class Writer(Protocol):
    """Publishes on one channel."""

    def write(self, data: Any) -> object:
        """Queues a message without blocking; returns False if it is already lost."""


class Client(Protocol):
    """Calls one service."""

    def send_request(self, data: Any) -> Any:
        """Sends a request and waits for the reply; returns None without a service or a
        reply.
        """


@dataclass(slots=True)
class Health:
    """The state of a bus.

    Args:
        connected: Whether the bus is connected.
        losses: How often a connection was lost or carried invalid data.
        dropped: The number of outgoing messages that were replaced or could not be
            sent.
        skipped: The number of messages skipped because newer ones had arrived.
        problem: The last problem.
    """

    connected: bool = False
    losses: int = 0
    dropped: int = 0
    skipped: int = 0
    problem: str = ""

    def lose(self, problem: object) -> None:
        """Counts a lost connection."""
        self.losses += 1
        self.problem = str(problem)


class Bus(Protocol):
    """A connection to Apollo's channels and, if possible, its services."""

    health: Health

    def create_reader(
        self, name: str, data_type: Any, callback: Callback, args: Any = None
    ) -> Any:
        """Adds a reader; returns None if the channel already has one."""

    def create_writer(self, name: str, data_type: Any, qos_depth: int = 1) -> Writer:
        """Makes a writer for a channel."""

    def create_client(self, name: str, request_type: Any, response_type: Any) -> Client:
        """Makes a client of a service that `services` lists."""

    def services(self) -> frozenset[str]:
        """The services that can currently be called."""

    def close(self) -> None:
        """Stops everything that the bus has started; safe to call twice."""


class NoCyber(ForewarnError):
    """cyber_py3 is not installed, or does not start."""

    exit_status = 3


def find_cyber() -> Any:
    """The module `cyber` of cyber_py3.

    Raises:
        NoCyber: The module is not installed.
    """
    why = "it is not installed"
    for place in PLACES:
        try:
            return import_module(f"{place}.cyber")
        except ImportError as error:
            # A missing dependency of this module is more informative than the other
            # module's absence.
            if error.name is not None and not place.startswith(error.name):
                why = str(error)
    raise NoCyber(
        f"there is no cyber_py3 here: {why} (run inside Apollo's container, after"
        " `source cyber/setup.bash`; from outside use --bridge tcp://HOST:9090)"
    )


class NodeBus:
    """A node as a bus.

    Args:
        cyber: The module `cyber`; by default the installed one.
    """

    def __init__(self, cyber: Any = None) -> None:
        self._cyber = find_cyber() if cyber is None else cyber
        if not self._cyber.ok() and not self._cyber.init("forewarn"):
            raise NoCyber(
                "cyber could not be started: set it up in this container first"
            )
        self._node = self._cyber.Node("forewarn")
        self.health = Health(connected=True)

    def create_reader(
        self, name: str, data_type: Any, callback: Callback, args: Any = None
    ) -> Any:
        return self._node.create_reader(name, data_type, callback, args)

    def create_writer(self, name: str, data_type: Any, qos_depth: int = 1) -> Writer:
        writer: Writer = self._node.create_writer(name, data_type, qos_depth)
        return writer

    def create_client(self, name: str, request_type: Any, response_type: Any) -> Client:
        client: Client = self._node.create_client(name, request_type, response_type)
        return client

    def services(self) -> frozenset[str]:
        """The services that cyber discovers within two seconds."""
        return frozenset(self._cyber.ServiceUtils.get_services())

    def close(self) -> None:
        if self.health.connected:
            self.health.connected = False
            self._cyber.shutdown()


class Received(NamedTuple):
    """A message, its arrival time by the local clock, and its number."""

    message: Any
    at_s: float
    number: int


class Inbox:
    """The newest message of each input.

    Args:
        bus: The source of the messages.
        channels: The channel of each input.
        messages: The message classes that decode them.
        clock: A monotonic clock in seconds.
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
        """Apollo's current time: the newest timestamp plus the time since then."""
        stamped = [(stamp(each.message), each.at_s) for each in self._newest.values()]
        latest = max(((s, at) for s, at in stamped if s is not None), default=None)
        return None if latest is None else latest[0] + self._clock() - latest[1]

    def age_s(self, name: str) -> float | None:
        """The age of an input, by its timestamp or its arrival.

        The larger of the two is used, because a timestamp may be in the future.
        """
        newest = self._newest.get(name)
        if newest is None:
            return None
        since_s = max(0.0, self._clock() - newest.at_s)
        stamped, now_s = stamp(newest.message), self.apollo_time_s()
        if stamped is None or now_s is None:
            return since_s
        return max(since_s, now_s - stamped)

    def newest(self, name: str) -> Received | None:
        """The newest message of an input, or None."""
        return self._newest.get(name)

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Waits in real time until a condition on messages holds."""
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
