"""Lanes and links: what a map says of its roads, in the terms that the senses read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from forewarn.plugins.driving.roads.lines import Line

LightName = tuple[str, int]
"""A light: the programme that it belongs to, and its place in that."""


class Turn(StrEnum):
    """Where a link leads, in the words of the signal `direction`."""

    FORWARD = "forward"
    LEFT = "left"
    RIGHT = "right"
    U_TURN = "u_turn"

    @property
    def crosses(self) -> bool:
        """Whether it leads across the way of those who come the other way."""
        return self in (Turn.LEFT, Turn.U_TURN)


class Link(NamedTuple):
    """A way from one lane to the next, through the lane `via` inside a junction."""

    to: str
    via: str
    turn: Turn
    stops: bool = False
    """Whether there is a stop sign."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a map.

    Args:
        name: Its own.
        edge: The lanes beside it that lead the same way share it.
        number: Counted from the right, the sidewalk included.
        length: In m.
        width: In m.
        limit_kmh: How fast one may drive.
        junction: The junction that it is inside of; empty for none.
        for_cars: Whether cars may drive on it.
        links: Where one comes from it.
        shape: Its middle.
        is_crosswalk: Whether people cross a road on it.
    """

    name: str
    edge: str
    number: int
    length: float
    width: float
    limit_kmh: float
    junction: str
    for_cars: bool
    links: tuple[Link, ...]
    shape: Line
    is_crosswalk: bool = False

    @property
    def inside(self) -> bool:
        """Whether it is inside a junction."""
        return self.junction != ""


class Net(Protocol):
    """A map as its source tells it."""

    def lanes(self) -> Iterable[Lane]:
        """Every lane, those inside junctions and crosswalks included."""

    def lights(self) -> Mapping[str, LightName]:
        """By the lane inside the junction: the light that governs it."""

    def meets(self, inside: str) -> Collection[str]:
        """The lanes inside the junction, and crosswalks, that a lane there meets."""

    def goes_first(self, lane: str, to: str) -> Collection[str]:
        """The lanes before the junction that have right of way over this movement."""

    def approaches(self, edge: str) -> Iterable[str]:
        """The edges that lead into the junction to which this edge leads."""
