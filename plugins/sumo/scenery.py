"""The road network and the traffic in a top-down view, for pictures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from forewarn.plugins.contracts import HIT, Shape, ShapeKind, Thing
from forewarn.plugins.driving.roads import Roads

_WALKING_AREA = re.compile(r"^:.*_w\d+_\d+$")
_COLORS = {"g": "green", "y": "yellow", "r": "red", "u": "red"}
_BAR_M = 0.6
"""The thickness of the bar that shows a traffic light at the stop line, in m."""


def ground(sumo: Any, roads: Roads) -> Iterator[Shape]:
    """Yields the junctions, and the lanes outside junctions."""
    for name in sumo.junction.getIDList():
        outline = tuple((p[0], p[1]) for p in sumo.junction.getShape(name))
        if len(set(outline)) > 2 and not name.startswith(":"):
            yield Shape("junction", outline)
    for name, lane in roads.lanes.items():
        points = tuple(lane.shape)
        if _WALKING_AREA.match(name):
            yield Shape("sidewalk", points)
        elif lane.is_crosswalk:
            yield Shape("crosswalk", points, lane.width)
        elif not lane.inside:
            kind: ShapeKind = "lane" if lane.for_cars else "sidewalk"
            yield Shape(kind, points, lane.width)


class Onlooker:
    """Reads the road users and traffic lights of a loaded simulation.

    Args:
        sumo: The module libsumo, with an episode loaded.
        roads: The road network.
        ego: The name of the ego.
    """

    def __init__(self, sumo: Any, roads: Roads, ego: str) -> None:
        self._sumo, self._ego = sumo, ego
        self._sizes: dict[str, tuple[float, float]] = {}
        self._lights = list(self._bars(roads))
        self._named = sorted({light for light, _, _ in self._lights})
        self._lit: dict[str, Thing] = {}

    def things(self, hit: str | None) -> list[Thing]:
        """Returns the ego, other vehicles, pedestrians and traffic lights.

        Args:
            hit: The road user that the ego has hit, if any.
        """
        vehicle, person = self._sumo.vehicle, self._sumo.person
        names = sorted(vehicle.getIDList(), key=lambda name: name != self._ego)
        seen = [self._thing(vehicle, name, hit) for name in names]
        seen += [self._thing(person, name, hit) for name in person.getIDList()]
        states = {
            name: self._sumo.trafficlight.getRedYellowGreenState(name)
            for name in self._named
        }
        for light, index, bar in self._lights:
            color = _COLORS.get(states[light][index].lower(), "off")
            # Reuse the object of an unchanged light, so that no change is written.
            lit = self._lit.get(bar.name)
            if lit is None or lit.state != color:
                lit = self._lit[bar.name] = replace(bar, state=color)
            seen.append(lit)
        return seen

    def _thing(self, group: Any, name: str, hit: str | None) -> Thing:
        size = self._sizes.get(name)
        if size is None:
            size = group.getLength(name), group.getWidth(name)
            self._sizes[name] = size
        x, y = group.getPosition(name)
        angle = group.getAngle(name)
        kind = "pedestrian"
        if group is self._sumo.vehicle:
            kind = "ego" if name == self._ego else "vehicle"
            # SUMO reports the position of a vehicle's front.
            back = size[0] / 2.0
            x -= back * math.sin(math.radians(angle))
            y -= back * math.cos(math.radians(angle))
        state = HIT if name == hit else ""
        return Thing(name, kind, x, y, angle, *size, state)  # type: ignore[arg-type]

    def _bars(self, roads: Roads) -> Iterator[tuple[str, int, Thing]]:
        """Yields a bar before each light, divided among the links of the lane."""
        lights = self._sumo.trafficlight
        for light in lights.getIDList():
            of_lane: dict[str, list[int]] = {}
            for index, group in enumerate(lights.getControlledLinks(light)):
                for lane, _, _ in group:
                    if not lane.startswith(":") and roads.lanes[lane].for_cars:
                        of_lane.setdefault(lane, []).append(index)
            for lane, indices in of_lane.items():
                (ax, ay), (bx, by) = roads.lanes[lane].shape[-2:]
                angle = math.atan2(bx - ax, by - ay)
                right = math.cos(angle), -math.sin(angle)
                share = roads.lanes[lane].width / len(indices)
                # The first link is the rightmost.
                for place, index in enumerate(indices):
                    aside = ((len(indices) - 1) / 2.0 - place) * share
                    bar = Thing(
                        f"{light} {index}", "light", bx + aside * right[0],
                        by + aside * right[1], math.degrees(angle) % 360.0, _BAR_M,
                        share,
                    )  # fmt: skip
                    yield light, index, bar
