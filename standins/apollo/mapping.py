"""Converts SUMO nets to Apollo maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_CITY, _SIDEWALK = 2, 4
_TURNS = {"forward": 1, "left": 2, "right": 3, "u_turn": 4}
_FORWARD, _CROSS_ROAD, _CITY_ROAD = 1, 2, 2
_CIRCLE, _SINGLE = 2, 6
_ONCOMING = math.radians(135.0)


def draw(map_type: Any, sumo: Any, roads: Any, name: str) -> Any:
    """Converts a SUMO net to an `apollo.hdmap.Map` message.

    Args:
        map_type: The message class `apollo.hdmap.Map`.
        sumo: libsumo, with the net loaded.
        roads: The road network that was read from the net.
        name: The map's name.
    """
    return _Drawing(map_type(), sumo, roads, name).map


class _Drawing:
    def __init__(self, empty: Any, sumo: Any, roads: Any, name: str) -> None:
        self.map, self._sumo, self._roads = empty, sumo, roads
        header = self.map.header
        header.version, header.vendor = b"1", b"forewarn"
        header.district = name.encode()
        self._made: dict[str, Any] = {}
        self._nodes = [
            n for n in sorted(sumo.junction.getIDList()) if not n.startswith(":")
        ]
        for node in self._nodes:
            self._junction(node)
        for lane in roads.lanes.values():
            if lane.for_cars:
                self._made[lane.name] = self._lane(lane)
        for lane in roads.lanes.values():
            if lane.for_cars:
                self._neighbours(lane)
                self._onward(lane)
        self._crosswalks()
        self._lights()
        self._signs()
        self._crossings()
        self._roads_of_map()

    # -- lanes ------------------------------------------------------------------------

    def _junction(self, node: str) -> None:
        shape = self._sumo.junction.getShape(node)
        if len(shape) > 2:
            junction = self.map.junction.add(type=_CROSS_ROAD)
            junction.id.id = node
            _write(junction.polygon.point, shape)

    def _lane(self, lane: Any) -> Any:
        made = self.map.lane.add(
            length=lane.length,
            speed_limit=lane.limit_kmh / 3.6,
            type=_CITY,
            turn=1,
            direction=_FORWARD,
        )
        made.id.id = lane.name
        curve = made.central_curve.segment.add(s=0.0, length=lane.length)
        _write(curve.line_segment.point, lane.shape)
        curve.start_position.x, curve.start_position.y = lane.shape[0]
        for s in (0.0, lane.length):
            made.left_sample.add(s=s, width=lane.width / 2.0)
            made.right_sample.add(s=s, width=lane.width / 2.0)
        if lane.inside:
            made.junction_id.id = lane.junction[1:]
        return made

    def _neighbours(self, lane: Any) -> None:
        for other in self._roads.lanes_of[lane.edge]:
            made = self._made[lane.name]
            if other.for_cars and other.number == lane.number + 1:
                made.left_neighbor_forward_lane_id.add(id=other.name)
            elif other.for_cars and other.number == lane.number - 1:
                made.right_neighbor_forward_lane_id.add(id=other.name)

    def _onward(self, lane: Any) -> None:
        for link in lane.links:
            onward = self._roads.lanes[link.via or link.to]
            if not onward.for_cars:
                continue
            self._made[lane.name].successor_id.add(id=onward.name)
            self._made[onward.name].predecessor_id.add(id=lane.name)
            if not lane.inside:
                self._turns(onward, link.turn)

    def _turns(self, lane: Any, turn: str) -> None:
        """Sets the turn type of all lanes on a path through a junction."""
        while lane.inside:
            self._made[lane.name].turn = _TURNS[turn]
            via = next((link.via for link in lane.links), "")
            if not via:
                return
            lane = self._roads.lanes[via]

    def _roads_of_map(self) -> None:
        for edge, lanes in self._roads.lanes_of.items():
            cars = [lane for lane in lanes if lane.for_cars]
            if not cars:
                continue
            road = self.map.road.add(type=_CITY_ROAD)
            road.id.id = edge
            section = road.section.add()
            section.id.id = "1"
            for lane in sorted(cars, key=lambda lane: -lane.number):
                section.lane_id.add(id=lane.name)
            if cars[0].inside:
                road.junction_id.id = cars[0].junction[1:]

    # -- lights, signs and crossings
    # ------------------------------------------------------------

    def _overlap(self, thing: Any, kind: str, lanes: Sequence[str]) -> None:
        """Records that an object and lanes overlap."""
        name = f"overlap_{len(self.map.overlap)}"
        overlap = self.map.overlap.add()
        overlap.id.id = name
        thing.overlap_id.add(id=name)
        other = overlap.object.add()
        other.id.id = thing.id.id
        getattr(other, f"{kind}_overlap_info").SetInParent()
        for lane in lanes:
            self._made[lane].overlap_id.add(id=name)
            shared = overlap.object.add()
            shared.id.id = lane
            shared.lane_overlap_info.start_s = 0.0
            shared.lane_overlap_info.end_s = min(1.0, self._roads.lanes[lane].length)

    def _crosswalks(self) -> None:
        for lane in self._roads.lanes.values():
            if not lane.is_crosswalk:
                continue
            crosswalk = self.map.crosswalk.add()
            crosswalk.id.id = lane.name
            _write(crosswalk.polygon.point, _band(lane.shape, lane.width))
            foes = self._sumo.lane.getInternalFoes(lane.name)
            self._overlap(crosswalk, "crosswalk", [f for f in foes if f in self._made])

    def _lights(self) -> None:
        lights = self._sumo.trafficlight
        for light in lights.getIDList():
            for index, group in enumerate(lights.getControlledLinks(light)):
                ways = [way for way in group if way[0] in self._made]
                if not ways:
                    continue
                signal = self.map.signal.add(type=_SINGLE)
                signal.id.id = f"{light}_{index}"
                bulb = signal.subsignal.add(type=_CIRCLE)
                bulb.id.id = "0"
                for lane, _, via in ways:
                    self._line(signal, self._roads.lanes[lane])
                    self._overlap(signal, "signal", [via])
                ahead = self._roads.lanes[ways[0][0]].shape[-1]
                bulb.location.x, bulb.location.y = ahead[0], ahead[1]
                bulb.location.z = 5.0

    def _signs(self) -> None:
        """Adds stop signs, and yield signs for roads without right of way."""
        minor = self._minor()
        for lane in self._roads.lanes.values():
            for link in () if lane.inside or not lane.for_cars else lane.links:
                if link.via not in self._made:
                    continue
                if link.stops:
                    sign, kind = self.map.stop_sign.add(), "stop_sign"
                elif lane.edge in minor:
                    sign, kind = getattr(self.map, "yield").add(), "yield_sign"
                else:
                    continue
                sign.id.id = f"{kind}_{link.via}"
                self._line(sign, lane)
                self._overlap(sign, kind, [link.via])

    def _minor(self) -> set[str]:
        """Returns the edges whose traffic must yield to crossing roads.

        A yield sign is not needed where left turns only yield to oncoming traffic.
        """
        yields: set[tuple[str, str]] = set()
        for lane in self._roads.lanes.values():
            for link in () if lane.inside or not lane.for_cars else lane.links:
                foes = self._sumo.lane.getFoes(lane.name, link.to)
                for first, after in zip(foes, [*foes[1:], ""], strict=False):
                    other = self._roads.lanes[first]
                    if after.startswith(":"):
                        continue  # the same path with a different waiting position
                    turned = math.remainder(_heading(lane) - _heading(other), math.tau)
                    if not other.inside and abs(turned) < _ONCOMING:
                        yields.add((lane.edge, other.edge))
        return {one for one, other in yields if (other, one) not in yields}

    def _line(self, thing: Any, lane: Any) -> None:
        """Adds a stop line across the end of a lane."""
        (ax, ay), (bx, by) = lane.shape[-2:]
        size = math.dist((ax, ay), (bx, by))
        half = lane.width / 2.0
        nx, ny = -(by - ay) / size * half, (bx - ax) / size * half
        segment = thing.stop_line.add().segment.add(length=lane.width)
        _write(segment.line_segment.point, [(bx + nx, by + ny), (bx - nx, by - ny)])

    def _crossings(self) -> None:
        """Adds overlaps for pairs of lanes that cross or merge inside a junction."""
        for name in self._made:
            for foe in self._sumo.lane.getInternalFoes(name) if name[0] == ":" else ():
                if foe in self._made and name < foe:
                    key = f"overlap_{len(self.map.overlap)}"
                    overlap = self.map.overlap.add()
                    overlap.id.id = key
                    for lane in (name, foe):
                        self._made[lane].overlap_id.add(id=key)
                        shared = overlap.object.add()
                        shared.id.id = lane
                        info = shared.lane_overlap_info
                        info.start_s, info.end_s = 0.0, self._roads.lanes[lane].length


def _heading(lane: Any) -> float:
    """Returns the driving direction at the end of a lane in radians."""
    (ax, ay), (bx, by) = lane.shape[-2:]
    return math.atan2(by - ay, bx - ax)


def _write(field: Any, points: Sequence[Sequence[float]]) -> None:
    for point in points:
        field.add(x=point[0], y=point[1], z=0.0)


def _band(line: Sequence[Sequence[float]], width: float) -> list[tuple[float, float]]:
    """Returns the corners of a rectangle of the given width along a line."""
    (ax, ay), (bx, by) = line[0][:2], line[-1][:2]
    size = math.dist((ax, ay), (bx, by))
    nx, ny = -(by - ay) / size * width / 2.0, (bx - ax) / size * width / 2.0
    return [
        (ax + nx, ay + ny), (bx + nx, by + ny), (bx - nx, by - ny), (ax - nx, ay - ny)
    ]  # fmt: skip
