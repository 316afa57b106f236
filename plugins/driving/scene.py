"""What the senses look at: who is on the roads, told in the terms of SUMO's TraCI.

The embedded simulation speaks them itself; other worlds show what they see in the same
terms, so that all of them have the same signals.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Protocol

EGO_WIDTH_M = 1.8


class Routes(Protocol):
    """Where vehicles go, as far as one can tell."""

    def __getitem__(self, vehicle: str) -> Container[str]:
        """The edges that it may take."""


class Scene(Protocol):
    """One moment on the roads.

    `vehicle`, `person` and `trafficlight` answer as TraCI's domains of those names.
    """

    @property
    def vehicle(self) -> Any: ...
    @property
    def person(self) -> Any: ...
    @property
    def trafficlight(self) -> Any: ...
    @property
    def routes(self) -> Routes: ...
