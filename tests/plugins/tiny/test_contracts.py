"""The tiny plugins keep the contracts; and the suites notice plugins that do not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import cycle

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.plugins.actions import Actions
from forewarn.plugins.contracts import Actuator, Pilot, World
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.testing import (
    ActuatorContract,
    LoopContract,
    PilotContract,
    WorldContract,
    loops,
)
from forewarn.plugins.testing import worlds as promises
from forewarn.plugins.tiny import (
    TinyActuator,
    TinyHousehold,
    TinyHouseholdPilot,
    TinyPilot,
    TinyWorld,
)


class TestTinyWorld(WorldContract):
    steps = 300

    def make_world(self) -> World:
        return TinyWorld()

    def actions(self) -> Iterator[Action | None]:
        return cycle([Action("control", {"acceleration": 1.0}), None])


class TestTinyPilot(PilotContract):
    def make_world(self) -> World:
        return TinyWorld()

    def make_pilot(self) -> Pilot:
        return TinyPilot()


class TestTinyActuator(ActuatorContract):
    def make_world(self) -> World:
        return TinyWorld(lead=False, yellow_at_s=30.0)

    def make_pilot(self) -> Pilot:
        return TinyPilot()


class TestTinyHousehold(WorldContract):
    def make_world(self) -> World:
        return TinyHousehold()

    def actions(self) -> Iterator[Action | None]:
        verbs = ("open", "pick", "put", "close", "turn_on", "turn_off")
        things = {"object": "Fork", "receptacle": "Microwave"}
        return cycle(
            [Action(verb, things | {"object": thing})
             for thing in ("Microwave", "Fork", "Spoon") for verb in verbs]
            + [Action("wait"), None]
        )  # fmt: skip


class TestTinyHouseholdPilot(PilotContract):
    def make_world(self) -> World:
        return TinyHousehold()

    def make_pilot(self) -> Pilot:
        return TinyHouseholdPilot()


class TestTinyHouseholdActuator(ActuatorContract):
    def make_world(self) -> World:
        return TinyHousehold(fork_inside=0, clumsiness=0)

    def make_pilot(self) -> Pilot:
        return TinyHouseholdPilot()

    def substitute(self) -> Action:
        return Action("turn_off", {"object": "Microwave"})


# -- the suites themselves ----------------------------------------------------------


class _Forgetful(TinyWorld):
    def _frame(self) -> Frame:
        frame = super()._frame()
        kept = {k: v for k, v in frame.values.items() if k != "speed"}
        return Frame(frame.time_s, frame.sequence, kept)


class _Wild(TinyWorld):
    def reset(self, seed: int) -> Frame:
        return super().reset(int(random.random() * 1e9))


class _Standing(TinyWorld):
    def step(self, action: Action | None) -> Frame:
        frame = super().step(action)
        return Frame(0.0, 0, frame.values)


class _Reusing(TinyWorld):
    kept: dict[str, object] = {}

    def _frame(self) -> Frame:
        frame = super()._frame()
        self.kept.update(frame.values)
        return Frame(frame.time_s, frame.sequence, self.kept)


class _NeverRefusing(TinyWorld):
    def step(self, action: Action | None) -> Frame:
        try:
            return super().step(action)
        except Exception:
            return Frame(0.0, 0, {})


@pytest.mark.parametrize(
    ("world", "test", "message"),
    [
        (_Forgetful, "test_frames_contain_all_declared_signals", promises.CARRIES),
        (_Wild, "test_the_same_seed_gives_the_same_run", promises.SAME_SEED),
        (_Wild, "test_global_random_state_is_unchanged", promises.NO_GLOBAL_LUCK),
        (_Standing, "test_time_increases", promises.GOES_ON),
        (_Reusing, "test_returned_frames_do_not_change", promises.KEEPS_FRAMES),
        (_NeverRefusing, "test_steps_before_reset_are_rejected", promises.NOT_READY),
    ],
)
def test_a_world_that_breaks_its_promises_is_found(
    world: Callable[[], World], test: str, message: str
) -> None:
    suite = TestTinyWorld()
    suite.make_world = world  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=message[:30]):
        getattr(suite, test)()


class _Trusting(TinyActuator):
    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return True


class _Idle(TinyActuator):
    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        return proposal


class _Blocking(TinyActuator):
    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        return self.fallback(frame)


@pytest.mark.parametrize(
    ("actuator", "test", "message"),
    [
        (_Trusting, "test_a_disobeyed_intervention_is_recognized", promises.NOTICES),
        (_Trusting, "test_missing_signals_do_not_count_as_obedience", promises.BLIND),
        (_Idle, "test_an_obeyed_intervention_is_recognized", promises.TELLS),
        (_Blocking, "test_a_permitted_action_passes_unchanged", promises.LET_THROUGH),
    ],
)
def test_an_actuator_that_breaks_its_promises_is_found(
    actuator: Callable[[], Actuator], test: str, message: str
) -> None:
    suite = TestTinyActuator()
    suite.make_actuator = lambda world: actuator()  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=message[:30]):
        getattr(suite, test)()


class _Moody(TinyPilot):
    def reset(self, seed: int) -> None:
        super().reset(int(random.random() * 1e9))


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("test_the_same_seed_gives_the_same_proposals", promises.SAME_SEED),
        ("test_global_random_state_is_unchanged", promises.NO_GLOBAL_LUCK),
    ],
)
def test_a_pilot_that_breaks_its_promises_is_found(test: str, message: str) -> None:
    suite = TestTinyPilot()
    suite.make_pilot = _Moody  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=message[:30]):
        getattr(suite, test)()


# -- the guarded loop, and faults that were there once


class _LiveWorld(TinyWorld):
    def halt(self) -> None:
        """It stands still while nobody steps it."""


class _TinyLoop(LoopContract):
    def make_world(self) -> World:
        return _LiveWorld(lead=False, yellow_at_s=30.0)

    def make_pilot(self) -> Pilot:
        return TinyPilot()


class TestTinyLoop(_TinyLoop):
    pass


class _Poorer(TinyActuator):
    """As one that was made by name, and so knew nothing of its world."""

    can = frozenset({"alert", "stop"})


def _by_name(loop: GuardedLoop, world: World, actuator: object = None) -> None:
    loop.begin(_Poorer(), halt=getattr(world, "halt", None))


def _unwatched(loop: GuardedLoop, world: World, actuator: object = None) -> None:
    loop.begin(world.actuator())


def _silent(loop: GuardedLoop, event: str, **facts: object) -> None:
    """Writes nothing."""


def test_an_actuator_that_knows_nothing_of_its_world_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TinyWorld, "actuator", lambda _: _Poorer())
    with pytest.raises(AssertionError, match=promises.SLOWS):
        TestTinyActuator().test_the_actuator_has_the_capabilities_of_the_world()


@pytest.mark.parametrize(
    ("method", "fault", "test", "message"),
    [
        (
            "equip",
            _unwatched,
            "test_a_hanging_review_halts_the_world",
            promises.WATCHED,
        ),
        ("note", _silent, "test_interventions_are_recorded", promises.TOLD),
    ],
)
def test_a_loop_that_lacks_a_part_is_found(
    method: str,
    fault: Callable[..., None],
    test: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loops, "_HANG_S", 0.3)
    monkeypatch.setattr(GuardedLoop, method, fault)
    with pytest.raises(AssertionError, match=message):
        getattr(_TinyLoop(), test)()


def test_a_loop_with_another_actuator_than_the_world_s_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(GuardedLoop, "equip", _by_name)
    with pytest.raises(AssertionError, match="carried out as decided"):
        _TinyLoop().test_supported_decisions_are_carried_out()


class _Taking(TinyWorld):
    """It takes whatever comes."""

    actions = Actions(*TinyWorld.actions)

    def step(self, action: Action | None) -> Frame:
        known = action if action is None or action.name in self.actions else None
        return super().step(known)


def test_a_world_that_takes_what_it_does_not_know_is_found() -> None:
    suite = TestTinyWorld()
    suite.make_world = _Taking  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=promises.REFUSES):
        suite.test_undeclared_actions_are_rejected()


def test_to_be_stopped_by_what_was_proposed_is_to_be_obeyed() -> None:
    world = TinyHousehold()
    actuator = world.actuator()
    frame = world.reset(1)
    decision = Decision("stop", frame.sequence, frame.time_s)
    stop = actuator.carry_out(decision, actuator.fallback(), frame)
    assert actuator.obeyed(decision, world.step(stop)) is True
