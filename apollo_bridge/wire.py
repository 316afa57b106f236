"""The connection to Apollo, and the newest messages received.

A bus has the methods of a cyber_py3 node, so a node, a connection to cyber_bridge and a
fake for tests are interchangeable. Callbacks run on threads of Cyber RT, which swallow
exceptions, so our callbacks only store the newest message.
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
        """Sends a request and waits for the reply; returns None if there is no service
        or no reply.
        """


@dataclass(slots=True)
class Health:
    """The state of a bus.

    Args:
        connected: Whether the bus is connected.
        losses: How often the connection was lost or a message was invalid.
        dropped: The number of outgoing messages that were replaced or could not be
            sent.
        skipped: The number of messages skipped because newer ones had arrived.
        problem: A description of the last problem.
    """

    connected: bool = False
    losses: int = 0
    dropped: int = 0
    skipped: int = 0
    problem: str = ""

    def lose(self, problem: object) -> None:
        """Counts a lost connection or an invalid message."""
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
        """Creates a writer for a channel."""

    def create_client(self, name: str, request_type: Any, response_type: Any) -> Client:
        """Creates a client of a service that `services` lists."""

    def services(self) -> frozenset[str]:
        """Returns the names of the services that can currently be called."""

    def close(self) -> None:
        """Closes the connection; may be called more than once."""


class NoCyber(ForewarnError):
    """cyber_py3 is not installed, or does not start."""

    exit_status = 3


def find_cyber() -> Any:
    """Returns the module `cyber` of cyber_py3.

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
        f"cyber_py3 cannot be imported: {why} (run inside Apollo's container, after"
        " `source cyber/setup.bash`; from outside use --bridge tcp://HOST:9090)"
    )


class NodeBus:
    """A bus that uses a Cyber RT node inside Apollo's container.

    Args:
        cyber: The module `cyber`; by default the installed module.
    """

    def __init__(self, cyber: Any = None) -> None:
        self._cyber = find_cyber() if cyber is None else cyber
        if not self._cyber.ok() and not self._cyber.init("forewarn"):
            raise NoCyber(
                "Cyber RT could not be started: set it up in this container first"
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
        """Returns the names of the services that Cyber RT discovers within two
        seconds.
        """
        return frozenset(self._cyber.ServiceUtils.get_services())

    def close(self) -> None:
        if self.health.connected:
            self.health.connected = False
            self._cyber.shutdown()


class Received(NamedTuple):
    """A message, its arrival time by the local clock, and its sequence number."""

    message: Any
    at_s: float
    number: int


class Inbox:
    """The newest message of each input.

    Args:
        bus: The source of the messages.
        channels: The channel of each input.
        messages: The message classes that decode the messages.
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
        """Returns Apollo's current time: the newest timestamp plus the time since its
        arrival.
        """
        stamped = [(stamp(each.message), each.at_s) for each in self._newest.values()]
        latest = max(((s, at) for s, at in stamped if s is not None), default=None)
        return None if latest is None else latest[0] + self._clock() - latest[1]

    def age_s(self, name: str) -> float | None:
        """Returns the age of an input in seconds, by its timestamp or its arrival.

        The larger of the two ages is used, because a timestamp may be in the future.
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
        """Returns the newest message of an input, or None."""
        return self._newest.get(name)

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Waits in real time until a condition on messages is met; returns False on a
        timeout.
        """
        end_s = time.monotonic() + timeout_s
        while not until():
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return False
            self._came.wait(left_s)
            self._came.clear()
        return True


def stamp(message: Any) -> float | None:
    """Returns the timestamp in a message's header; None if there is none."""
    time_s: float = message.header.timestamp_sec
    return time_s if 0.0 < time_s < math.inf else None
