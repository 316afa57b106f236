"""The scene: who is ahead, behind and beside is whom SUMO says, who walks where too."""

from __future__ import annotations

import pytest

from forewarn.plugins.driving.foresight import Progress
from forewarn.plugins.driving.others import LaneChanges, around
from forewarn.plugins.driving.places import Crosswalks
from forewarn.plugins.driving.roads import Lane, LightName, Roads
from forewarn.plugins.driving.scene import Near, Scene, TurnSignal
from forewarn.plugins.sumo.bridge import SumoWorld
from forewarn.plugins.sumo.traffic import Ego, Flow, Walkers

EGO = "ego"


class Crossed:
    """One lane inside a junction that people cross: a `Net`."""

    def lanes(self) -> list[Lane]:
        ends = (0.0, 0.0), (0.0, 8.0)
        lane = Lane(":j_c0_0", ":j_c0", 0, 8.0, 3.0, 0.0, ":j", False, (), ends, True)
        return [lane]

    def lights(self) -> dict[str, LightName]:
        return {}

    def meets(self, inside: str) -> list[str]:
        return []

    def goes_first(self, lane: str, to: str) -> list[str]:
        return []

    def approaches(self, edge: str) -> list[str]:
        return []


def told(near: list[Near]) -> dict[str, float]:
    return {each.who.name: each.room_m for each in near}


@pytest.mark.needs("libsumo")
def test_neighbours_match_those_of_sumo() -> None:
    """A drive through traffic, from every vehicle's place."""
    ego = Ego(route=["road"], lane=1, position_m=400, speed_kmh=90, departs_s=25.0)
    flow = Flow(routes=[["road"]], per_hour=3600)
    world = SumoWorld(map="highway", ego=ego, flows=[flow])
    world.reset(3)
    sumo, scene = world._sumo, world._senses.scene
    compared = {"leader": 0, "left": 0, "right": 0, "follower": 0}
    for _ in range(120):
        for vehicle in scene.vehicles.values():
            scene.watch(vehicle)
        near = around(scene).near
        lead = Scene.lead(scene, scene.way(), scene.ego.at_m, near)
        theirs = sumo.vehicle.getLeader(EGO, 100.0)
        if lead is not None and theirs:
            assert lead.who.name == theirs[0]
            assert lead.room_m == pytest.approx(theirs[1], abs=0.01)
            compared["leader"] += 1
        for name in scene.vehicles:
            scene.name = name
            for side, key in ((1, "left"), (-1, "right")):
                found = told(Scene.beside(scene, side))
                for other, room in told(scene.beside(side)).items():
                    if other != EGO:  # which keeps no room
                        assert found[other] == pytest.approx(room, abs=0.01)
                        compared[key] += 1
            other, room = sumo.vehicle.getFollower(name, 60.0)
            if other not in ("", EGO) and room <= 60.0:
                behind = Scene.behind(scene)
                assert behind is not None
                assert behind.gap_m == pytest.approx(max(0.0, room), abs=0.01)
                assert behind.speed == scene.vehicles[other].speed
                compared["follower"] += 1
        scene.name = EGO
        world.step(None)
        if world.ended() is not None:
            break
    world.close()
    assert min(compared.values()) > 5, compared


@pytest.mark.needs("libsumo")
def test_the_margin_beside_stays_within_its_range() -> None:
    ego = Ego(route=["road"], lane=1, position_m=2400, speed_kmh=90, departs_s=25.0)
    flow = Flow(routes=[["road"]], per_hour=3600)
    world = SumoWorld(map="highway", ego=ego, flows=[flow])
    world.reset(3)
    scene = world._senses.scene
    (behind,) = scene.beside(1)
    assert behind.room_m > 1500.0
    scene.ego.signal = TurnSignal.LEFT
    alone = Progress(scene.way(), scene.ego.at_m, None, None, None, (), None, None)
    assert LaneChanges(scene).side_margin(alone, False) == 1000.0


@pytest.mark.needs("libsumo")
def test_people_are_on_the_crosswalks_that_sumo_has_them_on() -> None:
    walkers = [Walkers(walks=[["north_in", "north_out"]], per_hour=2000)]
    ego = Ego(route=["west_in", "east_out"], lane=2, departs_s=30.0)
    world = SumoWorld(map="crossing", ego=ego, walkers=walkers)
    world.reset(2)
    scene = world._senses.scene
    on = 0
    for _ in range(200):
        for person in scene.people.values():
            edge, ours = scene.on_crosswalk(person), Scene.on_crosswalk(scene, person)
            if "_c" in edge:
                assert ours == edge
                on += 1
            elif not edge.startswith(":"):
                assert ours == ""
        world.step(None)
    world.close()
    assert on > 50


def test_pedestrian_beside_a_crosswalk_is_not_on_it() -> None:
    crosswalks = Crosswalks(Roads(Crossed()))
    assert crosswalks.at(1.4, 4.0) == ":j_c0"
    for x, y in ((1.6, 4.0), (0.0, -0.1), (0.0, 8.1), (500.0, 500.0)):
        assert crosswalks.at(x, y) == ""
    assert [each.edge for each in crosswalks.near(0.0, -1.5)] == [":j_c0"]
