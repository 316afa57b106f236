"""Every call with whatever arguments: it answers, and the world goes on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("carla", reason="no carla for this Python")
msgpack = pytest.importorskip("msgpack")

from forewarn.standins.carla.actors import Vehicle  # noqa: E402
from forewarn.standins.carla.server import ANSWERS, DOES, Server  # noqa: E402
from tests.standins.carla.made import made_server  # noqa: E402

# A map is loaded in a hundred milliseconds, which is too long for each example.
_SLOW = {"load_new_episode", "forewarn_restart"}
_NAMES = sorted({*ANSWERS, *DOES, "apply_batch"} - _SLOW)

MANY = 60
VERY_MANY = 1500

_numbers = st.one_of(
    st.integers(-3, 140),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.sampled_from([0.0, -1.0, 1e300, math.nan, math.inf]),
)
_leaves = st.one_of(_numbers, st.booleans(), st.none(), st.text(max_size=8),
                    st.binary(max_size=8))  # fmt: skip
_values = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=8), max_leaves=12
)
_point = st.lists(_numbers, min_size=3, max_size=3)
_pose = st.tuples(_point, _point).map(list)
_likely = st.one_of(_values, _point, _pose, st.lists(_numbers, max_size=17))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = made_server("crossing")
    made.port = 2000
    points = made.world.roads.spawn_points
    for n, kind in enumerate(
        ["vehicle.tesla.model3", "walker.pedestrian.0001", "static.prop.barrel"]
    ):
        place = points[n]
        ask(made, "spawn_actor", [1, kind, []], [place[:3], place[3:]])
    beside = [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    for kind in ["sensor.other.imu", "sensor.other.collision"]:
        ask(made, "spawn_actor_with_parent", [1, kind, []], beside, 100, 0, "")
    # Whatever happens to it can be recorded.
    ask(made, "start_recorder", "all.log", True)
    yield made
    made.recordings.close(made.world)


def ask(server: Server, name: str, *arguments: Any) -> Any:
    error, result = server._answer(name, list(arguments))
    assert error is None
    # Whatever it is, it can be sent.
    msgpack.packb(result, unicode_errors="surrogateescape")
    return result


@settings(max_examples=MANY)
@given(
    name=st.sampled_from(_NAMES),
    arguments=st.lists(_likely, max_size=5),
)
def test_any_arguments_are_answered_and_the_world_continues(
    server: Server, name: str, arguments: list[Any]
) -> None:
    ask(server, name, *arguments)
    ticks_on(server)


@settings(max_examples=MANY)
@given(
    name=st.sampled_from(_NAMES),
    actor=st.integers(1, 110),
    arguments=st.lists(_likely, max_size=3),
)
def test_any_arguments_to_an_actors_methods_are_answered(
    server: Server, name: str, actor: int, arguments: list[Any]
) -> None:
    ask(server, name, actor, *arguments)
    ticks_on(server)


@settings(max_examples=MANY // 2)
@given(
    commands=st.lists(
        st.tuples(st.integers(0, 23), st.lists(_likely, max_size=4)).map(
            lambda command: [[command[0], command[1]]]
        ),
        max_size=4,
    )
)
def test_any_batch_has_an_answer_for_each_command(
    server: Server, commands: list[Any]
) -> None:
    answers = ask(server, "apply_batch", commands, False)
    assert len(answers) == len(commands) or answers[0][0][0] == 0
    ticks_on(server)


@pytest.mark.soak
@settings(max_examples=VERY_MANY)
@given(
    name=st.sampled_from(_NAMES),
    actor=st.lists(st.integers(1, 110), max_size=1),
    arguments=st.lists(_likely, max_size=4),
)
def test_many_more_arguments_are_answered(
    server: Server, name: str, actor: list[int], arguments: list[Any]
) -> None:
    ask(server, name, *actor, *arguments)
    ticks_on(server)


def ticks_on(server: Server) -> None:
    world = server.world
    frame = world.frame
    assert world.tick() == frame + 1
    assert (len(world.snapshot()) - 84) % 119 == 0
    for actor in world.actors.values():
        assert all(map(math.isfinite, actor.at))
    if len(world.actors) > 200:
        for number in [n for n in world.actors if n > 150]:
            world.destroy(number)


def test_invalid_controls_never_reach_a_vehicle(server: Server) -> None:
    car = next(a for a in server.world.actors.values() if isinstance(a, Vehicle))
    before = list(car.control)
    for wrong in ([math.nan] * 7, [1e300, 0, 0, False, False, False, 0], [1.0], "full"):
        answer = ask(server, "apply_control_to_vehicle", car.number, wrong)
        assert answer[0][0] is True, "an error"
        assert car.control == before


def test_each_call_either_returns_a_value_or_nothing() -> None:
    assert not ANSWERS.keys() & DOES.keys()
