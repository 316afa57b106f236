"""What a world looks like from above, for pictures; nobody judges or steers by it.

A world that can tell has two methods more: `ground`, asked once an episode, and
`things`, asked at every frame. Lengths are metres, x points east and y north, headings
are degrees clockwise from north.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

Point = tuple[float, float]

ShapeKind = Literal["lane", "junction", "sidewalk", "crosswalk", "line", "floor"]
ThingKind = Literal["ego", "vehicle", "pedestrian", "light", "furniture", "object"]

HIT = "hit"
"""The state of whoever the ego collided with."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A part of the ground that does not move.

    Args:
        kind: What it is.
        points: Along it, or around it.
        width_m: How wide it is along its points; 0: they go around it.
    """

    kind: ShapeKind
    points: tuple[Point, ...]
    width_m: float = 0.0


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that stands or moves there at one moment.

    Args:
        name: Its own; no other thing of the episode has it.
        kind: What it is; there is at most one ego, which the picture follows.
        x: Of its middle.
        y: Of its middle.
        heading_deg: Where it looks.
        length_m: Along its heading.
        width_m: Across.
        state: What can be seen of it beside: a light's colour, "open", "on", "hit".
        top_m: How high it reaches: what is higher is drawn over the rest.
        label: What people call it; empty where that is clear.
    """

    name: str
    kind: ThingKind
    x: float
    y: float
    heading_deg: float
    length_m: float
    width_m: float
    state: str = ""
    top_m: float = 0.0
    label: str = ""


@runtime_checkable
class Scenic(Protocol):
    """A world that can be drawn."""

    def ground(self) -> Sequence[Shape]:
        """What does not move in this episode."""

    def things(self) -> Sequence[Thing]:
        """Everything that stands or moves there at this moment."""
