"""The CARLA world: CARLA's own client, a stand-in server, a scenario of SUMO's."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.carla.support import VersionMismatch, check_versions
from forewarn.plugins.carla.wire import CarlaLost, StandIn, connect
from forewarn.plugins.contracts import World
from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.shipped import shipped_with

pytest.importorskip("carla", reason="carla has wheels for Python 3.10 to 3.12 only")
pytestmark = [pytest.mark.needs("libsumo"), pytest.mark.needs("msgpack")]


def world(name: str = "s2", seed: int = 3) -> World:
    return Runner(load_scenario(name).on("carla")).world(seed)


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[None]:
    yield
    from forewarn.plugins.carla.bridge import stop_servers

    stop_servers()


@pytest.mark.parametrize("name", ["s1", "s6"])
def test_a_scenario_runs_as_it_does_in_sumo(name: str) -> None:
    here = load_scenario(name)
    ours = Runner(here).run(700_003)
    theirs = Runner(here.on("carla")).run(700_003)
    assert not theirs.error
    assert [b.law for b in ours.violations] == [b.law for b in theirs.violations]
    assert theirs.duration_s == pytest.approx(ours.duration_s, abs=0.5)


def test_a_name_says_where_a_scenario_is_to_run() -> None:
    there = load_scenario("s2@carla")
    assert there.world.name == "carla"
    assert there.digest == load_scenario("s2").on("carla").digest
    assert there.digest != load_scenario("s2").digest
    assert shipped_with(there) == shipped_with(load_scenario("s2"))
    assert load_scenario(there.source).digest == there.digest


def test_a_stop_is_a_stop() -> None:
    found = world()
    frame = found.reset(5)
    for _ in range(120):
        frame = found.step(Action("stop"))
        if frame.values["speed"] == 0.0:
            break
    assert frame.values["speed"] == 0.0
    assert frame.time_s < 10.0
    found.close()


def test_a_car_has_no_other_actions() -> None:
    found = world()
    found.reset(5)
    with pytest.raises(InvalidInput, match="has no action 'fly'"):
        found.step(Action("fly"))
    with pytest.raises(InvalidInput, match="'up', none of left, right"):
        found.step(Action("control", {"lane_change": "up"}))
    found.close()


def test_without_a_scenario_or_a_host_there_is_nothing_to_drive_in() -> None:
    from forewarn.plugins.carla.bridge import CarlaWorld
    from forewarn.plugins.sumo.traffic import Ego

    with pytest.raises(InvalidInput, match="requires `scenario` or `host`"):
        CarlaWorld(ego=Ego(route=["west_in", "east_out"]))


def test_a_server_that_is_killed_is_named() -> None:
    found = world()
    found.reset(1)
    found._stand_in.stop()  # type: ignore[attr-defined]
    with pytest.raises(CarlaLost, match="127.0.0.1"):
        for _ in range(5):
            found.step(None)
    assert found.ended() == "the server is lost"
    assert found.reset(1).time_s == 0.0, "another one is started"
    found.close()


def test_missing_server_at_the_port_is_reported() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(CarlaLost, match=f"127.0.0.1:{port} does not answer"):
        connect("127.0.0.1", port, timeout_s=0.5)


class Sides:
    """A client that only knows versions."""

    def __init__(self, own: str, theirs: str) -> None:
        self._versions = own, theirs

    def get_client_version(self) -> Any:
        return self._versions[0]

    def get_server_version(self) -> Any:
        return self._versions[1]


def test_versions_must_be_the_same() -> None:
    assert check_versions(Sides("0.9.16", "0.9.16-dirty")) == "0.9.16"
    with pytest.raises(VersionMismatch) as caught:
        check_versions(Sides("0.9.16", "0.9.15"))
    said = str(caught.value)
    assert "0.9.16" in said and "0.9.15" in said
    assert "pip install carla==0.9.15" in said
    assert caught.value.exit_status == 3


def test_stand_in_ends_with_the_process_that_started_it() -> None:
    server = StandIn(["--map", "tee", "--kinematic"])
    assert server.runs
    server._process.stdin.close()  # type: ignore[union-attr]
    server._process.wait(10)
    assert not server.runs
    server.stop()
