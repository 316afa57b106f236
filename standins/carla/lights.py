"""Traffic lights: their groups and programs, and commands by clients.

A group's program comes from the SUMO net, if the map has one; otherwise each road into
the junction gets a green light in turn. If SUMO controls the lights, they follow SUMO
until a client changes them; from then on, `Group` runs their program.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forewarn.standins.carla.actors import (
    BOARD,
    GREEN,
    LAMP,
    OFF,
    RED,
    YELLOW,
    Pose,
    TrafficLight,
    TrafficSign,
    Vector,
    Vehicle,
    turned,
)
from forewarn.standins.carla.roads import LARGEST, SIGNS, Roads, Signal, text_of

_COLOURS = {"r": RED, "u": RED, "y": YELLOW, "Y": YELLOW, "o": YELLOW, "O": OFF}
_LETTERS = {RED: "r", YELLOW: "y", GREEN: "G", OFF: "O"}
_GREEN_S, _YELLOW_S, _RED_S = 10.0, 3.0, 2.0


def colour(letter: str) -> int:
    """Returns CARLA's colour for a letter of SUMO's light states."""
    return _COLOURS.get(letter, GREEN)


@dataclass(slots=True)
class Phase:
    """A phase of a program: its duration, and the light state of each link as a SUMO
    letter.
    """

    duration_s: float
    letters: str


@dataclass(slots=True)
class Group:
    """The traffic lights that one program controls.

    Args:
        name: The program's name in the SUMO net; empty if the net has no such program.
        lights: The lights by link index.
        own: Whether the program runs in this object rather than in SUMO.
        forced: The colours that clients have set for individual lights, by link index;
            they last until the next phase.
    """

    name: str
    lights: dict[int, TrafficLight]
    phases: list[Phase]
    at: int = 0
    left_s: float = 0.0
    frozen: bool = False
    own: bool = True
    forced: dict[int, int] = field(default_factory=dict)
    changed: bool = True

    def reset(self) -> None:
        self.at, self.left_s = 0, self.phases[0].duration_s
        self.forced.clear()
        self._show()

    def step(self, dt: float) -> None:
        for light in self.lights.values():
            light.since_s += dt
        if self.frozen or len(self.phases) < 2:
            return
        self.left_s -= dt
        moved = False
        while self.left_s <= 1e-9:
            self.at = (self.at + 1) % len(self.phases)
            self.left_s += max(0.1, self.phases[self.at].duration_s)
            moved = True
        if moved:
            self.forced.clear()
            self._show()

    def follow(self, letters: str, dt: float) -> None:
        """Sets the lights to SUMO's light states."""
        for index, light in self.lights.items():
            show(light, colour(letters[index]), dt)

    def take_over(self, phase: int, left_s: float) -> None:
        """Takes control of the program from SUMO, starting in the given phase."""
        self.own = True
        self.at, self.left_s = phase % len(self.phases), left_s
        self.changed = True

    def force(self, light: TrafficLight, wanted: int) -> None:
        for index, member in self.lights.items():
            if member is light:
                self.forced[index] = wanted
        show(light, wanted)
        self.changed = True

    def freeze(self, frozen: bool) -> None:
        self.frozen = frozen
        for light in self.lights.values():
            light.frozen = frozen

    def letters(self) -> str:
        """Returns the current light states of the links as SUMO letters."""
        letters = list(self.phases[self.at].letters)
        for index, wanted in self.forced.items():
            letters[index] = _LETTERS.get(wanted, "O")
        return "".join(letters)

    def _show(self) -> None:
        letters = self.phases[self.at].letters
        for index, light in self.lights.items():
            show(light, colour(letters[index]))
        self.changed = True


def show(light: TrafficLight, wanted: int, dt: float = 0.0) -> None:
    if light.colour != wanted:
        light.colour, light.since_s = wanted, 0.0
    else:
        light.since_s += dt


def groups(
    lights: Mapping[str, TrafficLight], signals: Sequence[Signal], net: Path | None
) -> list[Group]:
    """Returns the groups of a map's lights, each at the start of its program."""
    known = {} if net is None else _programmes(net)
    members: dict[str, dict[int, TrafficLight]] = {}
    others: dict[int, list[Signal]] = {}
    for signal in signals:
        name, _, link = signal.name.rpartition("_")
        if name in known and link.isdigit() and _fits(known[name], int(link)):
            members.setdefault(name, {})[int(link)] = lights[signal.name]
        else:
            others.setdefault(signal.junction, []).append(signal)
    made = [Group(name, members[name], known[name]) for name in sorted(members)]
    made += [_in_turn(lights, others[junction]) for junction in sorted(others)]
    for group in made:
        for pole, light in enumerate(group.lights.values()):
            light.pole = pole
        for index, light in group.lights.items():
            _times(group, index, light)
        group.reset()
    return made


def _fits(phases: Sequence[Phase], index: int) -> bool:
    return all(index < len(phase.letters) for phase in phases)


def _in_turn(lights: Mapping[str, TrafficLight], signals: Sequence[Signal]) -> Group:
    """Returns a group whose program gives each road a green light in turn."""
    members = {index: lights[signal.name] for index, signal in enumerate(signals)}
    phases: list[Phase] = []
    for road in sorted({signal.road for signal in signals}):
        for seconds, letter in ((_GREEN_S, "G"), (_YELLOW_S, "y"), (_RED_S, "r")):
            shown = (letter if signal.road == road else "r" for signal in signals)
            phases.append(Phase(seconds, "".join(shown)))
    return Group("", members, phases)


def _times(group: Group, index: int, light: TrafficLight) -> None:
    """Sets how long a light shows each colour in a cycle of its program."""
    shown = dict.fromkeys((GREEN, YELLOW, RED, OFF), 0.0)
    for phase in group.phases:
        shown[colour(phase.letters[index])] += phase.duration_s
    light.green_s, light.yellow_s, light.red_s, _ = shown.values()


def _programmes(net: Path) -> dict[str, list[Phase]]:
    root = ET.fromstring(text_of(net, 4 * LARGEST))  # noqa: S314
    found: dict[str, list[Phase]] = {}
    for logic in root.iter("tlLogic"):
        phases = [
            Phase(float(phase.get("duration", "10")), phase.get("state", ""))
            for phase in logic.iter("phase")
        ]
        if phases:
            found.setdefault(logic.get("id", ""), phases)
    return found


_RECHECK_M = 0.5
_MAPPED_FOR_M = 3.0
_PAST_M = 3.0
_FACING_DEG = 60.0
_HALF_LANE_M = 1.7
_TRIGGER_M = 5.0
_BRAKING = 6.0  # m/s²
_LEAST_M = 8.0


def hang(signal: Signal) -> TrafficLight:
    """Returns the traffic light actor for a signal. The actor's yaw is perpendicular to
    the road, as in CARLA.
    """
    at, half, centre = _stands(signal)
    return TrafficLight(
        0, "traffic.traffic_light", at, tags=bytes([LAMP]), ours=True, half=half,
        centre=centre, signal=signal.name,
    )  # fmt: skip


def put_up(sign: Signal) -> TrafficSign:
    """Returns the traffic sign actor for a signal. The actor's pose and trigger volume
    are computed as for a traffic light.
    """
    at, half, centre = _stands(sign)
    return TrafficSign(
        0, SIGNS[sign.kind], at, tags=bytes([BOARD]), ours=True, half=half,
        centre=centre, signal=sign.name,
    )  # fmt: skip


def _stands(signal: Signal) -> tuple[Pose, Vector, Vector]:
    """Returns a signal's pose, and the half size and centre of its trigger volume."""
    first, last = signal.lines[0], signal.lines[-1]
    across = math.dist(first[:2], last[:2]) / 2.0
    x, y, z, pitch, yaw, roll = signal.at
    middle = (
        (first[0] + last[0]) / 2.0, (first[1] + last[1]) / 2.0, 0.0, 0.0, first[4], 0.0
    )  # fmt: skip
    at = x, y, z, pitch, turned(yaw + 90.0), roll
    half = across + _HALF_LANE_M - 0.1, _TRIGGER_M / 2.0, 1.0
    return at, half, _seen_from(at, middle, -_TRIGGER_M / 2.0)


class StopLines:
    """The stop lines of a map and their traffic lights.

    Args:
        roads: The map.
        lights: The traffic light of each signal of the map, in the same order.
    """

    def __init__(self, roads: Roads, lights: Sequence[TrafficLight]) -> None:
        self._roads = roads
        self._lines: dict[int, list[tuple[Pose, float, TrafficLight]]] = {}
        for signal, light in zip(roads.signals, lights, strict=True):
            for line in signal.lines:
                limit = roads.limit_at(line[0], line[1]) / 3.6
                reach = max(_LEAST_M, limit * limit / (2.0 * _BRAKING) + 3.0)
                rows = self._lines.setdefault(signal.road, [])
                rows.append((line, reach, light))

    def look(self, car: Vehicle) -> None:
        """Updates which traffic light and speed limit apply to a car that has moved."""
        x, y = car.at[:2]
        seen = car.looked_at
        if seen and abs(x - seen[0]) + abs(y - seen[1]) < _RECHECK_M:
            return
        car.looked_at = x, y
        mapped = car.mapped_at
        if not mapped or abs(x - mapped[0]) + abs(y - mapped[1]) > _MAPPED_FOR_M:
            self._map(car)
        car.light = None
        for line, reach, light in self._lines.get(car.road, ()):
            if _before(car, line, reach):
                car.light = light
                break

    def _map(self, car: Vehicle) -> None:
        """Finds the road that a car is on, and the speed limit there."""
        x, y = car.mapped_at = car.at[:2]
        point = self._roads.waypoint(x, y)
        if point is not None:
            car.road = point.road_id
            car.speed_limit = self._roads.limit_kmh(car.road, point.lane_id)


def _before(car: Vehicle, line: Pose, reach: float) -> bool:
    """Whether a car is in the lane of a stop line and its front is near the line."""
    if abs(turned(car.at[4] - line[4])) > _FACING_DEG:
        return False
    heading = math.radians(line[4])
    dx, dy = line[0] - car.at[0], line[1] - car.at[1]
    ahead = dx * math.cos(heading) + dy * math.sin(heading) - car.half[0]
    aside = dy * math.cos(heading) - dx * math.sin(heading)
    return -_PAST_M < ahead < reach and abs(aside) < _HALF_LANE_M


def _seen_from(frame: Pose, point: Pose, ahead: float) -> Vector:
    """Returns a position some metres ahead of a pose, relative to another pose."""
    heading = math.radians(point[4])
    x = point[0] + ahead * math.cos(heading) - frame[0]
    y = point[1] + ahead * math.sin(heading) - frame[1]
    turn = math.radians(frame[4])
    return (
        x * math.cos(turn) + y * math.sin(turn),
        y * math.cos(turn) - x * math.sin(turn),
        point[2] - frame[2] + 1.0,
    )
