"""What can go wrong between a guard and a server whose sockets stay open."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from forewarn.plugins.carla.guarded import GuardedVehicle
from forewarn.plugins.carla.wire import CarlaLost, StandIn, connect
from tests.plugins.carla.proxy import Proxy
from tests.standins.carla.clients import PREAMBLE

carla = pytest.importorskip("carla", reason="carla has wheels for Python 3.10 to 3.12")
pytestmark = pytest.mark.needs("msgpack")

from tests.plugins.carla.test_guarded import make_guarding, shipped_model  # noqa: E402

CALM = """
format: forewarn.policy/1
rules:
  - {law: "*", thresholds: {stop: 1.0}}
horizon_s: 4.0
"""
LEASE_S = 0.5

DRIVER = (
    PREAMBLE
    + """
synchronous()
kind = world.get_blueprint_library().find("vehicle.tesla.model3")
kind.set_attribute("role_name", "hero")
place = world.get_map().get_waypoint_xodr(56, -1, 10.0).transform
place.location.z = 0.3
car = world.spawn_actor(kind, place)
print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    for n in range(int(line)):
        v = car.get_velocity()
        speed = (v.x ** 2 + v.y ** 2) ** 0.5
        time.sleep(0.01)
        # A client sends a control only if it differs from its last one.
        pedal = max(0, min(1, 5 - speed)) * (0.99 if n == 0 else 1.0)
        car.apply_control(carla.VehicleControl(throttle=pedal))
        world.tick()
    print(json.dumps(speed), flush=True)
"""
)


class Road:
    """A driver on a server, and a guard that sees and tells through a proxy."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.server = StandIn(["--map", "crossing", "--kinematic"])
        stack.callback(self.server.stop)
        self.proxy = stack.enter_context(Proxy(self.server.port))
        self._driver = self._start(
            stack, ["-c", DRIVER, str(self.server.port)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._driver.stdout is not None
        assert self._driver.stdout.readline() == "ready\n"
        policy = folder / "policy.yaml"
        policy.write_text(CALM)
        self._said, self._complained = folder / "said", folder / "complained"
        out = stack.enter_context(self._said.open("w"))
        errors = stack.enter_context(self._complained.open("w"))
        self.guard = self._start(
            stack,
            ["-m", "forewarn.cli", "carla", "guard", "--model", shipped_model(),
             "--policy", str(policy), "--port", str(self.proxy.port), "--json",
             "--for", "180"],
            stdout=out, stderr=errors,
        )  # fmt: skip
        until(lambda: "laws" in self._said.read_text() or self.guard.poll() is not None)
        self.drive(60)  # and the guard begins to judge
        until(lambda: len(self.decisions) > 20)
        assert self.drive(40) > 3.0, "nothing is held back"

    @staticmethod
    def _start(stack: ExitStack, command: list[str], **how: Any) -> Any:
        process = subprocess.Popen([sys.executable, *command], text=True, **how)
        stack.callback(process.communicate)
        stack.callback(process.kill)
        return process

    def drive(self, ticks: int) -> float:
        """The car's speed after so many ticks of a driver who wants 5 m/s."""
        assert self._driver.stdin is not None and self._driver.stdout is not None
        self._driver.stdin.write(f"{ticks}\n")
        self._driver.stdin.flush()
        return float(json.loads(self._driver.stdout.readline()))

    @property
    def decisions(self) -> list[dict[str, Any]]:
        lines = self._said.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [each for each in found if "carried_out" in each]

    @property
    def complaint(self) -> str:
        return self._complained.read_text()


def until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "too late"
        time.sleep(0.02)


@pytest.fixture
def road(tmp_path: Path) -> Iterator[Road]:
    with ExitStack() as stack:
        yield Road(stack, tmp_path)


def stopped(road: Road) -> None:
    """The guard no longer sees the car, and stops it although its driver goes on."""
    until(lambda: road.drive(10) == 0.0)
    assert road.guard.poll() is None
    last = road.decisions[-1]
    assert last["decision"] == "stop" and "cannot judge" in last["reason"]


def test_a_stream_that_falls_silent_stops_the_car_and_a_torn_one_is_got_over(
    road: Road,
) -> None:
    road.proxy.tell("stall")
    stopped(road)
    road.proxy.tell("pass")
    until(lambda: road.drive(10) > 3.0)  # it is let go when it is seen again
    assert road.decisions[-1]["decision"] == "proceed"
    count = len(road.decisions)
    road.proxy.tell("tear")
    until(lambda: road.drive(10) > 3.0 and len(road.decisions) > count + 50)
    assert road.guard.poll() is None
    assert road.decisions[-1]["decision"] == "proceed"
    road.proxy.tell("halve")
    stopped(road)


@pytest.mark.parametrize(
    "mode", ["swallow", pytest.param("deafen", marks=pytest.mark.soak)]
)
def test_unresponsive_server_is_reported_in_time(mode: str, road: Road) -> None:
    road.proxy.tell(mode)
    began_s = time.monotonic()
    said = f"127.0.0.1:{road.proxy.port} does not answer"
    until(lambda: road.drive(2) >= 0.0 and said in road.complaint)
    assert time.monotonic() - began_s < 8.0
    assert road.guard.wait(20) == 3


def test_a_server_that_turns_hostile_ends_the_guard_with_a_word(road: Road) -> None:
    """CARLA's own client ends its process at such an answer."""
    road.proxy.tell("garble")
    until(lambda: road.drive(2) >= 0.0 and road.guard.poll() is not None)
    assert road.guard.wait() == 3
    last = road.complaint.splitlines()[-1]
    assert "CARLA's client library crashed" in last
    assert road.drive(60) > 3.0, "its driver has it"


def test_killed_guard_leaves_no_process_behind(road: Road) -> None:
    pid = road.guard.pid
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("this system does not say what a process has begun")
    (child,) = children.read_text().split()
    road.guard.kill()
    until(lambda: road.drive(2) >= 0.0 and not Path(f"/proc/{child}").exists())


def test_around_an_agent_too_a_silent_stream_stops_the_car() -> None:
    with ExitStack() as stack:
        server = StandIn(["--map", "crossing", "--kinematic"])
        stack.callback(server.stop)
        proxy = stack.enter_context(Proxy(server.port))
        client = connect("127.0.0.1", proxy.port)
        client.set_timeout(2.0)
        world = client.get_world()
        kind = world.get_blueprint_library().find("vehicle.tesla.model3")
        place = world.get_map().get_waypoint_xodr(56, -1, 10.0).transform
        place.location.z = 0.3
        car = world.spawn_actor(kind, place)
        world.wait_for_tick()
        foot = carla.VehicleControl(throttle=0.4)
        guarded = stack.enter_context(
            GuardedVehicle(world, car, make_guarding(CALM), sensor=False)
        )

        def driven(seconds: float) -> bool:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                car.apply_control(guarded.filter(foot))
                time.sleep(0.02)
            return False

        until(lambda: driven(0.5) or car.get_velocity().length() > 1.0)
        assert guarded.decision is not None and guarded.decision.kind == "proceed"
        proxy.tell("stall")
        driven(LEASE_S + 2.5)
        assert guarded.decision.kind == "stop"
        assert "cannot judge" in guarded.decision.reason
        assert guarded.filter(foot).brake > 0.5
        watcher = [sys.executable, "-c", WATCHER, str(server.port), str(car.id)]
        seen = subprocess.run(
            watcher, capture_output=True, text=True, timeout=60, check=True
        )
        assert float(seen.stdout) == 0.0


WATCHER = (
    PREAMBLE
    + """
import os
world.wait_for_tick()
print(world.get_actor(int(sys.argv[2])).get_velocity().length(), flush=True)
os._exit(0)
"""
)


@pytest.mark.parametrize("host", ["http://127.0.0.1:2000", "no-such-host.invalid"])
def test_a_host_that_cannot_be_found_is_reported(host: str) -> None:
    with pytest.raises(CarlaLost, match=r"cannot be found \(give a name or an address"):
        connect(host, 2000, 1.0)


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xc1" * 99, b"\x93\x01\x02\x03"]
)
def test_server_that_is_not_carla_is_reported_and_no_process_ends(said: bytes) -> None:
    """CARLA's own client would abort the process of whoever asked."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:

        def answer() -> None:
            line, _ = stranger.accept()
            with line, suppress(OSError):
                line.sendall(said)
                line.recv(4096)

        threading.Thread(target=answer, daemon=True).start()
        port = stranger.getsockname()[1]
        with pytest.raises(
            CarlaLost, match=("the program that answers is not a CARLA server")
        ):
            connect("127.0.0.1", port, 1.0)
