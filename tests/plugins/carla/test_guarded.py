"""A guard on a vehicle that CARLA's own client drives, against a stand-in server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import pytest
from click.testing import CliRunner

from forewarn.abstractions.files import parse_yaml
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.readers import read_trace
from forewarn.cli import main
from forewarn.monitors.guarding.decision import Decision, Risk
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.record import read_record
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.plugins.carla.act import CarlaActuator, action_of, control_of
from forewarn.plugins.carla.guarded import GuardedVehicle
from forewarn.plugins.carla.scenario_runner import guarded_agent, law_criterion
from forewarn.plugins.carla.wire import StandIn, connect
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.replay import replay
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.shipped import shipped_with
from tests.standins.carla.clients import PREAMBLE

carla = pytest.importorskip("carla", reason="carla has wheels for Python 3.10 to 3.12")
pytestmark = pytest.mark.needs("msgpack")

POLICY = """
format: forewarn.policy/1
rules:
  - {law: "*", thresholds: {slow: 0.3, stop: 0.6}}
horizon_s: 4.0
"""
STEP_S = 0.05
WEST_IN = 56  # the road from the west, in the crossing's OpenDRIVE


def make_guarding(policy: str = POLICY, record: Path | None = None) -> Guarding:
    shipped = shipped_with(load_scenario("s2"))
    assert shipped is not None
    wanted = Policy.from_dict(parse_yaml(policy, "test"), "test")
    return Guarding.load(shipped.model, wanted, record=record)


@cache
def _entered(port: int) -> tuple[Any, Any]:
    client = connect("127.0.0.1", port)
    return client, client.get_world()


class Drive:
    """A car on an empty crossing whose lights are red, in synchronous mode.

    All drives of a server share one client and one world. CARLA's client may close a
    stream twice when another world is loaded, and ends the process then.
    """

    def __init__(self, port: int, at_m: float = 120.0) -> None:
        self.client, self.world = _entered(port)
        for actor in self.world.get_actors():
            if actor.type_id.startswith(("vehicle.", "sensor.")):
                actor.destroy()
        settings = self.world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, STEP_S
        self.world.apply_settings(settings)
        kind = self.world.get_blueprint_library().find("vehicle.tesla.model3")
        kind.set_attribute("role_name", "hero")
        place = self.world.get_map().get_waypoint_xodr(WEST_IN, -1, at_m).transform
        place.location.z = 0.3
        self.car = self.world.spawn_actor(kind, place)
        self.world.tick()
        for light in self.world.get_actors().filter("traffic.traffic_light*"):
            light.set_state(carla.TrafficLightState.Red)
            light.freeze(True)
        self.world.tick()

    @property
    def speed(self) -> float:
        velocity = self.car.get_velocity()
        return float((velocity.x**2 + velocity.y**2) ** 0.5)

    @property
    def x(self) -> float:
        return float(self.car.get_location().x)

    def towards(self, speed: float) -> Any:
        """What a simple driver does."""
        pedal = max(0.0, min(1.0, 0.5 * (speed - self.speed)))
        return carla.VehicleControl(throttle=pedal)

    def apply(self, control: Any) -> None:
        self.car.apply_control(control)
        self.world.tick()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = StandIn(["--map", "crossing", "--kinematic"])
    yield server.port
    server.stop()


@pytest.fixture
def drive(port: int) -> Drive:
    return Drive(port)


def test_car_that_would_run_the_light_is_stopped_before_the_line(
    drive: Drive, tmp_path: Path
) -> None:
    path = tmp_path / "drive.run.jsonl"
    with GuardedVehicle(drive.world, drive.car, make_guarding(record=path)) as guarded:
        kinds = set()
        while drive.x < 0.0:
            drive.apply(guarded.filter(drive.towards(11.0)))
            assert guarded.decision is not None
            kinds.add(guarded.decision.kind)
            if drive.speed == 0.0 and "stop" in kinds:
                break
    assert {"proceed", "stop"} <= kinds
    assert drive.speed == 0.0
    assert drive.x + 2.4 < -16.0, "its front is before the line"
    lines = [line.content for line in read_record(path)]
    assert replay(path)[1] is None
    done = [each for each in lines if each.get("event") == "carried_out"]
    assert {each["kind"] for each in done} >= {"slow", "stop"}
    assert done[-1]["executed"]["name"] == "control"
    assert any(each.get("obeyed") for each in done)


def test_live_view_shows_road_and_traffic(drive: Drive) -> None:
    with GuardedVehicle(drive.world, drive.car, make_guarding()) as guarded:
        shown = guarded.watching.shown
        assert shown.things() == [], "nothing was seen yet"
        drive.apply(guarded.filter(drive.towards(5.0)))
        ego, *others = shown.things()
        at = guarded.watching.frame()
        assert at.values["speed"] is not None
        assert (ego.kind, ego.heading_deg) == ("ego", pytest.approx(90.0, abs=0.5))
        assert ego.x == pytest.approx(drive.x, abs=1.0)
        lights = [each for each in others if each.kind == "light"]
        assert {each.state for each in lights} == {"red"}
        near = min(lights, key=lambda each: abs(each.y - ego.y) + abs(each.x + 15.0))
        assert -25.0 < near.x < 0.0
    assert {shape.kind for shape in shown.ground()} >= {"lane", "junction"}


def test_in_shadow_mode_nothing_is_held_back(drive: Drive) -> None:
    guarding = make_guarding(f"{POLICY}shadow: true\n")
    with GuardedVehicle(drive.world, drive.car, guarding) as guarded:
        for _ in range(300):
            drive.apply(guarded.filter(drive.towards(11.0)))
    assert guarded.guard.counts["stop"] > 0
    assert drive.x > 0.0


def test_a_car_off_the_road_is_stopped(drive: Drive) -> None:
    with GuardedVehicle(drive.world, drive.car, make_guarding()) as guarded:
        for _ in range(40):
            drive.apply(guarded.filter(drive.towards(8.0)))
        place = drive.car.get_transform()
        place.location.y += 60.0
        drive.car.set_transform(place)
        for _ in range(60):
            drive.apply(guarded.filter(drive.towards(8.0)))
        assert guarded.decision is not None
        assert guarded.decision.kind == "stop"
        assert "is missing" in guarded.decision.reason
    assert drive.speed == 0.0


def test_a_world_that_is_slower_than_we_are_is_not_old(drive: Drive) -> None:
    """A regression: its frames were judged by how far our clock had got meanwhile."""
    policy = POLICY.replace("{slow: 0.3, stop: 0.6}", "{stop: 1.0}")
    with GuardedVehicle(drive.world, drive.car, make_guarding(policy)) as guarded:
        for n in range(60):
            if n % 10 == 5:
                time.sleep(0.3)  # six times as long as a tick is in the world
            drive.apply(guarded.filter(drive.towards(8.0)))
            assert guarded.decision is not None
            assert guarded.decision.kind == "proceed", guarded.decision.reason


def decided(kind: Any, cap_kmh: float | None = None) -> Decision:
    risk = Risk(0.1, 0.9, 1.0)
    return Decision(kind, 0, 0.0, "law", risk, "", (), None, cap_kmh)


def held(drive: Drive, decision: Decision, steps: int) -> list[float]:
    """The speeds of a car whose driver has its foot down, under a decision."""
    actuator = CarlaActuator()
    speeds = [drive.speed]
    for step in range(steps):
        gained = (drive.speed - speeds[-1]) / STEP_S if len(speeds) > 1 else 0.0
        values = {"speed": 3.6 * drive.speed, "acceleration": gained}
        frame = Frame(step * STEP_S, step, values)
        proposal = action_of(carla.VehicleControl(throttle=1.0, steer=0.0))
        action = actuator.carry_out(decision, proposal, frame)
        assert action is not None
        speeds.append(drive.speed)
        drive.apply(control_of(action))
    return speeds


def test_slowing_keeps_the_cap_within_two_tenths_of_a_metre_a_second(
    port: int,
) -> None:
    drive = Drive(port, at_m=20.0)
    for _ in range(70):
        drive.apply(drive.towards(11.0))
    speeds = held(drive, decided("slow", 18.0), 160)
    assert max(speeds) > 9.0
    assert all(abs(speed - 5.0) < 0.2 for speed in speeds[-60:])


def test_a_stop_from_fifty_shows_within_half_a_second(port: int) -> None:
    drive = Drive(port, at_m=10.0)
    while drive.speed < 50.0 / 3.6:
        drive.apply(carla.VehicleControl(throttle=1.0))
    began, speed = drive.x, drive.speed
    speeds = held(drive, decided("stop"), 10)
    actuator = CarlaActuator()
    shown = Frame(0.0, 0, {"speed": 3.6 * speeds[-1], "acceleration": -3.0})
    assert actuator.obeyed(decided("stop"), shown)
    assert speeds[-1] < speeds[0] - 1.0
    while drive.speed > 0.0:
        held(drive, decided("stop"), 5)
    assert drive.x - began < speed * speed / (2.0 * 3.0) + 2.0


def test_a_server_that_dies_leaves_a_stop() -> None:
    server = StandIn(["--map", "crossing", "--kinematic"])
    drive = Drive(server.port)
    drive.client.set_timeout(0.5)
    guarded = GuardedVehicle(drive.world, drive.car, make_guarding())
    for _ in range(10):
        drive.apply(guarded.filter(drive.towards(8.0)))
    server.stop()
    with pytest.raises(RuntimeError):
        drive.world.tick()
    guarded.filter(drive.towards(8.0))  # on the last snapshot that came
    time.sleep(guarded.loop.lease.duration_s)
    control = guarded.filter(carla.VehicleControl(throttle=1.0))
    assert guarded.decision is not None and guarded.decision.kind == "stop"
    assert control.throttle == 0.0 and control.brake > 0.0
    guarded.close()
    # The client library may end the process that still listens to a dead server.


# -- ScenarioRunner and the Leaderboard -----------------------------------------------


class Agent:
    """An agent as the Leaderboard's are, of the published interface."""

    drive: Drive
    destroyed = 0

    def run_step(self, input_data: Any, timestamp: float) -> Any:
        return self.drive.towards(11.0)

    def destroy(self) -> None:
        self.destroyed += 1


class Criterion:
    """A criterion as ScenarioRunner's are, of the published interface."""

    def __init__(
        self, name: str, actor: Any, optional: bool, terminate_on_failure: bool
    ) -> None:
        self.name, self.actor = name, actor
        self.optional, self.terminate_on_failure = optional, terminate_on_failure

    def terminate(self, new_status: Any) -> None:
        pass


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a criterion says, as py_trees names it."""
    module: Any = types.ModuleType("py_trees")
    module.common = types.SimpleNamespace(
        Status=types.SimpleNamespace(RUNNING="RUNNING", FAILURE="FAILURE")
    )
    monkeypatch.setitem(sys.modules, "py_trees", module)


def test_an_agent_is_guarded_and_a_criterion_tells(drive: Drive, trees: None) -> None:
    def find() -> tuple[Any, Any]:
        return drive.world, drive.car

    laws = find_laws("51_5")
    plain, guarded = Agent(), guarded_agent(Agent, make_guarding(), find)()
    assert type(guarded).__name__ == "GuardedAgent"
    plain.drive = guarded.drive = drive
    criterion = law_criterion(Criterion, find)(drive.car, laws, STEP_S)
    statuses = set()
    for step in range(400):
        drive.apply(guarded.run_step({}, step * STEP_S))
        statuses.add(criterion.update())
        if step > 50 and drive.speed == 0.0:
            break
    assert drive.speed == 0.0
    assert statuses == {"RUNNING"}
    assert (criterion.test_status, criterion.actual_value) == ("SUCCESS", 0)
    guarded.destroy()
    assert (guarded.destroyed, guarded.guarded) == (1, None)
    strict = law_criterion(Criterion, find)(
        drive.car, laws, STEP_S, terminate_on_failure=True
    )
    last = ""
    for step in range(200):
        drive.apply(plain.run_step({}, step * STEP_S))
        last = strict.update()
        if last == "FAILURE":
            break
    assert last == "FAILURE"
    assert (strict.test_status, strict.units) == ("FAILURE", "violations")
    assert strict.broken[0][0] == laws[0].name
    strict.terminate("INVALID")


# -- beside a client that somebody else runs ------------------------------------------

DRIVER = (
    PREAMBLE
    + """
settings = world.get_settings()
if sys.argv[2] == "sync":
    synchronous()
kind = world.get_blueprint_library().find("vehicle.tesla.model3")
kind.set_attribute("role_name", "hero")
place = world.get_map().get_waypoint_xodr(56, -1, 120.0).transform
place.location.z = 0.3
car = world.spawn_actor(kind, place)
go_on = (lambda: world.tick()) if sys.argv[2] == "sync" else world.wait_for_tick
go_on()
for light in world.get_actors().filter("traffic.traffic_light*"):
    light.set_state(carla.TrafficLightState.Red)
    light.freeze(True)
print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    for n in range(int(line)):
        v = car.get_velocity()
        speed = (v.x ** 2 + v.y ** 2) ** 0.5
        time.sleep(0.01)
        # A client sends a control only if it differs from its last one.
        pedal = max(0, min(1, 11 - speed)) * (0.99 if n == 0 else 1.0)
        car.apply_control(carla.VehicleControl(throttle=pedal))
        go_on()
    print(json.dumps([car.get_location().x, speed]), flush=True)
"""
)


@pytest.fixture
def driver() -> Iterator[Callable[[int, str], subprocess.Popen[str]]]:
    running: list[subprocess.Popen[str]] = []

    def start(port: int, mode: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(port), mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def told(process: subprocess.Popen[str], steps: int) -> list[float]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    found: list[float] = json.loads(process.stdout.readline())
    return found


@pytest.fixture
def beside(
    driver: Callable[[int, str], subprocess.Popen[str]],
) -> Iterator[Callable[..., tuple[subprocess.Popen[str], subprocess.Popen[str]]]]:
    """A driver on a server, and a command of ours beside it."""
    ours: list[Any] = []

    def start(
        mode: str, *command: str, said: int | TextIO = subprocess.PIPE
    ) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
        server = StandIn(["--map", "crossing", "--kinematic"])
        ours.append(server)
        client = driver(server.port, mode)
        process = subprocess.Popen(
            [sys.executable, "-m", "forewarn.cli", "carla", command[0], "--for", "60",
             *command[1:], "--port", str(server.port), "--json"],
            stdout=said, text=True,
        )  # fmt: skip
        ours.append(process)
        return client, process

    yield start
    for one in ours:
        if isinstance(one, StandIn):
            one.stop()
        else:
            one.kill()
            one.communicate()


def shipped_model() -> str:
    shipped = shipped_with(load_scenario("s2"))
    assert shipped is not None
    return str(shipped.model)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_guard_beside_another_client_stops_its_car(
    mode: str, beside: Any, tmp_path: Path
) -> None:
    policy, record, said = (
        tmp_path / name for name in ("policy", "drive.run.jsonl", "said")
    )
    policy.write_text(POLICY)
    with said.open("w") as out:
        client, guard = beside(
            mode, "guard", "--model", shipped_model(), "--policy", str(policy),
            "--record", str(record), said=out,
        )  # fmt: skip
        while not said.read_text().endswith("}\n"):
            assert guard.poll() is None
            time.sleep(0.1)
    driven = []
    for _ in range(200):
        driven.append(told(client, 5))
        x, speed = driven[-1]
        if x > 0.0 or (speed < 4.0 and -45.0 < x + 2.4 < -16.0):
            break
    guard.terminate()
    assert guard.wait(20) == 0
    told_of = [json.loads(line) for line in said.read_text().splitlines()]
    assert told_of[0]["vehicle"] == "vehicle.tesla.model3"
    assert told_of[-1]["decisions"].get("stop", 0) > 0
    before_line = [speed for x, speed in driven if -45.0 < x + 2.4 < -16.0]
    assert min(before_line) < 4.0, "of the 11 that its driver wants"
    verify = [sys.executable, "-m", "forewarn.cli", "verify", str(record)]
    subprocess.run(verify, check=True, capture_output=True)
    if mode == "async":
        return
    kept = record.read_bytes()
    _, again = beside(
        mode, "guard", "--model", shipped_model(), "--record", str(record)
    )  # fmt: skip
    assert again.wait(20) == 2
    assert record.read_bytes() == kept, "no record is written over another"


def test_a_model_of_something_else_is_refused() -> None:
    arguments = ["carla", "guard", "--model", shipped_model(), "--scenario", "s1"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "it was learned on s2, but the scenario is s1" in done.stderr


@pytest.mark.slow
def test_a_guard_that_hangs_stops_the_car(beside: Any) -> None:
    client, guard = beside("sync", "guard", "--model", shipped_model())
    guard.stdout.readline()
    # Nobody reads what it says any more: it waits for that for ever.
    speeds = [told(client, 10)[1] for _ in range(40)]
    assert max(speeds) > 5.0
    # Its driver's next pedal moves it until the watchdog's next word, and no further.
    assert max(speeds[-6:]) < 1.0, "and it stays so, wherever it was last seen"


@pytest.mark.slow
def test_status_says_that_nothing_is_recorded(beside: Any, tmp_path: Path) -> None:
    out = tmp_path / "drive.jsonl.gz"
    _, recorder = beside("sync", "record", str(out), "--for", "0")
    said, _ = recorder.communicate(timeout=20)
    assert recorder.returncode == 1
    assert json.loads(said) == {"frames": 0, "trace": None} and not out.exists()


@pytest.mark.slow
def test_frames_of_a_car_are_recorded(beside: Any, tmp_path: Path) -> None:
    out = tmp_path / "drive.jsonl.gz"
    client, recorder = beside("sync", "record", str(out))
    for _ in range(100):
        told(client, 10)
        if out.exists():
            break
    told(client, 250)
    recorder.terminate()
    said, _ = recorder.communicate(timeout=20)
    trace = read_trace(out)
    assert json.loads(said)["frames"] == len(trace) > 100
    columns = trace.columns(["speed", "in_junction"])
    assert max(columns["speed"]) > 30.0
    assert any(columns["in_junction"])
