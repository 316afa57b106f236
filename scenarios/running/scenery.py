"""The scenes of a run, frame by frame, in a file next to its record.

The format is `forewarn.scene/1`, JSON Lines: a header with the ground, then one line
per frame with the things that are new, changed or gone since the previous frame. For a
world that renders pictures, the lines contain the pictures instead. The same seed gives
the same bytes. The last line of the record contains the file's SHA-256, so that a
modified scene is detected.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard, get_args

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import parse_json
from forewarn.abstractions.frame import Frame, is_number
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.plugins.contracts import (
    Rendered,
    Scenic,
    Shape,
    ShapeKind,
    Thing,
    ThingKind,
)
from forewarn.scenarios.running import rendering

FORMAT = "forewarn.scene/1"
SUFFIX = ".scene.jsonl"
_RECORD = ".run.jsonl"

MAX_LINE_BYTES = 16 * 1024 * 1024
_KINDS = get_args(ThingKind)
_SHAPES = get_args(ShapeKind)

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class InvalidScene(InvalidInput):
    """The scene file is malformed or belongs to a different run."""


def scene_file(record: Path) -> Path:
    """Returns the path of the scenes that belong to a run record."""
    return record.with_name(record.name.removesuffix(_RECORD) + SUFFIX)


def is_visible(world: object) -> TypeGuard[Scenic | Rendered]:
    """Whether a world can be drawn from above or renders pictures."""
    if isinstance(world, Scenic):
        return True
    return isinstance(world, Rendered) and world.renders


class SceneLog(Listener):
    """Writes the scenes of one episode as it proceeds.

    An error while drawing never affects the run.

    Args:
        path: The file to write.
        world: The world that is drawn.
        scenario: The scenario.
        seed: The seed.
    """

    def __init__(
        self, path: Path, world: Scenic | Rendered, scenario: str, seed: int
    ) -> None:
        self._path, self._world = path, world
        self._picture, self._due_s, self._chars = "", -math.inf, 0
        self._run = {"format": FORMAT, "scenario": scenario, "seed": seed}
        self._hash = hashlib.sha256()
        self._before: dict[str, tuple[Thing, list[Any]]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._failed = False

    def began(self, run: Run) -> None:
        """Writes the header, which contains the ground."""

        def header() -> dict[str, Any]:
            shapes = self._world.ground() if isinstance(self._world, Scenic) else ()
            ground = [shape_row(shape) for shape in shapes]
            return {**self._run, "source": run.source.name, "ground": ground}

        self._try(header)

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        """Writes the scene of a frame."""

        def changes() -> dict[str, Any]:
            before = self._before
            now: dict[str, tuple[Thing, list[Any]]] = {}
            new: dict[str, list[Any]] = {}
            world = self._world
            for thing in world.things() if isinstance(world, Scenic) else ():
                name = thing.name
                known = before.get(name)
                if known is None or known[0] is not thing:
                    row = thing_row(thing)
                    if known is None or known[1] != row:
                        new[name] = row
                    known = thing, row
                now[name] = known
            self._before = now
            line: dict[str, Any] = {"sequence": frame.sequence, "time_s": frame.time_s}
            line["things"] = new
            if gone := [name for name in before if name not in now]:
                line["gone"] = gone
            if not isinstance(world, Scenic):
                line |= self._rendered(world, frame.time_s)
            return line

        self._try(changes)

    def _rendered(self, world: Rendered, time_s: float) -> dict[str, str]:
        """Returns a new picture, if one is due and differs from the previous one."""
        if time_s < self._due_s:
            return {}
        self._due_s = time_s + rendering.PERIOD_S - 1e-6
        picture = rendering.encoded(world.picture())
        if picture == self._picture:
            return {}
        self._picture = picture
        self._chars += len(picture)
        if self._chars > rendering.MAX_RUN_CHARS:
            raise ValueError("the images of the run take more than 4 MB")
        return {"picture": picture}

    def close(self) -> str:
        """Closes the file; returns its SHA-256."""
        self._file.close()
        return self._hash.hexdigest()

    def _try(self, make: Any) -> None:
        if self._failed:
            return
        try:
            line = _encode(make())
        except Exception as error:
            self._failed = True
            line = _encode({"failed": f"{type(error).__name__}: {error}"[:400]})
        data = f"{line}\n".encode()
        self._hash.update(data)
        self._file.write(data)


def shape_row(shape: Shape) -> list[Any]:
    """Converts a shape to JSON."""
    points = [[round(x, 2), round(y, 2)] for x, y in shape.points]
    return [shape.kind, round(shape.width_m, 2), points]


def thing_row(thing: Thing) -> list[Any]:
    """Converts a thing to JSON, without its name."""
    return [
        thing.kind, round(thing.x, 2), round(thing.y, 2), round(thing.heading_deg, 1),
        round(thing.length_m, 2), round(thing.width_m, 2), thing.state,
        round(thing.top_m, 2), thing.label,
    ]  # fmt: skip


# -- reading --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VisibleThings:
    """The things that are visible at one frame, by name."""

    sequence: int
    time_s: float
    things: Mapping[str, Thing]


@dataclass(frozen=True, slots=True)
class Scenery:
    """The scenes of a run.

    Args:
        ground: The stationary parts.
        moments: The visible things, frame by frame.
        sha256: The file's SHA-256.
        problem: Why the file is incomplete; empty if it is complete.
        pictures: The pictures that the world rendered, as PNG in base64, by sequence
            number.
    """

    ground: tuple[Shape, ...]
    moments: tuple[VisibleThings, ...]
    sha256: str
    problem: str = ""
    pictures: Mapping[int, str] = field(default_factory=dict)


def read_scene(path: Path, scenario: str, seed: int) -> Scenery:
    """Reads the scenes of a run, and checks that they belong to it; an incomplete last
    line is left out.
    """
    digest = hashlib.sha256()
    lines = _lines(path, digest)
    try:
        header = next(lines)
        said = header.get("format"), header.get("scenario"), header.get("seed")
        if said != (FORMAT, scenario, seed):
            raise InvalidScene(
                f"the scenes do not belong to the run of {scenario} with seed {seed}",
                source=str(path),
            )
        ground = tuple(_shape(row) for row in header["ground"])
        moments: list[VisibleThings] = []
        pictures: dict[int, str] = {}
        things: dict[str, Thing] = {}
        problem = ""
        for line in lines:
            if "failed" in line:
                problem = str(line["failed"])
                break
            things = {n: t for n, t in things.items() if n not in line.get("gone", ())}
            things |= {n: _thing(n, row) for n, row in line["things"].items()}
            at = int(line["sequence"]), _number(line["time_s"])
            moments.append(VisibleThings(*at, things))
            if "picture" in line:
                pictures[at[0]] = rendering.checked(line["picture"])
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        why = error if isinstance(error, ValueError) else f"malformed data ({error})"
        raise InvalidScene(f"not a scene: {why!s:.80}", source=str(path)) from error
    for _ in lines:
        pass  # Read the rest, so that the hash covers the whole file.
    return Scenery(ground, tuple(moments), digest.hexdigest(), problem, pictures)


def _lines(path: Path, digest: Any) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            place = f"line {number}"
            if len(raw) > MAX_LINE_BYTES:
                raise InvalidScene(
                    "the line is too long", source=str(path), place=place
                )
            digest.update(raw)
            if not raw.endswith(b"\n"):
                return
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError:
                raise InvalidScene(
                    "not UTF-8 text", source=str(path), place=place
                ) from None
            content = parse_json(text, str(path), place)
            if not isinstance(content, dict):
                raise InvalidScene("not a scene", source=str(path), place=place)
            yield content


def _shape(row: Any) -> Shape:
    kind, width, points = row
    if kind not in _SHAPES:
        raise ValueError(f"unknown kind of shape {kind!r:.40}")
    return Shape(
        kind, tuple((_number(x), _number(y)) for x, y in points), _number(width)
    )


def _thing(name: str, row: Any) -> Thing:
    kind, x, y, heading, length, width, state, top, label = row
    if kind not in _KINDS:
        raise ValueError(f"unknown kind of thing {kind!r:.40}")
    return Thing(
        name, kind, _number(x), _number(y), _number(heading), _number(length),
        _number(width), str(state), _number(top), str(label),
    )  # fmt: skip


def _number(value: Any) -> float:
    if not is_number(value):
        raise ValueError(f"{value!r:.40} is not a number")
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    return float(value)
