"""Who goes first where signs tell, and where none do."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from forewarn.plugins.driving.places import Junctions, Movement
from forewarn.plugins.driving.roads import Lane, LinkDirection


def movement(
    lane: str,
    heading: float,
    turn: LinkDirection = LinkDirection.FORWARD,
    *,
    stops: bool = False,
    yields: bool = False,
) -> Movement:
    radians = math.radians(heading)
    return Movement(
        f"{lane}_0", f":{lane}_{turn}", f"{lane}_out_0", turn, radians, stops, yields
    )


EAST, NORTH = movement("west", 0.0), movement("south", 90.0)
WEST, SOUTH = movement("east", 180.0), movement("north", -90.0)


def test_signs_come_first() -> None:
    assert NORTH.goes_before(EAST)
    for sign in ("yields", "stops"):
        signed = replace(NORTH, yields=sign == "yields", stops=sign == "stops")
        assert EAST.goes_before(signed) and not signed.goes_before(EAST)
    stop, give = replace(NORTH, stops=True), replace(EAST, yields=True)
    assert give.goes_before(stop) and not stop.goes_before(give)


def test_without_signs_the_right_goes_before_the_left() -> None:
    for right, left in ((NORTH, EAST), (EAST, SOUTH), (SOUTH, WEST), (WEST, NORTH)):
        assert right.goes_before(left) and not left.goes_before(right)


def test_left_turns_let_the_oncoming_pass() -> None:
    left = replace(EAST, turn=LinkDirection.LEFT)
    assert WEST.goes_before(left) and not left.goes_before(WEST)
    assert not WEST.goes_before(EAST) and not EAST.goes_before(WEST)
    assert not replace(WEST, turn=LinkDirection.LEFT).goes_before(left)


ways = st.builds(
    movement,
    st.sampled_from("abcd"),
    st.floats(-180, 180),
    st.sampled_from(LinkDirection),
    stops=st.booleans(),
    yields=st.booleans(),
)


@given(ways, ways)
def test_never_both(one: Movement, other: Movement) -> None:
    assert not (one.goes_before(other) and other.goes_before(one))


def lane(name: str, junction: str, *shape: tuple[float, float]) -> Lane:
    edge, _, number = name.rpartition("_")
    return Lane(name, edge, int(number), 20.0, 3.0, 50.0, junction, True, (), shape)


def test_junction_determines_which_paths_cross() -> None:
    lanes = [
        lane("west_0", "", (-50.0, 0.0), (-10.0, 0.0)),
        lane("south_0", "", (0.0, -50.0), (0.0, -10.0)),
        lane("elsewhere_0", "", (0.0, 0.0), (1.0, 0.0)),
        lane(":w_0", ":j", (-10.0, 0.0), (10.0, 0.0)),
        lane(":s_0", ":j", (0.0, -10.0), (0.0, 10.0)),
        lane(":j_c0_0", ":j", (8.0, -3.0), (8.0, 3.0)),
        lane(":far_0", ":k", (-10.0, 0.0), (10.0, 1.0)),
    ]
    net = Junctions(
        {each.name: each for each in lanes},
        [replace(EAST, via=":w_0"), replace(NORTH, via=":s_0")],
    )
    assert list(net.lanes()) == lanes
    assert net.meets(":w_0") == [":s_0", ":j_c0_0"]
    assert net.meets(":far_0") == []
    assert net.goes_first("west_0", "west_out_0") == {"south_0"}
    assert net.goes_first("south_0", "south_out_0") == set()
    assert net.goes_first("elsewhere_0", "x_0") == set()
    assert net.approaches("west") == ["west", "south"]
    assert net.approaches("elsewhere") == []
