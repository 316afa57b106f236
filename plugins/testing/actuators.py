"""Test suites that check the interfaces of actuators, pilots and baselines."""

from __future__ import annotations

import copy
import json
import math
import random
from contextlib import closing

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import RANK, Action, Decision, Kind, Risk
from forewarn.plugins.actions import CAP
from forewarn.plugins.contracts import Actuator, Baseline, Pilot, World
from forewarn.plugins.testing.worlds import (
    BLIND,
    CAN_STOP,
    CUTS,
    HAS_THRESHOLDS,
    KEEPS_FRAMES,
    LET_THROUGH,
    NO_GLOBAL_LUCK,
    NOTICES,
    NUMBERS,
    PLAIN,
    SAME_SEED,
    SLOWS,
    TELLS,
    same,
)


class ActuatorContract:
    """Tests for actuators, which run in a world with a pilot.

    By default, the actuator of the world is tested. To test another actuator, override
    `make_actuator`.

    Attributes:
        steps: The number of steps before the first intervention.
        ack_s: The time in seconds within which frames must show that the world obeys.
    """

    steps = 3
    ack_s = 2.0

    def make_world(self) -> World:
        raise NotImplementedError

    def make_actuator(self, world: World) -> Actuator:
        """Creates the actuator for the current run of the world."""
        return world.actuator()

    def make_pilot(self) -> Pilot:
        raise NotImplementedError

    def decision(self, kind: Kind, frame: Frame) -> Decision:
        """Creates a decision of a kind with all fields that it needs."""
        return Decision(
            kind,
            frame.sequence,
            frame.time_s,
            law="no harm",
            risk=Risk(0.8, 0.9, 0.95),
            reason="the risk of breaking no harm within 3 s is 0.9",
            cap_kmh=10.0 if kind == "slow" else None,
            action=self.substitute() if kind == "substitute" else None,
        )

    def substitute(self) -> Action | None:
        """Returns a substitute action; required if the actuator can `substitute`."""
        return None

    def _under_way(self, world: World) -> tuple[Pilot, Actuator, Frame]:
        pilot = self.make_pilot()
        frame = world.reset(1)
        pilot.reset(1)
        actuator = self.make_actuator(world)
        for _ in range(self.steps):
            frame = world.step(pilot.propose(frame))
        return pilot, actuator, frame

    def _can(self, world: World) -> list[Kind]:
        """Returns the decisions that the actuator can carry out, the mildest first."""
        _, actuator, _ = self._under_way(world)
        return sorted(actuator.can, key=RANK.__getitem__)

    def test_the_actuator_can_stop(self) -> None:
        with closing(self.make_world()) as world:
            can = self._can(world)
        assert "stop" in can, CAN_STOP
        assert set(can) <= set(RANK), (
            "An actuator lists only kinds of decision in `can`."
        )

    def test_the_actuator_has_the_capabilities_of_the_world(self) -> None:
        with closing(self.make_world()) as world:
            can = self._can(world)
            capped = any(CAP in spec.arguments for spec in world.actions)
            assert not capped or "slow" in can, SLOWS
            assert "cut" not in world.actions or "cut" in can, CUTS

    def test_a_permitted_action_passes_unchanged(self) -> None:
        passing: tuple[Kind, ...] = ("proceed", "alert")
        with closing(self.make_world()) as world:
            pilot, actuator, frame = self._under_way(world)
            proposal = pilot.propose(frame)
            for kind in passing:
                decision = self.decision(kind, frame)
                passed = actuator.carry_out(decision, proposal, frame)
                assert passed == proposal, LET_THROUGH
                assert actuator.carry_out(decision, None, frame) is None, LET_THROUGH

    def test_the_world_accepts_every_action_sent(self) -> None:
        with closing(self.make_world()) as world:
            for kind in self._can(world):
                for proposed in (True, False):
                    pilot, actuator, frame = self._under_way(world)
                    proposal = pilot.propose(frame) if proposed else None
                    decision = self.decision(kind, frame)
                    world.step(actuator.carry_out(decision, proposal, frame))

    def test_the_fallback_works_without_a_frame(self) -> None:
        with closing(self.make_world()) as world:
            _, actuator, frame = self._under_way(world)
            world.step(actuator.fallback(frame))
            if world.ended() is None:
                world.step(actuator.fallback())

    def test_an_obeyed_intervention_is_recognized(self) -> None:
        harder: tuple[Kind, ...] = ("reflect", "skip", "slow", "stop", "cut")
        with closing(self.make_world()) as world:
            can = self._can(world)
            for kind in harder:
                if kind in can:
                    shown = self._shown(world, kind, obeys=True)
                    assert True in shown, f"{TELLS} ({kind})"

    def test_a_disobeyed_intervention_is_recognized(self) -> None:
        with closing(self.make_world()) as world:
            assert not all(self._shown(world, "stop", obeys=False)), NOTICES

    def _shown(self, world: World, kind: Kind, *, obeys: bool) -> list[bool | None]:
        """Returns the results of `obeyed` for each frame until the time limit."""
        pilot, actuator, frame = self._under_way(world)
        decision = self.decision(kind, frame)
        shown: list[bool | None] = []
        for _ in range(max(1, math.ceil(self.ack_s / world.source.period_s))):
            proposal = pilot.propose(frame)
            action = actuator.carry_out(decision, proposal, frame)
            frame = world.step(action if obeys else proposal)
            shown.append(actuator.obeyed(decision, frame))
            if world.ended() is not None:
                break
            decision = self.decision(kind, frame)
        return shown

    def test_missing_signals_do_not_count_as_obedience(self) -> None:
        with closing(self.make_world()) as world:
            pilot, actuator, frame = self._under_way(world)
            decision = self.decision("stop", frame)
            actuator.carry_out(decision, pilot.propose(frame), frame)
            time_s = frame.time_s + world.source.period_s
            blank = Frame(time_s, frame.sequence + 1, {})
            assert actuator.obeyed(decision, blank) is not True, BLIND


class PilotContract:
    """Tests for pilots; override `make_pilot` and `make_world`.

    Attributes:
        steps: The number of steps in a test run.
        deterministic: Whether the proposals depend only on the seed and the frames,
            which an agent with a remote model cannot guarantee.
    """

    steps = 60
    deterministic = True

    def make_pilot(self) -> Pilot:
        raise NotImplementedError

    def make_world(self) -> World:
        raise NotImplementedError

    def _proposals(
        self, pilot: Pilot, seed: int, reflection: str | None = None
    ) -> list[Action]:
        world = self.make_world()
        frame = world.reset(seed)
        pilot.reset(seed)
        proposals: list[Action] = []
        while world.ended() is None and len(proposals) < self.steps:
            was = copy.deepcopy(frame)
            proposals.append(pilot.propose(frame, reflection))
            assert same(frame, was), KEEPS_FRAMES
            frame = world.step(proposals[-1])
        world.close()
        return proposals

    def test_the_pilot_proposes_actions(self) -> None:
        for action in self._proposals(self.make_pilot(), 1):
            assert isinstance(action, Action), "A pilot proposes actions."
            assert action.name, "An action has a name."
            assert json.loads(json.dumps(dict(action.arguments))) == action.arguments, (
                PLAIN
            )

    def test_the_same_seed_gives_the_same_proposals(self) -> None:
        if not self.deterministic:
            return
        pilot = self.make_pilot()
        self._proposals(pilot, 2)  # earlier runs must have no effect
        assert self._proposals(pilot, 3) == self._proposals(self.make_pilot(), 3), (
            SAME_SEED
        )

    def test_global_random_state_is_unchanged(self) -> None:
        before = random.getstate()
        self._proposals(self.make_pilot(), 4)
        assert random.getstate() == before, NO_GLOBAL_LUCK

    def test_the_pilot_can_be_asked_to_reconsider(self) -> None:
        words = "Think again: the rule is at risk."
        assert self._proposals(self.make_pilot(), 5, words), "A pilot proposes actions."


class BaselineContract:
    """Tests for baselines, which run in a world with a pilot.

    Attributes:
        steps: The number of steps in a test run.
    """

    steps = 60

    def make_baseline(self) -> Baseline:
        """Creates the baseline for a law to which it applies."""
        raise NotImplementedError

    def make_world(self) -> World:
        raise NotImplementedError

    def make_pilot(self) -> Pilot:
        raise NotImplementedError

    def _scores(self, baseline: Baseline, seed: int) -> list[float]:
        world, pilot = self.make_world(), self.make_pilot()
        frame = world.reset(seed)
        pilot.reset(seed)
        baseline.reset()
        scores: list[float] = []
        while len(scores) < self.steps:
            was = copy.deepcopy(frame)
            scores.append(baseline.score(frame))
            assert same(frame, was), KEEPS_FRAMES
            if world.ended() is not None:
                break
            frame = world.step(pilot.propose(frame))
        world.close()
        return scores

    def test_thresholds_are_finite_numbers(self) -> None:
        thresholds = list(self.make_baseline().thresholds)
        assert thresholds and all(map(math.isfinite, thresholds)), HAS_THRESHOLDS

    def test_scores_are_numbers(self) -> None:
        for seed in range(3):
            scores = self._scores(self.make_baseline(), seed)
            assert not any(map(math.isnan, scores)), NUMBERS

    def test_a_run_does_not_depend_on_the_previous_run(self) -> None:
        baseline = self.make_baseline()
        self._scores(baseline, 1)
        again = self._scores(baseline, 2)
        assert again == self._scores(self.make_baseline(), 2), SAME_SEED

    def test_global_random_state_is_unchanged(self) -> None:
        before = random.getstate()
        self._scores(self.make_baseline(), 3)
        assert random.getstate() == before, NO_GLOBAL_LUCK
