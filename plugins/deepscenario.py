"""A world that replays scenarios of DeepScenario, in which Apollo drives in the SVL
simulator.

DeepScenario publishes the trajectories of the ego, vehicles and pedestrians as XML
files of 3 s each; consecutive files of a test execution form a run. The files contain
neither a map nor the sizes of vehicles and pedestrians. The lengths of the vehicles are
approximations.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Value
from forewarn.plugins.contracts import Example, Source
from forewarn.plugins.driving.bodies import PROVIDES, BodySenses
from forewarn.plugins.driving.foresight import rounded
from forewarn.plugins.driving.scene import Mover, gap_m, middle, touches
from forewarn.plugins.logs import RecordedWorld
from forewarn.plugins.trees import Reading

NEAREST = 3
OF_OBJECTS = tuple(
    f"object_{place}{what}"
    for place in range(1, NEAREST + 1)
    for what in ("", "_kind", "_distance", "_bearing", "_closing_speed")
)
"""The signals of the nearest road users."""

_SIZES_M = {
    "Hatchback": (4.2, 1.8), "Jeep": (4.2, 1.8), "Sedan": (4.6, 1.8),
    "SUV": (4.8, 2.0), "BoxTruck": (8.0, 2.6), "SchoolBus": (12.0, 2.6),
}  # fmt: skip
"""The length and width of the simulator's vehicles."""

_EGO_M, _PERSON_M = (4.7, 2.1), (0.5, 0.5)
_KINDS = {"BoxTruck": "truck", "SchoolBus": "bus"}
_PERSON = "pedestrian"
_NAME = re.compile(
    r"(?P<run>\d+)_scenario_(?P<part>\d+)(_(?P<hit>npc_vehicle|pedestrian|obstacle))?"
)
"""Matches file names; the group `hit` names what the ego collides with, if anything."""
_CONTACT_M = 0.3
"""The distance of bodies that counts as contact, because their sizes are not exact."""

_MOST_STEPS = 10_000
_FASTEST = 83.0  # m/s
_PERIODS_S = (0.001, 10.0)
_MOST_M = 1000.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A road user at one step.

    Args:
        body: The position and size.
        kind: One of `car`, `truck`, `bus` and `pedestrian`.
        velocity: The velocity in m/s along the x and y axes.
    """

    body: Mover
    kind: str
    velocity: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Part:
    """The content of a file: the ego and the other road users at each step."""

    period_s: float
    steps: tuple[tuple[Seen, tuple[Seen, ...]], ...]


class DeepScenarioWorld(RecordedWorld):
    """A world that replays scenarios of DeepScenario; each test execution is a run.

    The run ends at the first collision. Actions have no effect.

    Args:
        files: The path of a file; `*` can match several files, and `**` folders.
            Consecutive files of a folder, such as `7_scenario_0.deepscenario` and
            `7_scenario_1.deepscenario`, form a run.
    """

    @staticmethod
    def example() -> Example:
        """Returns an example with generated scenarios."""
        return Example(make=_example, pilot="log", steps=10)

    def __init__(self, *, files: str) -> None:
        super().__init__(files)
        self._runs = list(_runs(self._paths))
        provides = (*PROVIDES, *OF_OBJECTS)
        period_s = read_part(self._runs[0][0]).period_s
        self.source = Source("deepscenario", "driving", provides, period_s, fixed=True)

    @property
    def episodes(self) -> int:
        """The number of test executions."""
        return len(self._runs)

    def begin(self, seed: int) -> None:
        if seed >= self.episodes:
            raise InvalidInput(
                f"the seed is too high: there are only {self.episodes} runs",
                mend=f"use seeds from 0 to {self.episodes - 1}",
            )
        self._steps = list[tuple[Seen, tuple[Seen, ...]]]()
        self._hit_at: int | None = None
        for path in self._runs[seed]:
            part = read_part(path)
            if part.period_s != self.source.period_s:
                raise InvalidInput(
                    f"the time step of the file is {part.period_s:g} s, but that of "
                    f"the first file is {self.source.period_s:g} s",
                    source=str(path),
                )
            before = len(self._steps)
            self._steps += part.steps
            found = _NAME.fullmatch(path.stem)
            if found is not None and found["hit"]:
                self._hit_at = before + _contact(part, found["hit"])
                break
        self._senses = BodySenses(self.source.period_s)

    def values(self) -> Mapping[str, Value]:
        ego, others = self._steps[self.steps]
        vehicles = [each.body for each in others if not each.body.on_foot]
        people = [each.body for each in others if each.body.on_foot]
        hit = self.steps == self._hit_at
        values = self._senses.values(self.time_s, ego.body, vehicles, people, hit)
        if hit:
            self.over = "the ego collided"
        elif self.steps + 1 == len(self._steps):
            self.over = "the recording is over"
        return values | dict(_nearest(ego, others))


def _runs(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Groups consecutive files of a test execution; other files are runs of their
    own.
    """
    named = list[tuple[Path, int, int, Path]]()
    for path in paths:
        found = _NAME.fullmatch(path.stem)
        if found is None:
            yield [path]
        else:
            named.append((path.parent, int(found["run"]), int(found["part"]), path))
    named.sort()
    # Within a run of consecutive numbers, number minus place stays the same.
    for _, run in groupby(
        enumerate(named), lambda pair: (*pair[1][:2], pair[1][2] - pair[0])
    ):
        yield [path for _, (*_, path) in run]


def _contact(part: Part, what: str) -> int:
    """Returns the step at which the ego first touches what it collides with, or the
    last step.

    The name of a file only says that the ego collides at some time in the file, and
    the file does not contain obstacles.
    """
    for step, (ego, others) in enumerate(part.steps):
        for each in others:
            meant = what == ("pedestrian" if each.body.on_foot else "npc_vehicle")
            if meant and touches(ego.body, each.body, _CONTACT_M):
                return step
    return len(part.steps) - 1


def _nearest(ego: Seen, others: Sequence[Seen]) -> Iterator[tuple[str, Value]]:
    """Yields the signals of the nearest road users, the nearest first."""
    away = sorted(
        ((gap_m(ego.body, each.body), each) for each in others),
        key=lambda pair: (pair[0], pair[1].body.name),
    )[:NEAREST]
    rows = [_row(ego, each, room_m) for room_m, each in away]
    values = [value for row in rows for value in row]
    values += [None] * (len(OF_OBJECTS) - len(values))
    yield from zip(OF_OBJECTS, values, strict=True)


def _row(ego: Seen, other: Seen, room_m: float) -> tuple[Value, ...]:
    """Returns a road user's name, kind, distance, bearing and closing speed."""
    (x, y), (its_x, its_y) = middle(ego.body), middle(other.body)
    dx, dy = its_x - x, its_y - y
    turned = math.remainder(math.atan2(dy, dx) - ego.body.heading, math.tau)
    vx, vy = (its - own for its, own in zip(other.velocity, ego.velocity, strict=True))
    closing = -(dx * vx + dy * vy) / max(math.hypot(dx, dy), 0.1)
    closing = max(-2.0 * _FASTEST, min(2.0 * _FASTEST, closing))
    return (
        other.body.name, other.kind, rounded(min(room_m, _MOST_M)),
        round(math.degrees(turned), 1), round(3.6 * closing, 3),
    )  # fmt: skip


# -- reading


def read_part(path: Path) -> Part:
    """Reads a scenario file, which may be compressed with gzip.

    Raises:
        InvalidInput: The file is not of this format, or it exceeds a size limit.
    """
    return _Part(path).part()


class _Part(Reading):
    """Reads the elements of one file; error messages name the element."""

    kind = tag = "DeepScenario"
    most_bytes, most_elements = 8 << 20, 200_000
    attributes = frozenset(
        ("timestep", "name", "model", "ObjectType", "objectRef", "timeStamp", "speed",
         "velocityX", "velocityZ", "positionX", "positionZ", "rotationY")
    )  # fmt: skip

    def part(self) -> Part:
        root = self.root()
        period_s = self._number(root, "timestep", most=_PERIODS_S[1])
        if period_s < _PERIODS_S[0]:
            raise self._wrong(f"the time step is shorter than {_PERIODS_S[0]:g} s")
        kinds = {
            each.get("name", ""): (each.get("model", ""), _type(each))
            for each in root.iter("ScenarioObject")
        }
        paths: dict[str, dict[int, Seen]] = {}
        for action in root.iter("ObjectAction"):
            name = self._child(action, "objectRef").get("objectRef", "")
            if name not in kinds or name in paths:
                raise self._wrong(
                    f"object {name!r:.40} has two trajectories, or is not declared"
                )
            paths[name] = dict(self._trajectory(action, name, *kinds[name]))
        egos = [name for name in paths if kinds[name][1] == "Ego"]
        if len(egos) != 1:
            raise self._wrong(f"the file has {len(egos)} egos, but must have one")
        own = paths.pop(egos[0])
        if not own or list(own) != list(range(min(own), min(own) + len(own))):
            raise self._wrong("the ego's time stamps are not consecutive")
        return Part(
            period_s,
            tuple(
                (ego, tuple(path[at] for path in paths.values() if at in path))
                for at, ego in own.items()
            ),
        )

    def _trajectory(
        self, action: ET.Element, name: str, model: str, kind: str
    ) -> Iterator[tuple[int, Seen]]:
        on_foot = kind == "Pedestrian"
        size = _PERSON_M if on_foot else _SIZES_M.get(model, _SIZES_M["Sedan"])
        if kind == "Ego":
            size = _EGO_M
        called = _PERSON if on_foot else _KINDS.get(model, "car")
        ahead_m = 0.0 if on_foot else size[0] / 2.0
        for point in action.iter("WayPoint"):
            at = self._number(point, "timeStamp", most=_MOST_STEPS)
            speed = self._number(self._child(point, "Speed"), "speed")
            if speed < 0.0 or not at.is_integer():
                raise self._wrong(f"{name:.40}: a time stamp or a speed is invalid")
            if speed > _FASTEST:
                continue  # after some collisions, the simulator flings vehicles away
            velocity = self._child(point, "Velocity")
            position = self._child(point, "ObjectPosition")
            rotation = self._child(point, "ObjectRotation")
            # The simulator's x axis points to the right of its z axis, and its angles
            # are clockwise from the z axis.
            heading = -math.radians(self._number(rotation, "rotationY"))
            x = self._number(position, "positionZ")
            y = -self._number(position, "positionX")
            body = Mover(
                name, x + ahead_m * math.cos(heading), y + ahead_m * math.sin(heading),
                heading, speed, *size, on_foot=on_foot,
            )  # fmt: skip
            moves = (
                self._number(velocity, "velocityZ"),
                -self._number(velocity, "velocityX"),
            )
            yield int(at), Seen(body, called, moves)

    def _child(self, element: ET.Element, tag: str) -> ET.Element:
        found = next(element.iter(tag), None)
        if found is None:
            raise self._wrong(f"a {element.tag:.40} has no {tag}")
        return found

    def _number(self, element: ET.Element, name: str, **limit: float) -> float:
        return self._finite(element.get(name), name, **limit)


def _type(element: ET.Element) -> str:
    return next(
        (each.get("ObjectType", "") for each in element.iter("ObjectParameter")), ""
    )


# -- the example

_HEAD = """<DeepScenario timestep="0.5"><Entities>
<ScenarioObject model="ego" name="Ego0"><ObjectParameter ObjectType="Ego"/>
</ScenarioObject>
<ScenarioObject model="BoxTruck" name="NPC0"><ObjectParameter ObjectType="NPC"/>
</ScenarioObject></Entities><StoryBoard><Story>"""
_POINT = """<WayPoint timeStamp="{at}"><DynamicParameters><Speed speed="{speed}"/>
<Velocity velocityX="0" velocityY="0" velocityZ="{speed}"/></DynamicParameters>
<GeographicParameters><ObjectPosition positionX="0" positionY="10" positionZ="{z}"/>
<ObjectRotation rotationX="0" rotationY="0" rotationZ="0"/></GeographicParameters>
</WayPoint>"""


def _example() -> DeepScenarioWorld:
    """Returns a world with twenty identical runs of an ego that approaches a standing
    truck.
    """
    files = {
        f"{run}_scenario_{part}.deepscenario": _written(part).encode()
        for run in range(20)
        for part in range(2)
    }
    return DeepScenarioWorld.of(files)


def _written(part: int) -> str:
    lines = [_HEAD]
    for name, speed, z in (("Ego0", 10.0, 0.0), ("NPC0", 0.0, 100.0)):
        lines.append(f'<ObjectAction><objectRef objectRef="{name}"/>')
        lines += (
            _POINT.format(at=1 + step, speed=speed, z=z + speed * (3 * part + step / 2))
            for step in range(6)
        )
        lines.append("</ObjectAction>")
    return "\n".join([*lines, "</Story></StoryBoard></DeepScenario>"])
