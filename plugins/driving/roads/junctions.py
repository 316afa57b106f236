"""Who meets whom in junctions, and who goes first, on maps that say it by signs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from forewarn.plugins.driving.roads.lanes import Turn
from forewarn.plugins.driving.roads.lines import Line, crossing

SIDEWAYS = math.radians(45.0)
_ONCOMING = math.radians(135.0)


@dataclass(frozen=True, slots=True)
class Movement:
    """A way through a junction, and by what right one takes it.

    Args:
        lane: Where it begins.
        via: The first lane inside.
        to: The lane behind the junction.
        turn: Where it leads.
        heading: With which one comes, in radians.
        stops: Whether there is a stop sign.
        yields: Whether there is a yield sign.
    """

    lane: str
    via: str
    to: str
    turn: Turn
    heading: float
    stops: bool
    yields: bool

    def goes_before(self, other: Self) -> bool:
        """Whether this one has right of way over another that it meets."""
        if self.stops != other.stops:
            return other.stops
        if self.yields != other.yields:
            return other.yields
        turned = math.remainder(self.heading - other.heading, math.tau)
        if abs(turned) > _ONCOMING:
            return other.turn.crosses and not self.turn.crosses
        return self.unsigned(other, turned)

    def unsigned(self, other: Self, turned: float) -> bool:
        """The same where no sign tells: who comes from the right goes first.

        Args:
            other: The other, which does not come the other way.
            turned: How far to the left of its heading this one's is.
        """
        return turned > SIDEWAYS


Node = TypeVar("Node", bound=Hashable)
Way = TypeVar("Way", bound=Movement)


class Junctions(Generic[Node, Way]):
    """The part of a `Net` that is about junctions.

    Args:
        inside: The lanes and crosswalks inside: the junction and the line of each.
        movements: The ways through junctions, each with its junction.
        edge_of: The edge of a lane.
    """

    def __init__(
        self,
        inside: Mapping[str, tuple[Node, Line]],
        movements: Iterable[tuple[Node, Way]],
        edge_of: Callable[[str], str],
    ) -> None:
        self._place, self._edge_of = inside, edge_of
        self._inside: dict[Node, list[tuple[str, Line]]] = {}
        for name, (node, line) in inside.items():
            self._inside.setdefault(node, []).append((name, line))
        self._through: dict[Node, list[Way]] = {}
        self._into: dict[str, Node] = {}
        for node, movement in movements:
            self._through.setdefault(node, []).append(movement)
            self._into[edge_of(movement.lane)] = node
        self.movements = [each for group in self._through.values() for each in group]

    def meets(self, inside: str) -> Collection[str]:
        node, line = self._place[inside]
        return [
            name
            for name, other in self._inside[node]
            if name != inside and crossing(line, other) is not None
        ]

    def goes_first(self, lane: str, to: str) -> Collection[str]:
        group = self._group(self._edge_of(lane))
        own = [m for m in group if (m.lane, m.to) == (lane, to)]
        return {
            m.lane
            for m in group
            if m.lane != lane and any(m.goes_before(each) for each in own)
        }

    def approaches(self, edge: str) -> Iterable[str]:
        return list(dict.fromkeys(self._edge_of(m.lane) for m in self._group(edge)))

    def _group(self, edge: str) -> list[Way]:
        node = self._into.get(edge)
        return [] if node is None else self._through[node]
