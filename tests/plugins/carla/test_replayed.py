"""CARLA's own recordings as traces: what was perceived then is perceived again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.readers import read_trace
from forewarn.abstractions.trace import Trace
from forewarn.plugins.carla.guarded import Watching
from forewarn.plugins.carla.wire import StandIn

carla = pytest.importorskip("carla", reason="carla has wheels for Python 3.10 to 3.12")
pytestmark = pytest.mark.needs("msgpack")

from tests.plugins.carla.test_guarded import Drive  # noqa: E402

DRIVEN = 400


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("recordings")
    server = StandIn(["--map", "crossing", "--kinematic", "--recordings", str(folder)])
    yield server.port
    server.stop()


@pytest.fixture(scope="module")
def driven(port: int) -> list[dict[str, Any]]:
    """What a car perceived while the recorder ran: behind another, at the lights."""
    drive = Drive(port, at_m=80.0)
    kind = drive.world.get_blueprint_library().find("vehicle.citroen.c3")
    place = drive.world.get_map().get_waypoint_xodr(56, -1, 110.0).transform
    place.location.z = 0.3
    ahead = drive.world.spawn_actor(kind, place)
    drive.world.tick()
    drive.client.start_recorder("drive.log", True)
    perceived = []
    with Watching(drive.world, drive.car) as watching:
        for n in range(DRIVEN):
            speed = ahead.get_velocity().length()
            goes = max(0.0, min(1.0, 0.5 * (7.0 - speed)))
            ahead.apply_control(carla.VehicleControl(throttle=goes))
            if n == 250:
                drive.car.set_light_state(carla.VehicleLightState.RightBlinker)
            drive.apply(drive.towards(9.0 if n < 150 else 6.0))
            perceived.append(dict(watching.frame().values))
    drive.client.stop_recorder()
    ahead.destroy()
    drive.car.destroy()
    drive.client.load_world("tee")
    return perceived


def alike(one: Any, other: Any) -> bool:
    if isinstance(other, str | bool) or one is None:
        return bool(one == other)
    if other is None:
        return bool(one != one)
    return bool(abs(one - other) < 0.5)


def recorded(port: int, out: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "forewarn.cli", "carla", "record", str(out), "--port",
         str(port), "--json", *options],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    said = json.loads(done.stdout) if done.stdout else {}
    return done.returncode, said, done.stderr


def test_a_recording_of_carlas_becomes_the_trace_of_its_drive(
    port: int, driven: list[dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "drive.jsonl.gz"
    status, said, _ = recorded(port, out, "--from", "drive.log")
    assert status == 0
    trace: Trace = read_trace(out)
    assert said == {"frames": len(trace), "trace": str(out)}
    assert trace.header.period_s == 0.05
    # The log begins a tick later, and how fast they are takes two of its frames.
    then = driven[2 : 2 + len(trace)]
    assert DRIVEN - 6 <= len(trace) == len(then)
    told = trace.columns(list(trace.header.provides))
    for name, column in told.items():
        if name.startswith("time_to_"):
            continue  # seconds to somewhere far magnify the last digit of a speed
        same = sum(map(alike, column, (frame[name] for frame in then)))
        assert same >= 0.97 * len(trace), (name, list(column)[:20])
    assert max(told["speed"]) > 25.0 and any(told["in_junction"])


def test_a_part_of_a_recording_and_settings_given_back(
    port: int, driven: list[dict[str, Any]], tmp_path: Path
) -> None:
    client = carla.Client("127.0.0.1", port)
    before = client.get_world().get_settings()
    out = tmp_path / "drive.jsonl.gz"
    status, said, _ = recorded(port, out, "--from", "drive.log", "--for", "3")
    assert status == 0 and 55 <= said["frames"] <= 62
    world = client.get_world()
    assert world.get_settings() == before
    assert not len(world.get_actors().filter("vehicle.*")), "whom it brought is gone"


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--from", "none.log"], 2, "none.log"),
        (["--from", "../none.log"], 2, "none.log"),
        (["--from", "drive.log", "--role-name", "villain"], 2, "villain"),
    ],
    ids=["missing", "outside", "role"],
)
def test_recording_that_cannot_be_played_is_reported_in_one_line(
    port: int, driven: object, options: list[str], status: int, said: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    out = tmp_path / "drive.jsonl.gz"
    found, _, error = recorded(port, out, *options)
    assert found == status
    assert said in error and len(error.splitlines()) == 1
    assert not out.exists()
