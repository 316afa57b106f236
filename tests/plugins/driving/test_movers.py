"""Movers in TraCI's terms: they answer as SUMO does of the same vehicles."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.plugins.driving.movers import Moment, Mover, People, Vehicles, touches
from forewarn.plugins.driving.roads import Lane, Roads
from forewarn.plugins.sumo.bridge import SumoWorld
from forewarn.plugins.sumo.sense import SumoNet
from forewarn.plugins.sumo.traffic import Ego, Flow, Walkers

EGO = "ego"


class Crossed:
    """One lane inside a junction that people cross: a `Net`."""

    def lanes(self) -> list[Lane]:
        ends = (0.0, 0.0), (0.0, 8.0)
        return [Lane(":j_c0_0", ":j_c0", 0, 8.0, 3.0, 0.0, True, False, (), ends)]

    def lights(self) -> dict[str, tuple[str, int]]:
        return {}

    def meets(self, inside: str) -> list[str]:
        return []

    def goes_first(self, lane: str, to: str) -> list[str]:
        return []

    def approaches(self, edge: str) -> list[str]:
        return []


@pytest.mark.needs("libsumo")
def test_they_answer_as_sumo_does() -> None:
    """A drive through traffic, each frame told to both."""
    ego = Ego(route=["road"], lane=1, position_m=400, speed_kmh=90, departs_s=25.0)
    flow = Flow(routes=[["road"]], per_hour=3600)
    world = SumoWorld(map="highway", ego=ego, flows=[flow])
    world.reset(3)
    sumo = world._sumo
    roads = Roads(SumoNet(sumo))
    compared = {"leader": 0, "left": 0, "right": 0, "follower": 0}
    for _ in range(120):
        now = Moment()
        for name in sumo.vehicle.getIDList():
            (x, y), angle = sumo.vehicle.getPosition(name), sumo.vehicle.getAngle(name)
            now.vehicles[name] = Mover(
                x, y, math.radians(90.0 - angle), sumo.vehicle.getSpeed(name),
                sumo.vehicle.getLength(name), 1.8, sumo.vehicle.getLaneID(name),
                sumo.vehicle.getLanePosition(name),
            )  # fmt: skip
        ours = Vehicles(now, roads)
        ours.route = tuple(sumo.vehicle.getRoute(EGO))
        assert ours.getAngle(EGO) == pytest.approx(sumo.vehicle.getAngle(EGO))
        lead, theirs = ours.getLeader(EGO, 100.0), sumo.vehicle.getLeader(EGO, 100.0)
        if lead is not None and theirs:
            assert lead == (theirs[0], pytest.approx(theirs[1], abs=0.01))
            compared["leader"] += 1
        for name in now.vehicles:
            for side, key in ((0, "left"), (1, "right")):
                found = dict(ours.getNeighbors(name, side))
                for other, room in sumo.vehicle.getNeighbors(name, side):
                    if other != EGO:  # which keeps no room
                        assert found[other] == pytest.approx(room, abs=0.01)
                        compared[key] += 1
            other, room = sumo.vehicle.getFollower(name, 60.0)
            if other not in ("", EGO) and room <= 60.0:
                follows = ours.getFollower(name, 60.0)
                assert follows == (other, pytest.approx(room, abs=0.01))
                compared["follower"] += 1
        world.step(None)
        if world.ended() is not None:
            break
    world.close()
    assert min(compared.values()) > 5, compared


@pytest.mark.needs("libsumo")
def test_people_are_on_the_crosswalks_that_sumo_has_them_on() -> None:
    walkers = [Walkers(walks=[["north_in", "north_out"]], per_hour=2000)]
    ego = Ego(route=["west_in", "east_out"], lane=2, departs_s=30.0)
    world = SumoWorld(map="crossing", ego=ego, walkers=walkers)
    world.reset(2)
    sumo = world._sumo
    roads = Roads(SumoNet(sumo))
    now = Moment()
    ours = People(now, roads)
    on = 0
    for _ in range(200):
        for name in sumo.person.getIDList():
            x, y = sumo.person.getPosition(name)
            now.people[name] = Mover(x, y, 0.0, 1.0, 0.3, 0.5)
            edge = sumo.person.getRoadID(name)
            if "_c" in edge:
                assert ours.getRoadID(name) == edge
                on += 1
            elif not edge.startswith(":"):
                assert "_c" not in ours.getRoadID(name)
        world.step(None)
    world.close()
    assert on > 50


def test_nobody_is_on_a_crosswalk_beside_it() -> None:
    people = People(Moment(), Roads(Crossed()))
    assert people.crosswalk_at(1.4, 4.0) == ":j_c0"
    for x, y in ((1.6, 4.0), (0.0, -0.1), (0.0, 8.1), (500.0, 500.0)):
        assert people.crosswalk_at(x, y) == ""
    assert [each.edge for each in people.near(0.0, -1.5)] == [":j_c0"]


places = st.floats(-12, 12)
turns = st.floats(-math.pi, math.pi)


@given(x=places, y=places, one=turns, other=turns, on_foot=st.booleans())
def test_bodies_meet_where_a_corner_or_an_edge_does(
    x: float, y: float, one: float, other: float, on_foot: bool
) -> None:
    """Against many points of the one, looked for in the other."""
    a = Mover(0.0, 0.0, one, 0.0, 4.8, 1.8)
    b = Mover(x, y, other, 0.0, 0.6 if on_foot else 4.5, 0.5 if on_foot else 2.0)
    bx, by = (x, y) if on_foot else (
        x - b.length / 2 * math.cos(other), y - b.length / 2 * math.sin(other)
    )  # fmt: skip
    ax, ay = -a.length / 2 * math.cos(one), -a.length / 2 * math.sin(one)

    def inside(px: float, py: float, grow: float) -> bool:
        dx, dy = px - ax, py - ay
        along = dx * math.cos(one) + dy * math.sin(one)
        aside = -dx * math.sin(one) + dy * math.cos(one)
        return abs(along) <= a.length / 2 + grow and abs(aside) <= a.width / 2 + grow

    steps = [i / 10 - 0.5 for i in range(11)]
    points = [
        (
            bx + u * b.length * math.cos(other) - v * b.width * math.sin(other),
            by + u * b.length * math.sin(other) + v * b.width * math.cos(other),
        )
        for u in steps
        for v in steps
    ]
    if any(inside(px, py, -1e-6) for px, py in points):
        assert touches(a, b, on_foot=on_foot)
    elif not any(inside(px, py, 0.5) for px, py in points):
        assert not touches(a, b, on_foot=on_foot)
