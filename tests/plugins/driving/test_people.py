"""People who step onto a crosswalk, from either end and whichever way they came."""

from __future__ import annotations

import math
from collections.abc import Container

import pytest

from forewarn.plugins.driving.foresight import Progress
from forewarn.plugins.driving.others import Conflict, Demand, see_people
from forewarn.plugins.driving.roads import (
    Footway,
    Lane,
    LightName,
    LinkDirection,
    Passage,
    Roads,
    Way,
)
from forewarn.plugins.driving.scene import Colour, Light, Mover, Scene

WALK = ":j_c0"


class Nowhere:
    """A map without lanes: a `Net`."""

    def lanes(self) -> list[Lane]:
        return []

    def lights(self) -> dict[str, LightName]:
        return {}

    def meets(self, inside: str) -> list[str]:
        return []

    def goes_first(self, lane: str, to: str) -> list[str]:
        return []

    def approaches(self, edge: str) -> list[str]:
        return []


class Corner(Scene):
    """Everybody is about to step onto the one crosswalk."""

    def __init__(self) -> None:
        super().__init__(Roads(Nowhere()), "ego")
        self.vehicles["ego"] = Mover("ego", -30.0, 0.0, 0.0, 8.0, 4.8, 1.8)

    def edges_of(self, vehicle: Mover) -> Container[str]:
        return ()

    def light(self, name: LightName) -> Light:
        return Light(Colour.UNKNOWN)

    def light_age_s(self, name: LightName) -> float:
        return 0.0

    def next_crosswalk(self, person: Mover) -> str:
        return WALK


@pytest.mark.parametrize("end", [-1.0, 1.0])
@pytest.mark.parametrize("drawn", [-1.0, 1.0])
@pytest.mark.parametrize("heading", [0.0, -0.0, math.pi, -math.pi])
def test_pedestrian_walking_to_a_crosswalk_counts_as_coming(
    end: float, drawn: float, heading: float
) -> None:
    footway = Footway(WALK, 0.0, 1.5, (0.0, 0.0), (0.0, drawn), (1.0, 0.0))
    passage = Passage(
        28.5, 40.0, LinkDirection.FORWARD, None, False, True, True, "out", ":j", (), {},
        (footway,),
    )  # fmt: skip
    scene, conflicts = Corner(), list[Conflict]()
    scene.people["p"] = Mover("p", 0.2, 8.0 * end, heading, 1.4, 0.3, 0.5)
    progress = Progress(
        Way({}, (passage,), 100.0), 0.0, None, passage, passage, (passage,), 0.0, 0.0
    )
    values = see_people(scene, progress, Demand(8.0), conflicts)
    assert values["priority_pedestrian"] and len(conflicts) == 1
    assert conflicts[0].comes_s == pytest.approx((8.0 - 1.3) / 1.4)
