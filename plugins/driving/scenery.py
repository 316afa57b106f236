"""A driving scene as a picture from above shows it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Literal

from forewarn.plugins.driving.roads.lanes import LightName
from forewarn.plugins.driving.roads.network import Roads
from forewarn.plugins.driving.scene import Colour, Mover, Scene
from forewarn.plugins.scenery import Shape, Thing

_BAR_M = 0.6
"""How thick a light's bar at the stop line is."""


class SceneShown:
    """Shows a scene to those who watch; it is `Scenic`.

    Args:
        roads: The map's.
        scene: The scene as it is now; none while nothing was seen yet.
    """

    def __init__(self, roads: Roads, scene: Callable[[], Scene | None]) -> None:
        self._roads, self._scene = roads, scene

    @cached_property
    def _bars(self) -> list[tuple[list[LightName], Thing]]:
        return list(_bars(self._roads))

    def ground(self) -> list[Shape]:
        """The map's lanes and crosswalks."""
        return list(ground(self._roads))

    def things(self) -> list[Thing]:
        """The ego first, then vehicles, pedestrians and lights."""
        scene = self._scene()
        if scene is None or scene.name not in scene.vehicles:
            return []
        seen = [_shown(scene.ego, "ego")]
        for mover in scene.vehicles.values():
            if mover is not scene.ego:
                seen.append(_shown(mover, "vehicle"))
        seen += [_shown(mover, "pedestrian") for mover in scene.people.values()]
        for place, (lights, bar) in enumerate(self._bars):
            # Where several govern the ways onward, the first that is known is shown.
            shown = [scene.light(light).colour for light in lights]
            known = [colour for colour in shown if colour is not Colour.UNKNOWN]
            state = (known or shown)[0].name.lower()
            if bar.state != state:
                self._bars[place] = lights, replace(bar, state=state)
        return seen + [bar for _, bar in self._bars]


def ground(roads: Roads) -> Iterator[Shape]:
    """Ways through junctions, and each lane outside them."""
    for lane in roads.lanes.values():
        points = tuple((float(x), float(y)) for x, y in lane.shape)
        if lane.is_crosswalk:
            yield Shape("crosswalk", points, lane.width)
        elif lane.inside:
            yield Shape("junction", points, lane.width)
        else:
            yield Shape("lane" if lane.for_cars else "sidewalk", points, lane.width)


def _shown(mover: Mover, kind: Literal["ego", "vehicle", "pedestrian"]) -> Thing:
    x, y = mover.x, mover.y
    if kind != "pedestrian":
        # A vehicle's place is that of its front.
        x -= mover.length / 2.0 * math.cos(mover.heading)
        y -= mover.length / 2.0 * math.sin(mover.heading)
    angle = (90.0 - math.degrees(mover.heading)) % 360.0
    return Thing(mover.name, kind, x, y, angle, mover.length, mover.width)


def _bars(roads: Roads) -> Iterator[tuple[list[LightName], Thing]]:
    """A bar across each lane before a light."""
    for lane in roads.lanes.values():
        governing = {roads.light_of(link) for link in lane.links}
        lights = sorted(light for light in governing if light is not None)
        if lane.inside or not lane.for_cars or not lights or len(lane.shape) < 2:
            continue
        (ax, ay), (bx, by) = lane.shape[-2:]
        angle = math.degrees(math.atan2(bx - ax, by - ay)) % 360.0
        bar = Thing(f"{lane.name} light", "light", bx, by, angle, _BAR_M, lane.width)
        yield lights, bar
