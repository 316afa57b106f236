"""Apollo's map: ours written in its form, any read, and the roads that follow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")
pytest.importorskip("libsumo", reason="libsumo is not installed")

from google.protobuf import text_format

from forewarn.abstractions.errors import InvalidInput
from forewarn.apollo_bridge.channels import messages
from forewarn.apollo_bridge.lockstep import draw_map
from forewarn.apollo_bridge.maps import Network, RoadMap, load_map, read_map
from forewarn.plugins.driving.places import Places
from forewarn.plugins.driving.roads import Link, Passage, Roads
from forewarn.plugins.sumo import wire
from forewarn.plugins.sumo.sense import SumoNet
from forewarn.plugins.sumo.support import find_map, shipped_maps

Map = messages()["apollo.hdmap.Map"]
LIT = {"boulevard", "crossing"}


@pytest.fixture(scope="module")
def crossing() -> Any:
    return draw_map("crossing")


def same_way(passage: Passage) -> tuple[Any, ...]:
    """What a way through a junction comes to, apart from names."""
    foes = sorted(
        (round(f.ego_m, 3), round(f.foe_m, 3), round(f.half_m, 3), f.light is None)
        for f in passage.foes
    )
    walks = [(round(c.near_m, 3), round(c.at_m, 3)) for c in passage.footways]
    facts = (
        round(passage.end_m - passage.line_m, 3), passage.turn,
        passage.light is None, passage.stops, passage.is_junction,
    )  # fmt: skip
    return facts, foes, walks


def ways(roads: Roads) -> Iterator[tuple[str, Link]]:
    for lane in roads.lanes.values():
        for link in () if lane.inside or not lane.for_cars else lane.links:
            if roads.lanes[link.to].for_cars:
                yield lane.name, link


@pytest.mark.parametrize("name", sorted(shipped_maps()))
def test_our_maps_have_the_same_roads_as_sumo(name: str) -> None:
    network = Network(read_map(draw_map(name)))
    theirs = Roads(network)
    owner = object()
    sumo = wire.connect(owner, ["--net-file", str(find_map(name))], "")
    ours = Roads(SumoNet(sumo))
    for lane, link in ways(ours):
        passage = ours._passage(ours.lanes[lane], link, ours.inner(link), 0.0)
        name_there = network.name_of[lane]
        to = network.name_of[link.to]
        (other,) = [each for each in theirs.lanes[name_there].links if each.to == to]
        same = theirs._passage(
            theirs.lanes[name_there], other, theirs.inner(other), 0.0
        )
        assert same_way(same) == same_way(passage), (name, lane, link)
        if name not in LIT:
            # At lights SUMO's table of who goes first knows lanes, not ways.
            assert sorted(f.first for f in same.foes) == sorted(
                f.first for f in passage.foes
            )
            assert same.has_line == passage.has_line
    for own in ours.lanes.values():
        if own.for_cars:
            twin = theirs.lanes[network.name_of[own.name]]
            assert math.isclose(twin.length, own.length)
            assert math.isclose(twin.limit_kmh, own.limit_kmh)
            assert math.isclose(twin.width, own.width)
    wire.release(owner)


def test_generated_classes_read_our_map_and_we_read_theirs(crossing: Any) -> None:
    theirs_type = pytest.importorskip("wheelos_msgs.map_msgs.map_pb2").Map
    theirs = theirs_type.FromString(crossing.SerializeToString())
    assert len(theirs.lane) == len(crossing.lane) == 40
    assert len(theirs.signal) == 16 and len(theirs.crosswalk) == 4
    assert read_map(theirs).lanes == read_map(crossing).lanes


def test_a_map_is_read_from_a_folder_bytes_or_text(
    crossing: Any, tmp_path: Path
) -> None:
    wanted = read_map(crossing)
    (tmp_path / "base_map.bin").write_bytes(crossing.SerializeToString())
    text = tmp_path / "other.txt"
    text.write_bytes(text_format.MessageToBytes(crossing))
    for path in (tmp_path, tmp_path / "base_map.bin", text):
        found = load_map(path)
        assert found.lanes == wanted.lanes and found.crosswalks == wanted.crosswalks


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("base_map.bin", b"\xff\xff\xff", "not an Apollo map"),
        ("base_map.txt", b"lane { id: 7 }", "not an Apollo map"),
        ("base_map.txt", b"\xff\xfe", "not an Apollo map"),
        ("base_map.bin", b"", "no lanes"),
        ("else.bin", b"", "does not contain an Apollo map"),
    ],
)
def test_invalid_map_is_rejected_with_its_name(
    tmp_path: Path, name: str, data: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInput, match=why) as error:
        load_map(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_map_with_a_point_far_away_is_rejected() -> None:
    made = draw_map("merge")
    made.lane[0].central_curve.segment[0].line_segment.point[0].x = 1e9
    with pytest.raises(InvalidInput, match="the lanes are .* km long in all"):
        read_map(made)


def test_name_that_is_not_text_is_rejected() -> None:
    made = Map()
    lane(made, "one", [(0.0, 0.0), (9.0, 0.0)]).successor_id.add(id="next")
    data = made.SerializeToString().replace(b"next", b"nex\xff")
    with pytest.raises(InvalidInput, match="is not UTF-8 text"):
        read_map(Map.FromString(data))


def test_long_segment_is_found_along_its_whole_length() -> None:
    made = Map()
    lane(made, "long", [(0.0, 0.0), (3_000.0, 4_000.0)])
    found, heading = places(read_map(made)), math.degrees(math.atan2(4.0, 3.0))
    for along in range(0, 5_001, 3):
        (place,) = found.near(0.6 * along + 2.0, 0.8 * along - 1.5, heading)
        assert place.left_m == pytest.approx(-2.5)
        assert place.along_m == pytest.approx(along)


def test_positions_are_relative_to_the_length_that_the_map_states() -> None:
    made = Map()
    lane(made, "a", [(0.0, 0.0), (40.0, 0.0), (40.0, 60.0)]).length = 200.0
    found = places(read_map(made))
    (place,) = found.near(40.0, 30.0, 90.0)
    assert place.along_m == pytest.approx(140.0)
    assert found.at("e0_0", 140.0) == ((40.0, pytest.approx(30.0)), 90.0)


def places(road_map: RoadMap) -> Places:
    return Places(Roads(Network(road_map)))


@given(st.data())
def test_an_altered_map_is_read_or_rejected(data: st.DataObject) -> None:
    whole = bytearray(draw_map("merge").SerializeToString())
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    from google.protobuf.message import DecodeError

    try:
        network = Network(read_map(Map.FromString(cut)))
        roads = Roads(network)
        for lane, link in list(ways(roads)):
            roads.way(lane, (roads.lanes[lane].edge, roads.lanes[link.to].edge))
        Places(roads)
    except (InvalidInput, DecodeError):
        pass


def lane(made: Any, name: str, points: list[tuple[float, float]]) -> Any:
    new = made.lane.add(type=2)
    new.id.id = name
    for x, y in points:
        line = (new.central_curve.segment or [new.central_curve.segment.add()])[0]
        line.line_segment.point.add(x=x, y=y)
    return new


class TestOthersMaps:
    """What other maps do differently."""

    def test_junction_is_recognised_by_its_overlap(self) -> None:
        made = Map()
        for name, at in (("a", -20.0), ("b", 0.0), ("c", 20.0)):
            lane(made, name, [(at, 0.0), (at + 20.0, 0.0)])
        for one, two in (("a", "b"), ("b", "c")):
            by_name = {each.id.id: each for each in made.lane}
            by_name[one].successor_id.add(id=two)
            by_name[two].predecessor_id.add(id=one)
        junction = made.junction.add()
        junction.id.id = "J"
        for x, y in ((0, -9), (20, -9), (20, 9), (0, 9)):
            junction.polygon.point.add(x=x, y=y)
        overlap = made.overlap.add()
        for name in ("a", "b"):
            overlap.object.add().id.id = name
            overlap.object[-1].lane_overlap_info.SetInParent()
        overlap.object.add().id.id = "J"
        overlap.object[-1].junction_overlap_info.SetInParent()
        found = read_map(made)
        # A lane that only reaches into the junction does not lie in it.
        assert {n: each.junction for n, each in found.lanes.items()} == {
            "a": "", "b": "J", "c": "",
        }  # fmt: skip

    def test_lengths_and_widths_may_be_missing(self) -> None:
        made = Map()
        lane(made, "a", [(0.0, 0.0), (30.0, 40.0)])
        found = read_map(made).lanes["a"]
        assert (found.length_m, found.width_m, found.limit_mps) == (50.0, 3.5, 0.0)

    def test_points_that_are_no_numbers_are_left_out(self) -> None:
        made = Map()
        lane(made, "a", [(0.0, 0.0), (math.nan, 1.0), (10.0, 0.0), (10.0, 0.0)])
        lane(made, "b", [(math.nan, 0.0), (1.0, 1.0)])
        assert set(read_map(made).lanes) == {"a"}

    def test_lanes_in_a_ring_and_neighbours_that_disagree_end(self) -> None:
        made = Map()
        for name in "ab":
            new = lane(made, name, [(0.0, 0.0), (10.0, 0.0)])
            new.left_neighbor_forward_lane_id.add(id="b" if name == "a" else "a")
            new.right_neighbor_forward_lane_id.add(id="b" if name == "a" else "a")
            new.successor_id.add(id=name)
            new.successor_id.add(id="nowhere")
        network = Network(read_map(made))
        assert sorted(network.lane_of) == ["e0_0", "e0_1"]
        Roads(network)


@given(along=st.floats(0.0, 223.9), left=st.floats(-1.5, 1.5))
def test_a_position_on_a_lane_is_found_again(along: float, left: float) -> None:
    # It leads west at y = 1.6 + 3.25 …, so left of it is south.
    network, found = crossing_places()
    name = network.name_of["east_in_1"]
    shape = network.lane_of[name].shape
    x, y = shape[0][0] - along, shape[0][1] - left
    place = {place.lane: place for place in found.near(x, y, 180.0)}[name]
    assert place.off == pytest.approx(abs(left), abs=1e-6)
    assert place.along_m == pytest.approx(along, abs=1e-6)
    assert place.left_m == pytest.approx(left, abs=1e-6)
    assert found.on(name, x, y, 180.0) == place


@cache
def crossing_places() -> tuple[Network, Places]:
    network = Network(read_map(draw_map("crossing")))
    return network, Places(Roads(network))
