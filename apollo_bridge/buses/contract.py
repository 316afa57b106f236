"""What a way to Apollo is: a bus with the methods of a node of cyber_py3.

A node, a connection to cyber_bridge and a fake one serve alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

Callback = Callable[..., None]


class Writer(Protocol):
    """Publishes on one channel."""

    def write(self, data: Any) -> object:
        """Hands a message over; returns at once, and false if it is lost already."""


class Client(Protocol):
    """Calls one service."""

    def send_request(self, data: Any) -> Any:
        """The reply; None if there is no service or its reply is empty. Blocks."""


@dataclass(slots=True)
class Health:
    """How a bus is doing.

    Args:
        connected: Whether messages can come and go now.
        losses: How often a connection was lost, or something on it was no message.
        dropped: Messages to send that were replaced or could not leave.
        skipped: Messages that came but were not looked at, for newer ones were there.
        problem: What went wrong last.
    """

    connected: bool = False
    losses: int = 0
    dropped: int = 0
    skipped: int = 0
    problem: str = ""

    def lose(self, problem: object) -> None:
        """Counts a loss."""
        self.losses += 1
        self.problem = str(problem)


class Bus(Protocol):
    """A way to Apollo's channels, and to its services where there is one."""

    health: Health

    def create_reader(
        self, name: str, data_type: Any, callback: Callback, args: Any = None
    ) -> Any:
        """Calls back with each message; None if the channel is read already."""

    def create_writer(self, name: str, data_type: Any, qos_depth: int = 1) -> Writer:
        """What publishes on a channel."""

    def create_client(self, name: str, request_type: Any, response_type: Any) -> Client:
        """What calls a service; only for one that `services` lists."""

    def services(self) -> frozenset[str]:
        """The services that can be called at this moment."""

    def close(self) -> None:
        """Ends everything that it began; safe to call twice."""
