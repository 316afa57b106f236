"""What is sent to Apollo, by which way, when again, and what counts as obeyed."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import pytest

pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.apollo_bridge import channels
from forewarn.apollo_bridge.act import ApolloActuator, planner_parameters
from forewarn.apollo_bridge.channels import messages
from forewarn.apollo_bridge.commander import Commander, Paths, probe
from forewarn.apollo_bridge.wire import Inbox, NodeBus
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.plugins.actions import CAP
from forewarn.standins.apollo.planner import STOCK, Planner
from forewarn.standins.apollo.server import FakeCyber
from tests.apollo_bridge.doubles import message

STOP = Action("stop")
EPOCH_S = 1_700_000_000.0
PAD = channels.PLANNING_PAD


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Setting:
    """A planner with Apollo's ways, and a commander in front of it."""

    def __init__(
        self,
        services: Any = STOCK,
        edition: Any = 9,
        guardian: bool = False,
        inline: bool = True,
    ) -> None:
        self.clock = Clock()
        self.cyber = FakeCyber()
        self.messages = messages(edition)
        self.apollo_s = lambda: EPOCH_S + self.clock.now_s
        self.planner = Planner(
            self.cyber, self.messages, self.apollo_s, services, guardian=guardian
        )
        self.pads: list[Any] = []
        pad = self.messages[PAD.type]
        self.cyber.read(PAD.name, lambda data: self.pads.append(pad.FromString(data)))
        self.bus = NodeBus(self.cyber)
        wanted = {
            "chassis": channels.CHASSIS,
            "planning": channels.PLANNING,
            **channels.ROUTES[edition],
        }
        self.inbox = Inbox(self.bus, wanted, self.messages, self.clock)
        paths = probe(self.bus, self.messages, guardian=guardian)
        self.commander = Commander(
            self.bus, self.messages, self.inbox, paths, self.clock, inline=inline
        )
        self.tell()

    def tell(self, speed_mps: float = 10.0, lag_s: float = 0.0) -> None:
        """Apollo says how it is."""
        now_s = self.apollo_s() - lag_s
        edition = self.messages.edition
        chassis = message(channels.CHASSIS, now_s, edition, speed_mps=speed_mps)
        planning = message(channels.PLANNING, now_s, edition)
        self.planner.decide(planning)
        for channel, said in (
            (channels.CHASSIS, chassis),
            (channels.PLANNING, planning),
        ):
            self.cyber.publish(channel.name, said.SerializeToString())

    def route(self, target_speed: float | None = None) -> None:
        command = message(channels.COMMAND, self.apollo_s())
        waypoint = command.lane_follow_command.routing_request.waypoint.add()
        waypoint.pose.x, waypoint.pose.y, waypoint.heading = 30.0, -4.0, 1.5
        if target_speed is not None:
            command.target_speed = target_speed
        self.cyber.publish(channels.COMMAND.name, command.SerializeToString())

    def go_on(self, for_s: float, action: Action | None) -> None:
        for _ in range(round(for_s / 0.1)):
            self.clock.now_s += 0.1
            self.tell()
            self.commander.want(action)

    @property
    def actions(self) -> list[int]:
        return [pad.action for pad in self.pads]


class TestProbe:
    def test_which_ways_there_are_depends_on_the_services(self) -> None:
        assert Setting().commander.paths == Paths(
            "action service", "lane-follow service"
        )
        assert Setting(()).commander.paths == Paths("planning pad", None)
        assert Setting(edition=8).commander.paths == Paths("planning pad", None)
        assert Setting((), guardian=True).commander.paths.cut == "guardian"

    def test_the_ways_are_said(self) -> None:
        assert Paths().sentence() == (
            "stop by the planning pad, slow by nothing (it escalates to stop)"
        )
        paths = Paths("action service", "lane-follow service", "guardian")
        assert paths.sentence() == (
            "stop by the action service, slow by lane-follow service, "
            "cut by the guardian"
        )


class TestStop:
    @pytest.mark.parametrize("edition", [8, 9])
    def test_by_the_pad_each_time_with_a_new_header(self, edition: Any) -> None:
        setting = Setting((), edition)
        setting.go_on(2.0, STOP)
        assert setting.planner.stops
        assert setting.actions == [4, 4, 4, 4]
        headers = [pad.header.SerializeToString() for pad in setting.pads]
        assert len(set(headers)) == len(headers)
        stamps = [pad.header.timestamp_sec for pad in setting.pads]
        assert stamps == sorted(stamps) and stamps[0] == pytest.approx(EPOCH_S + 0.1)
        setting.go_on(2.0, None)
        assert not setting.planner.stops
        assert setting.actions[4:] == [5], "released once it shows that it resumed"

    def test_a_pad_with_the_same_header_is_not_noticed(self) -> None:
        setting = Setting(())
        for action in (4, 5):
            same = message(PAD, 7.0, action=action)
            setting.cyber.publish(PAD.name, same.SerializeToString())
        assert setting.planner.stops

    def test_by_the_service_where_there_is_one(self) -> None:
        setting = Setting()
        setting.go_on(2.0, STOP)
        assert setting.planner.stops
        assert {p.header.module_name for p in setting.pads} == {"external_command"}
        setting.go_on(2.0, None)
        assert not setting.planner.stops

    def test_a_service_that_drops_late_requests_is_gone_around(self) -> None:
        setting = Setting()
        # Apollo's clock has jumped; nothing that shows it has come yet.
        setting.clock.now_s += 0.1
        setting.commander.want(STOP)
        setting.planner.pad_action = 100
        setting.planner._clock = lambda: setting.apollo_s() + 50.0
        setting.go_on(0.9, STOP)
        assert setting.planner.dropped >= 1 and not setting.planner.stops
        assert setting.commander.answers()[channels.ACTION_SERVICE.name][1] >= 1
        setting.go_on(0.6, STOP)
        assert setting.planner.stops, "the pad, after a second without effect"
        setting.go_on(1.5, None)
        assert not setting.planner.stops

    def test_a_service_that_hangs_holds_nothing_up(self) -> None:
        setting = Setting(inline=False)
        gate = threading.Event()
        setting.cyber.serve(
            channels.ACTION_SERVICE.name, lambda _: None if gate.wait(20) else None
        )
        began_s = time.monotonic()
        setting.go_on(2.0, STOP)
        assert time.monotonic() - began_s < 10
        assert setting.planner.stops, "by the pad"
        gate.set()
        setting.commander.close()

    def test_releasing_ends_so_that_others_may_stop_the_car(self) -> None:
        setting = Setting(())
        setting.go_on(1.0, STOP)
        # Planning is stuck and shows the stop for ever.
        setting.cyber._readers[PAD.name].pop(0)
        setting.go_on(10.0, None)
        assert setting.actions.count(5) == 3

    def test_commands_of_others_are_not_released(self) -> None:
        setting = Setting(())
        by_hand = message(PAD, 3.0, action="STOP")
        setting.cyber.publish(PAD.name, by_hand.SerializeToString())
        setting.go_on(2.0, None)
        assert setting.planner.stops

    def test_stop_goes_on_from_where_a_late_release_was(self) -> None:
        setting = Setting(())
        setting.go_on(1.0, STOP)
        setting.go_on(0.1, None)
        setting.go_on(0.1, STOP)
        assert setting.planner.stops


class TestSlow:
    def test_by_the_route_at_another_speed(self) -> None:
        setting = Setting()
        setting.route(target_speed=11.0)
        setting.go_on(3.0, Action("drive", {CAP: 18.0}))
        assert setting.planner.cap == pytest.approx(5.0)
        assert setting.planner.routes == 1, "each request plans the route anew"
        setting.go_on(3.0, None)
        assert setting.planner.cap == 11.0
        assert setting.planner.routes == 2

    def test_a_route_without_a_speed_gets_the_planner_s_own_back(self) -> None:
        setting = Setting()
        setting.route()
        setting.go_on(0.2, Action("drive", {CAP: 18.0}))
        setting.go_on(0.2, None)
        assert setting.planner.cap == math.inf

    def test_speed_cap_is_requested_once_a_route_is_known(self) -> None:
        setting = Setting()
        setting.go_on(1.0, Action("drive", {CAP: 18.0}))
        assert setting.planner.cap == math.inf
        setting.route(11.0)
        setting.go_on(0.6, Action("drive", {CAP: 18.0}))
        assert setting.planner.cap == pytest.approx(5.0)
        setting.go_on(0.6, None)
        assert setting.planner.cap == 11.0

    def test_a_request_without_an_answer_is_made_again(self) -> None:
        setting = Setting()
        setting.route(11.0)
        real = setting.cyber._services[channels.LANE_FOLLOW_SERVICE.name]
        setting.cyber.withdraw(channels.LANE_FOLLOW_SERVICE.name)
        setting.go_on(0.3, Action("drive", {CAP: 18.0}))
        assert setting.planner.cap == math.inf
        setting.cyber.serve(channels.LANE_FOLLOW_SERVICE.name, real)
        setting.go_on(0.6, Action("drive", {CAP: 18.0}))
        assert setting.planner.cap == pytest.approx(5.0)

    def test_stopping_and_slowing_are_both_taken_back(self) -> None:
        setting = Setting()
        setting.route()
        setting.go_on(1.0, Action("drive", {CAP: 18.0}))
        setting.go_on(1.0, STOP)
        assert setting.planner.stops
        setting.go_on(1.0, None)
        assert not setting.planner.stops and setting.planner.cap == math.inf


def test_a_stop_is_also_sent_to_the_guardian() -> None:
    setting = Setting((), guardian=True)
    setting.go_on(0.5, Action("cut"))
    assert setting.planner.stops and setting.planner.braked
    with pytest.raises(InvalidInput, match="no action 'cut'"):
        Setting(()).go_on(0.5, Action("cut"))


def test_an_unknown_action_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="no action 'fly'"):
        Setting().commander.want(Action("fly"))


def decision(kind: Any, cap_kmh: float | None = None) -> Decision:
    return Decision(kind, 0, 0.0, cap_kmh=cap_kmh)


class TestObeyed:
    @pytest.mark.parametrize(
        ("speed", "acceleration", "means_to", "obeyed"),
        [
            (0.2, 0.0, None, True),
            (30.0, -2.0, None, True),
            (30.0, 0.0, None, False),
            (30.0, -0.2, True, True),
            (30.0, 0.1, True, False),
            (30.0, -0.2, False, False),
        ],
    )
    def test_a_stop_shows_in_the_chassis(
        self, speed: float, acceleration: float, means_to: bool | None, obeyed: bool
    ) -> None:
        actuator = ApolloActuator(Paths(), emergency_stop=lambda: means_to)
        values = {"speed": speed, "acceleration": acceleration}
        assert actuator.obeyed(decision("stop"), Frame(1.0, 1, values)) is obeyed

    def test_slower_shows_too(self) -> None:
        actuator = ApolloActuator(Paths())
        slow = decision("slow", 20.0)
        for speed, acceleration, obeyed in (
            (20.5, 0.0, True),
            (30.0, -1.0, True),
            (30.0, 0.0, False),
        ):
            values = {"speed": speed, "acceleration": acceleration}
            assert actuator.obeyed(slow, Frame(1.0, 1, values)) is obeyed

    def test_silence_is_not_obedience(self) -> None:
        assert (
            ApolloActuator(Paths()).obeyed(decision("stop"), Frame(1.0, 1, {})) is None
        )

    def test_what_it_can_follows_from_the_ways(self) -> None:
        assert ApolloActuator(Paths()).can == {"alert", "stop"}
        ways = Paths("action service", "lane-follow service", "guardian")
        assert ApolloActuator(ways).can == {"alert", "slow", "stop", "cut"}


class TestTelemetry:
    def test_planning_shows_that_it_stops(self) -> None:
        setting = Setting(())
        assert setting.commander.telemetry.emergency_stop is False
        setting.go_on(0.3, STOP)
        assert setting.commander.telemetry.emergency_stop is True
        setting.clock.now_s += 5.0
        assert setting.commander.telemetry.emergency_stop is None, "it is stale"


def test_interventions_become_planner_parameters() -> None:
    slow = planner_parameters(Action("drive", {CAP: 18.0}))
    assert slow == {
        "preference:Max_planning_speed": 5.0,
        "preference:Default_cruise_speed": 5.0,
    }
    assert planner_parameters(STOP)["scenario:emergency_stop"] == 1.0
    assert planner_parameters(None) == {}
