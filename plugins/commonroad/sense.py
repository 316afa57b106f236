"""Converts the content of a CommonRoad file to a road network and a driving scene."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.commonroad.reading import Lanelet, Obstacle, RecordedScene, State
from forewarn.plugins.driving.places import (
    Junctions,
    Movement,
    Places,
    exits,
    movements,
)
from forewarn.plugins.driving.roads import (
    Lane,
    LightName,
    Link,
    LinkDirection,
    Roads,
    crossing,
    length_of,
)
from forewarn.plugins.driving.scene import (
    Colour,
    Light,
    Mover,
    SeenScene,
    TurnSignal,
)

_USUAL_LIMIT_KMH = 50.0
_OTHERS = frozenset(
    ("sidewalk", "bicycleLane", "busLane", "border", "parking", "restricted",
     "restricted_area", "busStop", "shoulder")
)  # fmt: skip
_CROSSWALK = "crosswalk"
_SHOWS = {
    LinkDirection.LEFT: "left",
    LinkDirection.RIGHT: "right",
    LinkDirection.FORWARD: "straight",
}


class CommonRoadNet(Junctions[Movement]):
    """The lanes, links and traffic lights of a CommonRoad file.

    Args:
        told: The content of the file.
    """

    def __init__(self, told: RecordedScene) -> None:
        self._told = told
        self.names = dict(self._named())
        """The lane names of all lanelets except crosswalks, by id."""
        self._numbers = {name: number for number, name in self.names.items()}
        self._lanes = {
            name: self._lane(told.lanelets[number], name)
            for number, name in self.names.items()
        }
        for lane in list(self._crosswalks()):
            self._lanes[lane.name] = lane
        super().__init__(self._lanes, movements(self._lanes, self._yields))

    def lights(self) -> Mapping[str, LightName]:
        found: dict[str, LightName] = {}
        for movement in self.movements:
            for name in (movement.lane, movement.via):
                for number in self._told.lanelets[self._numbers[name]].lights:
                    light = self._told.lights.get(number)
                    if light is not None and _governs(light.direction, movement.turn):
                        found.setdefault(movement.via, (str(number), 0))
        return found

    def _named(self) -> Iterator[tuple[int, str]]:
        lanelets, inside = self._told.lanelets, self._told.turns
        left_of = {
            each.right: number
            for number, each in lanelets.items()
            if each.right in lanelets
        }
        for number, lanelet in lanelets.items():
            if _CROSSWALK in lanelet.kinds:
                continue
            if number in inside:
                yield number, f":{inside[number][0]}_{number}_0"
                continue
            row = [number]
            while (right := lanelets[row[0]].right) is not None:
                if right not in lanelets or right in row:
                    break
                row.insert(0, right)
            while (left := left_of.get(row[-1])) is not None and left not in row:
                row.append(left)
            row = [n for n in row if n not in inside]
            yield number, f"{min(row)}_{row.index(number)}"

    def _lane(self, lanelet: Lanelet, name: str) -> Lane:
        edge, _, place = name.rpartition("_")
        inside = self._told.turns.get(lanelet.number)
        limits = [self._told.limits_kmh.get(number) for number in lanelet.signs]
        limit = lanelet.limit_kmh or next(filter(None, limits), _USUAL_LIMIT_KMH)
        return Lane(
            name, edge, int(place), length_of(lanelet.middle), lanelet.width,
            round(limit, 1), "" if inside is None else f":{inside[0]}",
            not lanelet.kinds & _OTHERS, tuple(self._links(lanelet)), lanelet.middle,
        )  # fmt: skip

    def _links(self, lanelet: Lanelet) -> Iterator[Link]:
        turns = self._told.turns
        stops = bool(lanelet.signs & self._told.stops)
        for number, to in exits(lanelet.number, self._after, turns.__contains__):
            if number in turns:
                via, turn = self.names[number], turns[number][1]
                yield Link(self.names[to], via, turn, stops)
            else:
                yield Link(self.names[to], "", LinkDirection.FORWARD)

    def _after(self, number: int) -> Iterator[int]:
        return (n for n in self._told.lanelets[number].after if n in self.names)

    def _yields(self, lane: Lane, link: Link) -> bool:
        signs = self._told.lanelets[self._numbers[lane.name]].signs
        return bool(signs & self._told.yields)

    def _crosswalks(self) -> Iterator[Lane]:
        """Yields the crosswalks at intersections; others have no stop line."""
        count: dict[int, int] = {}
        for lanelet in self._told.lanelets.values():
            if _CROSSWALK not in lanelet.kinds:
                continue
            ends = lanelet.middle[0], lanelet.middle[-1]
            for number, (node, _) in self._told.turns.items():
                if number not in self.names:
                    continue
                if crossing(self._lanes[self.names[number]].shape, ends) is not None:
                    place = count[node] = count.get(node, -1) + 1
                    edge = f":{node}_c{place}"
                    yield Lane(
                        f"{edge}_0", edge, 0, math.dist(*ends), lanelet.width, 0.0,
                        f":{node}", False, (), ends, is_crosswalk=True,
                    )  # fmt: skip
                    break


def _governs(direction: str, turn: LinkDirection) -> bool:
    return direction == "all" or _SHOWS[turn] in direction.lower()


LENGTH_M, WIDTH_M = 4.5, 1.8
"""The size of the ego in planning problems, in m."""


class CommonRoadScene(SeenScene):
    """The recorded scene around one vehicle.

    Args:
        told: The content of the file.
        roads: The road network of the file.
        places: Finds the lanes at a position.
        ego: The ego with its states.
    """

    def __init__(
        self, told: RecordedScene, roads: Roads, places: Places, ego: Obstacle
    ) -> None:
        super().__init__(roads, str(ego.number), places)
        self._told, self._step = told, 0
        self._everyone = {**told.obstacles, ego.number: ego}
        self._states = {
            number: {state.step: state for state in each.states}
            for number, each in self._everyone.items()
        }
        self.route = self._taken(ego)

    def look(self, step: int) -> bool:
        """Reads all road users at a step; returns whether the ego is on a lane."""
        self._step = step
        for number, each in self._everyone.items():
            name, states = str(number), self._states[number]
            group = self.people if each.on_foot else self.vehicles
            state = each.states[0] if each.stands else states.get(step)
            if state is None:
                group.pop(name, None)
                continue
            mover = group.get(name)
            if mover is None:
                mover = group[name] = _body(each)
            self._move(mover, each, state)
        return bool(self.ego.lane)

    def light(self, name: LightName) -> Light:
        light = self._told.lights.get(int(name[0]))
        return Light(Colour.UNKNOWN if light is None else light.at(self._step)[0])

    def light_age_s(self, name: LightName) -> float:
        light = self._told.lights.get(int(name[0]))
        return 0.0 if light is None else light.at(self._step)[1] * self._told.period_s

    def _move(self, mover: Mover, each: Obstacle, state: State) -> None:
        _put(mover, state, 0.0 if each.on_foot else each.length / 2.0)
        if each.on_foot:
            return
        shown = [one.signal for one in each.shown if one.step <= state.step]
        mover.signal = shown[-1] if shown else TurnSignal.OFF
        vx, vy = math.cos(state.heading), math.sin(state.heading)
        self.locate(mover, state.speed * vx, state.speed * vy)

    def _taken(self, ego: Obstacle) -> tuple[str, ...]:
        """Returns the edges of the recorded path, and those straight after it."""
        mover = _body(ego)
        edges: list[str] = []
        for state in ego.states:
            _put(mover, state, ego.length / 2.0)
            place = self.settle(mover)
            if place is None:
                continue
            mover.lane, mover.at_m = place.lane, place.along_m
            lane = self.roads.lanes[mover.lane]
            if not lane.inside and lane.edge not in edges:
                edges.append(lane.edge)
        if mover.lane:
            ahead = self.straight_on(mover)
            edges += [edge for edge in ahead if edge not in edges]
        return tuple(edges)


def coasting(
    told: RecordedScene, roads: Roads, places: Places, number: int
) -> Obstacle:
    """Simulates the ego of a planning problem, which keeps its speed and lane."""
    begins, steps = told.problems[number]
    alone = Obstacle(number, "car", LENGTH_M, WIDTH_M, (begins,))
    scene = CommonRoadScene(told, roads, places, alone)
    place = scene.settle(scene.ego) if scene.look(begins.step) else None
    if place is None:
        raise InvalidInput(
            f"the ego of planning problem {number} does not start on a lane",
            source=told.source,
        )
    starts = scene.way().start_m
    states = []
    for step in range(max(steps, 1) + 1):
        far_m = starts[place.lane] + place.along_m
        far_m += begins.speed * told.period_s * step
        lane = max((n for n in starts if starts[n] <= far_m), key=starts.__getitem__)
        at_m = far_m - starts[lane]
        if at_m > roads.lanes[lane].length:
            break  # the lanes end
        (x, y), heading_deg = places.at(lane, at_m)
        turned = math.radians(heading_deg)
        x -= place.left_m * math.sin(turned) + LENGTH_M / 2.0 * math.cos(turned)
        y += place.left_m * math.cos(turned) - LENGTH_M / 2.0 * math.sin(turned)
        states.append(State(begins.step + step, x, y, turned, begins.speed))
    return replace(alone, states=tuple(states))


def _body(each: Obstacle) -> Mover:
    """Returns a road user with its size, but without a position."""
    size = each.length, each.width
    return Mover(str(each.number), 0.0, 0.0, 0.0, 0.0, *size, on_foot=each.on_foot)


def _put(mover: Mover, state: State, ahead_m: float) -> None:
    """Moves a road user to a state, given the distance of its front from its centre."""
    mover.x = state.x + ahead_m * math.cos(state.heading)
    mover.y = state.y + ahead_m * math.sin(state.heading)
    mover.heading, mover.speed = state.heading, state.speed
