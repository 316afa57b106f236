"""What a CommonRoad file holds, once it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forewarn.plugins.driving.roads.lanes import Turn
from forewarn.plugins.driving.roads.lines import Point
from forewarn.plugins.driving.scene import Colour, TurnSignal


@dataclass(frozen=True, slots=True)
class State:
    """Where somebody's middle is at one step, in m, m/s and radians."""

    step: int
    x: float
    y: float
    heading: float
    speed: float


@dataclass(frozen=True, slots=True)
class Shown:
    """What somebody shows from one step on."""

    step: int
    signal: TurnSignal


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Somebody, or something, and where it is when.

    Args:
        number: Its id.
        kind: CommonRoad's word for it.
        length: In m.
        width: In m.
        states: Of a thing that stands one; else one a step.
        shown: Its turn signals, where they are told.
        stands: Whether it never moves.
    """

    number: int
    kind: str
    length: float
    width: float
    states: tuple[State, ...]
    shown: tuple[Shown, ...] = ()
    stands: bool = False

    @property
    def on_foot(self) -> bool:
        """Whether it is a pedestrian."""
        return self.kind == "pedestrian"


@dataclass(frozen=True, slots=True)
class Lanelet:
    """A piece of a lane.

    Args:
        number: Its id.
        middle: Its middle line.
        width: In m.
        kinds: What it is for.
        after: The lanelets that it leads to.
        right: The lanelet to its right that leads the same way, if there is one.
        signs: The signs for it.
        lights: The lights for it.
        limit_kmh: How fast one may drive, if it says so itself.
    """

    number: int
    middle: tuple[Point, ...]
    width: float
    kinds: frozenset[str]
    after: tuple[int, ...]
    right: int | None
    signs: frozenset[int]
    lights: tuple[int, ...]
    limit_kmh: float | None


@dataclass(frozen=True, slots=True)
class TrafficLight:
    """A light: its colours with their durations in steps, from `offset` on."""

    cycle: tuple[tuple[Colour, int], ...]
    offset: int
    direction: str
    active: bool

    def at(self, step: int) -> tuple[Colour, int]:
        """What it shows at a step, and for how many steps it has."""
        if not self.active or not self.cycle:
            return Colour.OFF, 0
        since = (step - self.offset) % sum(lasts for _, lasts in self.cycle)
        for colour, lasts in self.cycle:
            if since < lasts:
                return colour, since
            since -= lasts
        raise AssertionError  # the steps of a cycle are those of its colours


@dataclass(frozen=True, slots=True)
class Recorded:
    """A file.

    Args:
        source: Its path.
        period_s: The time between two steps.
        lanelets: By id.
        limits_kmh: Of the signs that limit the speed, by id.
        stops: The signs at which one has to stop.
        yields: Those at which one gives way.
        lights: By id.
        turns: Of every lanelet inside an intersection: that, and where it leads.
        obstacles: By id.
        problems: Of every planning problem, by id: where its ego begins, and how many
            steps it has.
    """

    source: str
    period_s: float
    lanelets: Mapping[int, Lanelet]
    limits_kmh: Mapping[int, float]
    stops: frozenset[int]
    yields: frozenset[int]
    lights: Mapping[int, TrafficLight]
    turns: Mapping[int, tuple[int, Turn]]
    obstacles: Mapping[int, Obstacle]
    problems: Mapping[int, tuple[State, int]]
