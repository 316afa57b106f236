"""What a loop beyond a socket shows of its world, for those who watch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, get_args

from forewarn.abstractions.frame import is_number
from forewarn.plugins.remote.messages import Malformed
from forewarn.plugins.scenery import Shape, ShapeKind, Thing, ThingKind

MOST_SHAPES: Final = 20_000
MOST_THINGS: Final = 2_000
_MOST_TEXT: Final = 80
_FARTHEST_M: Final = 1e6


class SceneTold:
    """The newest scene of a loop's; it is `Scenic`."""

    def __init__(self) -> None:
        self._ground: list[Shape] = []
        self._things: list[Thing] = []

    def take(self, content: Mapping[str, Any]) -> None:
        """Takes in what a frame's message shows, if it shows anything.

        Raises:
            Malformed: It is no scene.
        """
        scene = content.get("scene")
        if scene is None:
            return
        if not isinstance(scene, dict) or not set(scene) <= {"ground", "things"}:
            raise Malformed("a scene has ground and things", place="scene")
        if "ground" in scene:
            self._ground = _rows(scene, "ground", MOST_SHAPES, _shape)
        if "things" in scene:
            self._things = _rows(scene, "things", MOST_THINGS, _thing)

    def ground(self) -> list[Shape]:
        """What the last message that had one shows of the ground."""
        return self._ground

    def things(self) -> list[Thing]:
        """What the last message that had any shows of things."""
        return self._things


def _rows(scene: Mapping[str, Any], name: str, most: int, read: Any) -> list[Any]:
    rows = scene[name]
    if not isinstance(rows, list) or len(rows) > most:
        raise Malformed(f"not a list of at most {most} rows", place=f"scene.{name}")
    try:
        return [read(*row) for row in rows]
    except (TypeError, ValueError) as error:
        raise Malformed(f"{error}"[:120], place=f"scene.{name}") from None


def _shape(kind: object, width_m: object, points: object) -> Shape:
    if kind not in get_args(ShapeKind) or not isinstance(points, list):
        raise ValueError("a shape is its kind, its width and its points")
    line = tuple((_number(x), _number(y)) for x, y in points)
    return Shape(kind, line, _number(width_m))  # type: ignore[arg-type]


def _thing(
    name: object, kind: object, x: object, y: object, heading_deg: object,
    length_m: object, width_m: object, state: object = "", top_m: object = 0.0,
    label: object = "",
) -> Thing:  # fmt: skip
    if kind not in get_args(ThingKind):
        raise ValueError("a thing is of a kind that is not known")
    return Thing(
        _text(name), kind, _number(x), _number(y),  # type: ignore[arg-type]
        _number(heading_deg), _number(length_m), _number(width_m), _text(state),
        _number(top_m), _text(label),
    )  # fmt: skip


def _number(value: object) -> float:
    if not is_number(value):
        raise ValueError("not a number")
    if not math.isfinite(value) or abs(value) > _FARTHEST_M:
        raise ValueError("a number is out of range")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise ValueError(f"not a text of at most {_MOST_TEXT} characters")
    return value
