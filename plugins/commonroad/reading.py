"""Reads CommonRoad XML files: lanelets, signs, lights, obstacles and planning problems.

Files are untrusted: sizes are limited, and numbers must be finite.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from forewarn.abstractions.errors import TooLarge
from forewarn.plugins.driving.roads import LinkDirection, Point, length_of
from forewarn.plugins.driving.scene import Colour, TurnSignal
from forewarn.plugins.trees import Reading


@dataclass(frozen=True, slots=True)
class State:
    """The state of a road user at one step, in m, radians and m/s.

    The coordinates are those of the centre.
    """

    step: int
    x: float
    y: float
    heading: float
    speed: float


@dataclass(frozen=True, slots=True)
class Shown:
    """The state of a vehicle's turn signals from a given step on."""

    step: int
    signal: TurnSignal


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A road user or an object, with its states over time.

    Args:
        number: The id in the file.
        kind: The type, as named in CommonRoad.
        length: The length in m.
        width: The width in m.
        states: One state per step, or a single state for a static object.
        shown: The states of the turn signals, if the file contains them.
        stands: Whether the object is static.
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
        """Whether the road user is a pedestrian."""
        return self.kind == "pedestrian"


@dataclass(frozen=True, slots=True)
class Lanelet:
    """A lanelet, which is a section of a lane.

    Args:
        number: The id in the file.
        middle: The points of the centre line.
        width: The width in m.
        kinds: The types of the lanelet, as named in CommonRoad.
        after: The ids of the successor lanelets.
        right: The id of the adjacent lanelet to the right in the same direction, if
            any.
        signs: The ids of the signs that apply to the lanelet.
        lights: The ids of the traffic lights that apply to the lanelet.
        limit_kmh: The speed limit of the lanelet itself in km/h, if any.
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
    """A traffic light with a cycle of colours and their durations in steps.

    The cycle starts at the step `offset`.
    """

    cycle: tuple[tuple[Colour, int], ...]
    offset: int
    direction: str
    active: bool

    def at(self, step: int) -> tuple[Colour, int]:
        """Returns the colour at a step, and for how many steps it has been shown."""
        if not self.active or not self.cycle:
            return Colour.OFF, 0
        since = (step - self.offset) % sum(lasts for _, lasts in self.cycle)
        for colour, lasts in self.cycle:
            if since < lasts:
                return colour, since
            since -= lasts
        raise AssertionError  # unreachable: the durations add up to the cycle


@dataclass(frozen=True, slots=True)
class RecordedScene:
    """The content of a CommonRoad file.

    Args:
        source: The path of the file.
        period_s: The length of a step in seconds.
        lanelets: The lanelets by id.
        limits_kmh: The speed limits of signs in km/h, by the id of the sign.
        stops: The ids of stop signs.
        yields: The ids of yield signs.
        lights: The traffic lights by id.
        turns: The intersection and the turn direction of each lanelet inside an
            intersection.
        obstacles: The obstacles by id.
        problems: The initial state of the ego and the number of steps of each planning
            problem, by id.
    """

    source: str
    period_s: float
    lanelets: Mapping[int, Lanelet]
    limits_kmh: Mapping[int, float]
    stops: frozenset[int]
    yields: frozenset[int]
    lights: Mapping[int, TrafficLight]
    turns: Mapping[int, tuple[int, LinkDirection]]
    obstacles: Mapping[int, Obstacle]
    problems: Mapping[int, tuple[State, int]]


_MOST_LANELETS, _MOST_INSIDE = 20_000, 200  # per file, per intersection
_LONGEST_M, _LONGEST_IN_ALL_M = 20_000.0, 2_000_000.0
_FASTEST = 83.0  # m/s
_STEPS_S = (0.001, 10.0)

_LIMITS = frozenset(("274", "R2-1"))
_STOP, _YIELD = frozenset(("206", "R1-1")), frozenset(("205", "R1-2"))
_TURNS = {
    "successorsLeft": LinkDirection.LEFT, "successorsRight": LinkDirection.RIGHT,
    "successorsStraight": LinkDirection.FORWARD,
}  # fmt: skip
_COLOURS = {
    "red": Colour.RED, "redYellow": Colour.RED, "yellow": Colour.YELLOW,
    "green": Colour.GREEN, "inactive": Colour.OFF,
}  # fmt: skip


def read_scene(path: Path) -> RecordedScene:
    """Reads a CommonRoad file of version 2018b or 2020a, which may be compressed with
    gzip.

    Raises:
        InvalidInput: The file is not a CommonRoad file, or it exceeds a size limit.
    """
    return _Scene(path).scene()


class _Scene(Reading):
    """Reads the elements of one file; error messages name the element."""

    kind, tag = "CommonRoad", "commonRoad"
    most_bytes, most_elements = 64 << 20, 800_000
    attributes = ("id", "ref", "timeStepSize", "drivingDir")

    def scene(self) -> RecordedScene:
        root = self.root()
        period_s = self._finite(root.get("timeStepSize"), "its timeStepSize")
        if not _STEPS_S[0] <= period_s <= _STEPS_S[1]:
            raise self._wrong(
                "timeStepSize must be from {:g} to {:g} s, but is {:g} s".format(
                    *_STEPS_S, period_s
                )
            )
        found = [self._lanelet(each) for each in root.findall("lanelet")]
        lanelets = {each.number: each for each in found}
        if not lanelets:
            raise self._wrong("the file contains no lanelets")
        self._check_size(root, lanelets)
        for lanelet in lanelets.values():
            if missing := [n for n in lanelet.after if n not in lanelets]:
                raise self._wrong(
                    f"the successor {missing[0]} of lanelet {lanelet.number} does "
                    "not exist"
                )
        signs = {self._id(sign): _sign_ids(sign) for sign in root.iter("trafficSign")}
        limits = {
            self._id(sign): 3.6 * self._finite(value, f"sign {sign.get('id'):.20}")
            for sign in root.iter("trafficSign")
            for part in sign.iter("trafficSignElement")
            if (part.findtext("trafficSignID") or "").strip() in _LIMITS
            and (value := part.findtext("additionalValue")) is not None
        }
        kinds = ("obstacle", "staticObstacle", "dynamicObstacle")
        bodies = [
            self._obstacle(e, period_s) for kind in kinds for e in root.iter(kind)
        ]
        return RecordedScene(
            self._source, period_s, lanelets, limits,
            frozenset(n for n, names in signs.items() if names & _STOP),
            frozenset(n for n, names in signs.items() if names & _YIELD),
            {self._id(e): self._light(e) for e in root.findall("trafficLight")},
            dict(self._turns(root, lanelets)),
            {each.number: each for each in bodies},
            {self._id(e): self._problem(e) for e in root.iter("planningProblem")},
        )  # fmt: skip

    def _check_size(self, root: ET.Element, lanelets: Mapping[int, Lanelet]) -> None:
        """Rejects road networks whose processing would take minutes."""
        length_m = sum(length_of(each.middle) for each in lanelets.values())
        inside = max(
            (sum(1 for tag in _TURNS for _ in crossing.iter(tag))
             for crossing in root.findall("intersection")), default=0,
        )  # fmt: skip
        for size, most, what in (
            (len(lanelets), _MOST_LANELETS, "lanelets"),
            (length_m, _LONGEST_IN_ALL_M, "m of lanelets"),
            (inside, _MOST_INSIDE, "paths through an intersection"),
        ):
            if size > most:
                raise TooLarge(
                    f"the file has {size:g} {what}, but the limit is {most:g}",
                    source=self._source,
                )

    # -- roads ------------------------------------------------------------------------

    def _lanelet(self, element: ET.Element) -> Lanelet:
        number = self._id(element)
        sides = [self._points(element, side) for side in ("leftBound", "rightBound")]
        left, right = sides
        if len(left) != len(right) or len(left) < 2:
            raise self._wrong(
                f"the bounds of lanelet {number} have {len(left)} and {len(right)} "
                "points, but must have the same number of points, at least 2"
            )
        pairs = list(zip(left, right, strict=True))
        middle = [((a + c) / 2.0, (b + d) / 2.0) for (a, b), (c, d) in pairs]
        smooth = [middle[0], *(b for a, b in pairwise(middle) if math.dist(a, b) > 0)]
        length_m = length_of(smooth)
        if not 0.0 < length_m <= _LONGEST_M:
            raise self._wrong(
                f"lanelet {number} is {length_m:g} m long, but must be longer than 0 m "
                f"and at most {_LONGEST_M:g} m long"
            )
        beside = element.find("adjacentRight")
        same = beside is not None and beside.get("drivingDir") == "same"
        limit = element.findtext("speedLimit")
        line = element.find("stopLine")
        of_line = () if line is None else (line,)
        kinds = (kind.text or "" for kind in element.iter("laneletType"))
        return Lanelet(
            number,
            tuple(smooth),
            sum(math.dist(a, b) for a, b in pairs) / len(pairs),
            frozenset(kind.strip() for kind in kinds),
            tuple(self._refs(element, "successor")),
            self._ref(beside) if same and beside is not None else None,
            frozenset(
                n for e in (element, *of_line) for n in self._refs(e, "trafficSignRef")
            ),
            tuple(
                n for e in (element, *of_line) for n in self._refs(e, "trafficLightRef")
            ),
            None if limit is None else 3.6 * self._finite(limit, f"lanelet {number}"),
        )

    def _light(self, element: ET.Element) -> TrafficLight:
        name = f"traffic light {self._id(element)}"
        cycle: list[tuple[Colour, int]] = []
        for each in element.iter("cycleElement"):
            colour = (each.findtext("color") or "").strip()
            lasts = self._finite(each.findtext("duration"), name)
            if colour not in _COLOURS or lasts < 1:
                raise self._wrong(
                    f"{name} has an invalid phase: {colour!r:.20} for {lasts:g} steps"
                )
            cycle.append((_COLOURS[colour], int(lasts)))
        offset = element.findtext("cycle/timeOffset")
        return TrafficLight(
            tuple(cycle),
            0 if offset is None else int(self._finite(offset, name)),
            (element.findtext("direction") or "all").strip(),
            (element.findtext("active") or "true").strip() != "false",
        )

    def _turns(
        self, root: ET.Element, lanelets: Mapping[int, Lanelet]
    ) -> Iterator[tuple[int, tuple[int, LinkDirection]]]:
        for crossing in root.findall("intersection"):
            number = self._id(crossing)
            for incoming in crossing.findall("incoming"):
                for tag, turn in _TURNS.items():
                    for inside in self._refs(incoming, tag):
                        if inside in lanelets:
                            yield inside, (number, turn)

    # -- obstacles --------------------------------------------------------------------

    def _obstacle(self, element: ET.Element, period_s: float) -> Obstacle:
        number = self._id(element)
        name = f"obstacle {number}"
        role = element.findtext("role", element.tag)
        stands = role.strip() in ("static", "staticObstacle")
        begins = element.find("initialState")
        if begins is None:
            raise self._wrong(f"{name} has no initialState")
        states = [begins, *element.findall("trajectory/state")]
        if len(states) == 1 and not stands:
            raise self._wrong(
                f"{name} moves, but has no trajectory",
                "each moving obstacle requires a trajectory",
            )
        length, width = self._size(element, name)
        shown = element.find("initialSignalState")
        later = element.findall("signalSeries/signalState")
        return Obstacle(
            number,
            (element.findtext("type") or "unknown").strip(),
            length,
            width,
            tuple(self._course(states, name, period_s)),
            tuple(
                Shown(self._step(each, name), _signal(each))
                for each in ([] if shown is None else [shown, *later])
            ),
            stands,
        )

    def _size(self, element: ET.Element, name: str) -> tuple[float, float]:
        """Returns the length and width of a rectangle, a circle or a polygon."""
        shape = element.find("shape")
        for box in () if shape is None else shape.iter("rectangle"):
            sides = (box.findtext("length"), box.findtext("width"))
            return self._finite(sides[0], name), self._finite(sides[1], name)
        for ring in () if shape is None else shape.iter("circle"):
            across = 2.0 * self._finite(ring.findtext("radius"), name)
            return across, across
        points = [] if shape is None else shape.iterfind(".//polygon/point")
        corners = [self._point(each, name) for each in points]
        if not corners:
            raise self._wrong(
                f"{name} has no rectangle, circle or polygon as its shape"
            )
        xs, ys = zip(*corners, strict=True)
        return max(xs) - min(xs), max(ys) - min(ys)

    def _course(
        self, elements: list[ET.Element], name: str, period_s: float
    ) -> Iterator[State]:
        before: State | None = None
        for element in elements:
            state = self._state(element, name, before, period_s)
            if before is not None and state.step != before.step + 1:
                raise self._wrong(
                    f"in the trajectory of {name}, step {state.step} follows step "
                    f"{before.step}, but steps must be consecutive"
                )
            yield state
            before = state

    def _state(
        self, element: ET.Element, name: str, before: State | None, period_s: float
    ) -> State:
        step = self._step(element, name)
        x, y = self._place(element.find("position"), name)
        told = element.find("velocity")
        heading = element.find("orientation")
        turned = 0.0 if before is None else before.heading
        if heading is not None:
            turned = self._amount(heading, name)
        if told is not None:
            speed = self._amount(told, name)
        elif before is not None:
            speed = math.hypot(x - before.x, y - before.y) / period_s
        else:
            speed = 0.0
        if abs(speed) > _FASTEST:
            raise self._wrong(
                f"{name} has a speed of {speed:g} m/s at step {step}, but the limit is "
                f"{_FASTEST:g} m/s"
            )
        return State(step, x, y, turned, abs(speed))

    def _place(self, element: ET.Element | None, name: str) -> Point:
        """Returns the coordinates of a position, which is a point or the centre of an
        area.
        """
        if element is None or not len(element):
            raise self._wrong(f"{name} has no position")
        points = [self._point(each, name) for each in element.iter("center")]
        points = points or [self._point(each, name) for each in element.iter("point")]
        if not points:
            raise self._wrong(f"{name} has no position")
        xs, ys = zip(*points, strict=True)
        return sum(xs) / len(xs), sum(ys) / len(ys)

    def _problem(self, element: ET.Element) -> tuple[State, int]:
        name = f"planning problem {self._id(element)}"
        begins = element.find("initialState")
        if begins is None:
            raise self._wrong(f"{name} has no initialState")
        lasts = [
            self._finite(each.text, name)
            for each in element.iterfind("goalState/time/intervalEnd")
        ]
        return self._state(begins, name, None, 1.0), int(max(lasts, default=0))

    # -- numbers ----------------------------------------------------------------------

    def _step(self, element: ET.Element, name: str) -> int:
        time = element.find("time")
        return 0 if time is None else round(self._amount(time, name))

    def _amount(self, element: ET.Element, name: str) -> float:
        """Returns an exact number, or the midpoint of an interval."""
        if (exact := element.findtext("exact")) is not None:
            return self._finite(exact, name)
        ends = (element.findtext("intervalStart"), element.findtext("intervalEnd"))
        return sum(self._finite(end, name) for end in ends) / 2.0

    def _points(self, element: ET.Element, side: str) -> list[Point]:
        name = f"the {side} of lanelet {element.get('id', '')[:20]}"
        return [self._point(e, name) for e in element.iterfind(f"{side}/point")]

    def _point(self, element: ET.Element, name: str) -> Point:
        x, y = element.findtext("x"), element.findtext("y")
        return self._finite(x, name), self._finite(y, name)

    def _id(self, element: ET.Element) -> int:
        return int(self._finite(element.get("id"), f"the id of a {element.tag:.30}"))

    def _ref(self, element: ET.Element) -> int:
        return int(self._finite(element.get("ref"), f"the ref of a {element.tag:.30}"))

    def _refs(self, element: ET.Element, tag: str) -> Iterator[int]:
        for each in element.findall(tag):
            yield self._ref(each)


def _sign_ids(element: ET.Element) -> frozenset[str]:
    names = (name.text or "" for name in element.iter("trafficSignID"))
    return frozenset(name.strip() for name in names)


def _signal(element: ET.Element) -> TurnSignal:
    lit = {
        name
        for name in ("hazardWarningLights", "indicatorLeft", "indicatorRight")
        if (element.findtext(name) or "").strip() in ("true", "1")
    }
    if "hazardWarningLights" in lit or len(lit) > 1:
        return TurnSignal.HAZARD
    if not lit:
        return TurnSignal.OFF
    return TurnSignal.LEFT if "indicatorLeft" in lit else TurnSignal.RIGHT
