"""Apollo as a world: the contracts, and what only a live one does."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from forewarn.apollo_bridge import frames

pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")
pytest.importorskip("libsumo", reason="libsumo is not installed")

from forewarn import scenarios
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.apollo_bridge import channels
from forewarn.apollo_bridge.bridge import ApolloPilot, ApolloWorld, BusWorld
from forewarn.apollo_bridge.tcp import TcpBus, connect, parse_address
from forewarn.apollo_bridge.wire import NoCyber, NodeBus
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.plugins.actions import CAP
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.testing import ActuatorContract
from forewarn.scenarios.running import runner
from forewarn.scenarios.schema import NamedPlugin, load_scenario
from forewarn.standins.apollo.server import BridgeServer, FakeCyber
from tests.apollo_bridge.doubles import eventually, message
from tests.apollo_bridge.played import inside, outside, road_map

SCENARIO = "s2"


class TestActuator(ActuatorContract):
    ack_s = 3.0

    def make_world(self) -> Any:
        return inside(SCENARIO, 3)

    def make_pilot(self) -> Any:
        return ApolloPilot()


class TestActuatorOfApollo8(TestActuator):
    """By the pad alone."""

    def make_world(self) -> Any:
        return inside(SCENARIO, 3, edition=8)


def test_a_stop_holds_until_it_is_released() -> None:
    with closing(inside(SCENARIO, 3)) as world:
        frame = world.reset(3)
        began = frame.values["speed"]
        for _ in range(60):
            frame = world.step(Action("stop"))
        assert began > 20 and frame.values["speed"] < 0.5
        assert world.actuator().can == {"alert", "slow", "stop"}
        assert world.commander.telemetry.emergency_stop is True
        for _ in range(30):
            frame = world.step(None)
        assert frame.values["speed"] > 5
        assert world.commander.telemetry.emergency_stop is False


def test_a_scenario_on_apollo_slows_it_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `forewarn run` does it, with the actuator that the world gives."""
    wanted = load_scenario(SCENARIO).driven_by(NamedPlugin(name="apollo"))
    model = load_model(Path(scenarios.__file__).parent / "trained" / "s2.model.json.gz")
    policy = Policy(rules={"*": (Step("slow", 0.0),)}, slow_cap_kmh=20.0)
    guarding = Guarding([model], policy, laws=wanted.references)
    monkeypatch.setattr(runner, "make_world", lambda *_: inside(SCENARIO, 3))
    episode = runner.Runner(wanted, guarding).run(3)
    assert not episode.error and episode.interventions
    assert episode.interventions[0].kind == "slow"
    assert not any(done.because for done in episode.interventions)


def test_slowing_sends_the_route_with_a_lower_speed() -> None:
    with closing(inside(SCENARIO, 3)) as world:
        frame = world.reset(3)
        for _ in range(60):
            frame = world.step(Action("drive", {CAP: 15.0}))
        assert 1 < frame.values["speed"] <= 15.5
        assert world.commander.sent == {channels.LANE_FOLLOW_SERVICE.name: 1}


def test_over_cyberbridge_a_stop_is_a_pad_message() -> None:
    with outside(SCENARIO, 3) as world:
        frame = world.reset(3)
        assert world.actuator().can == {"alert", "stop"}
        for _ in range(60):
            frame = world.step(Action("stop"))
        assert frame.values["speed"] < 0.5
        assert set(world.commander.sent) == {channels.PLANNING_PAD.name}


def test_ages_are_measured_from_the_inputs() -> None:
    with closing(inside(SCENARIO, 3)) as world:
        frame = world.reset(3)
        assert {n for n in frame.values if n[:-4] in channels.INPUTS} == {
            f"{name}_age" for name in channels.INPUTS
        }
        assert frame.values["lights_age"] == 0.0


class Live:
    """A cyber on which the test speaks for Apollo."""

    def __init__(
        self, cyber: FakeCyber | None = None, bus: Any = None, **settings: Any
    ) -> None:
        self.cyber = cyber or FakeCyber()
        settings = {"road_map": road_map("crossing"), **settings}
        self.world = BusWorld(lambda: bus or NodeBus(self.cyber), **settings)

    def say(self, time_s: float, *names: str, **chassis: Any) -> None:
        for name in names or channels.INPUTS:
            channel = channels.INPUTS[name]
            content: dict[str, Any] = {}
            if name == "chassis":
                content = {"speed_mps": 5.0, **chassis}
            elif name == "localization":
                content = {"pose": {"position": {"x": 1.0, "y": 2.0}}}
            said = message(channel, time_s, **content)
            self.cyber.publish(channel.name, said.SerializeToString())

    def begin(self, time_s: float = 100.0) -> Any:
        self.world._listen()
        self.say(time_s)
        return self.world.reset(0)


class TestLive:
    def test_nothing_comes(self) -> None:
        live = Live(wait_s=0.05)
        with (
            closing(live.world),
            pytest.raises(
                InvalidInput,
                match="no message arrived on /apollo/localization/pose.*edition",
            ),
        ):
            live.world.reset(0)

    def test_one_input_does_not_come(self) -> None:
        live = Live(wait_s=0.05)
        live.world._listen()
        live.say(1.0, "localization", "chassis", "planning", "lights", "obstacles")
        with (
            closing(live.world),
            pytest.raises(InvalidInput, match=r"/apollo/prediction.*--without"),
        ):
            live.world.reset(0)

    def test_it_is_done_without(self) -> None:
        live = Live(wait_s=0.05, without=("prediction",))
        live.world._listen()
        live.say(1.0, "localization", "chassis", "planning", "lights", "obstacles")
        with closing(live.world) as world:
            frame = world.reset(0)
            assert "prediction_age" not in world.source.provides
            assert set(world.source.provides) - set(frame.values) <= {
                "brake", "throttle", "gear", "acceleration", "braking", "time_of_day"
            }  # fmt: skip

    @pytest.mark.parametrize("name", ["chassis", "localization", "predicton"])
    def test_what_cannot_be_done_without(self, name: str) -> None:
        with pytest.raises(InvalidInput, match="not an optional input"):
            Live(without=(name,))

    def test_frames_follow_apollo_s_clock(self) -> None:
        live = Live()
        with closing(live.world) as world:
            assert live.begin(100.0).time_s == 0.0
            live.say(100.04)
            live.say(100.1)
            frame = world.step(None)
            assert (frame.time_s, frame.sequence) == (0.1, 1)
            live.say(100.45)  # some were lost
            assert world.step(None).time_s == pytest.approx(0.45)
            live.say(100.5)
            assert world.step(None).time_s == pytest.approx(0.5)

    def test_silence_shows_in_the_ages(self) -> None:
        live = Live()
        with closing(live.world) as world:
            live.begin()
            ages = [world.step(None).values["chassis_age"] for _ in range(3)]
            assert ages == sorted(ages) and ages[-1] > 0.5
            times = world.step(None).time_s
            assert times > 0.8

    def test_one_silent_input_shows_in_its_age(self) -> None:
        live = Live()
        with closing(live.world) as world:
            live.begin(100.0)
            live.say(101.0, "localization", "chassis")
            values = world.step(None).values
            assert values["lights_age"] == pytest.approx(1.0, abs=0.2)
            assert values["chassis_age"] < 0.2

    def test_a_clock_that_goes_back_ends_it(self) -> None:
        live = Live()
        with closing(live.world) as world:
            live.begin(100.0)
            live.say(50.0)
            world.step(None)
            assert world.ended() == "Apollo's clock went back"

    def test_a_message_that_cannot_be_leaves_its_signals_out(self) -> None:
        live = Live()
        with closing(live.world) as world:
            live.begin(100.0)
            live.say(100.1, speed_mps=float("nan"))
            assert "speed" not in world.step(None).values

    def test_frames_carry_only_what_was_promised(self) -> None:
        live = Live()
        with closing(live.world) as world:
            live.begin(100.0)
            live.say(100.1, chassis_gps={"gps_valid": True, "hours": 3})
            assert set(world.step(None).values) <= set(world.source.provides)

    def test_messages_without_a_stamp_are_timed_as_they_come(self) -> None:
        live = Live()
        with closing(live.world) as world:
            live.begin(0.0)
            live.say(0.0)
            frame = world.step(None)
            assert frame.values["chassis_age"] < 0.5

    def test_waiting_ends_when_the_message_comes(self) -> None:
        live = Live(period_s=1.0)
        with closing(live.world) as world:
            live.begin(100.0)
            later = threading.Timer(0.05, live.say, (101.0,))
            later.start()
            assert world.step(None).time_s == 1.0
            later.join()


def test_ages_grow_while_the_bridge_is_down() -> None:
    cyber = FakeCyber()
    first = BridgeServer(cyber, frames, port=0)
    bus = TcpBus("127.0.0.1", first.port)
    live = Live(cyber, bus)
    with closing(live.world) as world:
        world._listen()
        # What is said before the bridge has heard who listens is not passed on.
        said = threading.Event()

        def speak() -> None:
            time_s = 100.0
            while not said.wait(0.02):
                live.say(time_s)
                time_s += 0.02

        speaking = threading.Thread(target=speak)
        speaking.start()
        try:
            world.reset(0)
            assert world.step(None).values["chassis_age"] < 0.3
            first.close()
            worst = max(world.step(None).values["chassis_age"] for _ in range(4))
            assert worst > 0.5 and bus.health.losses == 1
            with closing(BridgeServer(cyber, frames, port=first.port)):
                assert eventually(lambda: world.step(None).values["chassis_age"] < 0.3)
        finally:
            said.set()
            speaking.join()


def test_broken_messages_give_invalid_frames() -> None:
    dice = random.Random(5)
    with closing(inside(SCENARIO, 3)) as world:
        world.reset(3)
        for _ in range(20):
            world.step(None)
        cyber = world._stand_in._cyber
        cruising: Any = Cruising()
        said = list(world._stand_in.drive.says(world._stand_in.now_s, cruising))
        vocabulary, whole = load_vocabulary("driving"), 0
        for _ in range(400):
            channel, sent = said[dice.randrange(len(said))]
            data = bytearray(sent.SerializeToString())
            for _ in range(dice.randrange(1, 6)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            cyber.publish(channel.name, bytes(data[: dice.randrange(1, len(data) + 1)]))
            world._now_s += 0.1
            frame = world._frame()
            whole += "lead_distance" in frame.values
            assert all(vocabulary.knows(name) for name in frame.values)
            cyber.publish(channel.name, sent.SerializeToString())
        assert 0 < whole < 400


class Cruising:
    """What planning says when nothing is commanded."""

    def decide(self, planning: Any) -> None:
        planning.decision.main_decision.cruise.SetInParent()


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("tcp://127.0.0.1:9090", ("127.0.0.1", 9090)),
        ("tcp://apollo", ("apollo", 9090)),
        ("tcp://[::1]:7000", ("::1", 7000)),
        ("tcp://[::1]", ("::1", 9090)),
    ],
)
def test_addresses_are_parsed(address: str, place: tuple[str, int]) -> None:
    assert parse_address(address) == place


@pytest.mark.parametrize(
    "address", ["127.0.0.1:9090", "udp://a:1", "tcp://", "tcp://a:b", "tcp://a:70000"]
)
def test_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(InvalidInput, match="not a valid address of cyber_bridge"):
        ApolloWorld(bridge=address, map="maps")


def test_each_connection_to_apollo_is_chosen_by_its_address() -> None:
    with closing(connect("tcp://127.0.0.1:1")) as bus:
        assert isinstance(bus, TcpBus)
    with pytest.raises(NoCyber):
        connect("node")
