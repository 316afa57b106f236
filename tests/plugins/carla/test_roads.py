"""CARLA's map as roads: the same as SUMO's net of it says."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.plugins.carla.maps import CarlaNet
from forewarn.plugins.driving.places import Places
from forewarn.plugins.driving.roads import LinkDirection, Passage, Roads
from forewarn.plugins.sumo.sense import SumoNet
from forewarn.plugins.sumo.support import MAPS, find_map

carla = pytest.importorskip("carla", reason="carla has wheels for Python 3.10 to 3.12")


def of_carla(name: str) -> Roads:
    text = (MAPS / f"{name}.xodr").read_text(encoding="utf-8")
    return Roads(CarlaNet(carla.Map(name, text)))


def of_sumo(name: str) -> Roads:
    from forewarn.plugins.sumo import wire

    arguments = ["--net-file", str(find_map(name)), "--step-length", "0.1"]
    return Roads(SumoNet(wire.connect(object(), arguments, "<routes/>")))


def passages(roads: Roads) -> dict[tuple[int, ...], Passage]:
    """Each way through a junction, by where its lane ends and where it goes on."""
    found = {}
    for lane in roads.lanes.values():
        for link in () if lane.inside or not lane.for_cars else lane.links:
            (ax, ay), (bx, by) = lane.shape[-1][:2], roads.lanes[link.to].shape[0][:2]
            edges = lane.edge, roads.lanes[link.to].edge
            way = roads.way(lane.name, edges)
            taken = [p for p in way.passages if p.exit == edges[1]]
            if taken:
                key = tuple(round(v) for v in (ax, ay, bx, by))
                found[key] = taken[0]
    return found


@pytest.mark.needs("libsumo")
@pytest.mark.parametrize(
    "name", ["crossing", "tee", "boulevard", "merge", "roundabout"]
)
def test_junctions_are_what_sumo_takes_them_for(name: str) -> None:
    ours, theirs = passages(of_carla(name)), passages(of_sumo(name))
    # The maps for CARLA also have turning loops at their edges.
    assert set(theirs) == {key for key in ours if key[:2] != key[2:]}
    for key, other in theirs.items():
        passage = ours[key]
        assert passage.is_junction == other.is_junction, key
        assert passage.has_line == other.has_line, key
        assert len(passage.foes) == len(other.foes), key
        assert len(passage.footways) == len(other.footways), key
        assert (passage.light is None) == (other.light is None), key
        assert passage.turn is other.turn, key
        length = passage.end_m - passage.line_m
        assert length == pytest.approx(other.end_m - other.line_m, abs=0.7), key
        for a, b in zip(passage.footways, other.footways, strict=True):
            assert a.at_m == pytest.approx(b.at_m, abs=0.7)
        if passage.light is None:
            for ours_m, theirs_m in zip(rights(passage), rights(other), strict=True):
                assert ours_m == pytest.approx(theirs_m, abs=0.7), key


def rights(passage: Passage) -> list[float]:
    """Where one meets those who go first, and then the others."""
    foes = sorted(passage.foes, key=lambda foe: (not foe.first, foe.ego_m))
    return [foe.ego_m for foe in foes] + [sum(foe.first for foe in foes)]


@pytest.mark.parametrize(
    ("name", "minor"), [("tee", 1), ("roundabout", 4), ("merge", 1), ("crossing", 0)]
)
def test_roads_that_go_last_have_a_sign(name: str, minor: int) -> None:
    text = (MAPS / f"{name}.xodr").read_text(encoding="utf-8")
    road_map = carla.Map(name, text)
    signs = road_map.get_all_landmarks_of_type("205")
    assert len(signs) == minor
    net = CarlaNet(road_map)
    for sign in signs:
        (pair,) = sign.get_lane_validities()
        before = road_map.get_waypoint_xodr(sign.road_id, pair[0], sign.s - 20.0)
        (seen,) = before.get_landmarks_of_type(50.0, "205")
        assert seen.id == sign.id and seen.distance == pytest.approx(20.0, abs=0.1)
    yields = {m.lane for m in net.movements if m.yields}
    assert len(yields) == minor


def test_a_sign_changes_who_goes_first() -> None:
    """The main road's own sign outweighs that it goes straight on."""
    text = (MAPS / "tee.xodr").read_text(encoding="utf-8")

    def first(text: str) -> set[str]:
        net = CarlaNet(carla.Map("tee", text))
        straight = next(
            m
            for m in net.movements
            if m.straight
            and m.turn is LinkDirection.FORWARD
            and m.lane.startswith("40.")
        )
        return {
            lane.partition(".")[0]
            for lane in net.goes_first(straight.lane, straight.to)
        }

    assert first(text) == set()
    sign = text[text.index("<signals>") : text.index("</signals>") + len("</signals>")]
    moved = text.replace(sign, "<signals/>", 1).replace("<signals/>", sign, 1)
    assert first(moved) >= {"42"}


def test_a_road_that_leads_nowhere_is_read_to_its_end() -> None:
    # CARLA's own ways to go along a lane end the process there.
    lanes = list(of_carla("highway").lanes.values())
    assert [lane.number for lane in lanes] == [0, 1, 2]
    assert {round(lane.length) for lane in lanes} == {2600}
    assert {lane.limit_kmh for lane in lanes} == {120.0}


def test_a_place_is_on_the_lane_of_its_heading() -> None:
    places = Places(of_carla("crossing"))

    def on(x: float, y: float, heading: float) -> set[str]:
        return {place.lane for place in places.near(x, y, heading)}

    (east,) = on(-100.0, -1.625, 0.0) - on(-100.0, -4.875, 0.0)
    assert not on(-100.0, -1.625, 180.0) & {east}
    assert not on(-100.0, 30.0, 0.0)
    found = [p for p in places.near(-100.0, -1.0, 0.0) if p.lane == east]
    assert found[0].left_m == pytest.approx(0.625)
    (x, y), heading = places.at(east, found[0].along_m)
    assert (x, y, heading) == pytest.approx((-100.0, -1.625, 0.0), abs=0.01)


class Patchy:
    """A map whose text is longer than anyone should read."""

    def to_opendrive(self) -> Any:
        return "x" * (65 << 20)


def test_a_text_without_end_is_refused() -> None:
    with pytest.raises(Exception, match="exceeds"):
        CarlaNet(Patchy())
