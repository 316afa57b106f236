"""Contract suites: what every world, pilot and actuator is held to.

Anyone's plug can run them. In a test file, for pytest:

    class TestMyWorld(WorldContract):
        def make_world(self):
            return MyWorld()

Nothing here imports pytest; the suites are classes with test methods. Messages are
sentences that say what was promised.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator

from forewarn.abstractions.errors import ForewarnError, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabulary import load_vocabulary
from forewarn.monitors.guarding.decision import RANK, Action, Decision, Kind, Risk
from forewarn.plugins.contracts import Actuator, Baseline, Foresight, Pilot, World
from forewarn.plugins.scenery import Scenic

SAME_SEED = "The same seed gives the same episode."
CARRIES = "Every frame carries what the source says it provides."
GOES_ON = "Sequence numbers and times only grow."
PERIOD = "An embedded world's frames are one period apart."
ENDS = "Once an episode is over it stays over, and says why in words."
NOT_READY = "A world that was not reset, or was closed, refuses to step."
FORESEES = "Foreseeing an action says the same twice, and changes nothing."
KEEPS_FRAMES = "A frame that was given out does not change any more."
DRAWN = "A picture has finite numbers, a name for each thing and at most one ego."
LOOKED_AT = "Looking at a world changes nothing in it."
NO_GLOBAL_LUCK = "Randomness comes from the seed, not from the global generator."
PLAIN = "An action's arguments can be written as JSON."
LET_THROUGH = "Under proceed and alert the proposal is carried out as it is."
CAN_STOP = "Every actuator can stop."
TELLS = "What was carried out shows in the frames in time."
NOTICES = "A world that goes on as it likes is not taken to have obeyed."
NUMBERS = "A score is a number, and more is worse."
HAS_THRESHOLDS = "A baseline says from which scores on it would alarm."
BLIND = "Without signals nothing is taken to have been obeyed."


def same(one: Frame, other: Frame) -> bool:
    """Whether two frames say the same."""
    return (one.time_s, one.sequence, dict(one.values)) == (
        other.time_s,
        other.sequence,
        dict(other.values),
    )


class WorldContract:
    """What every world promises. `make_world` gives a fresh one.

    Attributes:
        steps: How long the suite follows an episode.
    """

    steps = 60

    def make_world(self) -> World:
        raise NotImplementedError

    def actions(self) -> Iterator[Action | None]:
        """What is carried out in the episodes; None is no action."""
        while True:
            yield None

    def _episode(self, world: World, seed: int) -> Iterator[Frame]:
        yield world.reset(seed)
        for _, action in zip(range(self.steps), self.actions(), strict=False):
            if world.ended() is not None:
                return
            yield world.step(action)

    def test_says_what_it_is(self) -> None:
        world = self.make_world()
        source = world.source
        vocabulary = load_vocabulary(source.vocabulary)
        assert source.name, "A world has a name."
        assert source.period_s > 0, "The period is a positive time."
        assert len(set(source.provides)) == len(source.provides) > 0, CARRIES
        unknown = [key for key in source.provides if not vocabulary.knows(key)]
        assert unknown == [], "What a source provides is in its vocabulary."
        world.close()

    def test_frames_carry_what_was_promised(self) -> None:
        world = self.make_world()
        vocabulary = load_vocabulary(world.source.vocabulary)
        for frame in self._episode(world, 1):
            missing = [key for key in world.source.provides if key not in frame.values]
            assert missing == [], CARRIES
            for key, value in frame.values.items():
                try:
                    vocabulary.check_value(key, value)
                except SignalFault as fault:
                    raise AssertionError(f"{CARRIES} ({fault})") from fault
        world.close()

    def test_time_goes_on(self) -> None:
        world = self.make_world()
        before: Frame | None = None
        for frame in self._episode(world, 2):
            assert math.isfinite(frame.time_s), GOES_ON
            if before is not None:
                assert frame.sequence > before.sequence, GOES_ON
                assert frame.time_s > before.time_s, GOES_ON
                if world.source.embedded:
                    passed_s = frame.time_s - before.time_s
                    assert abs(passed_s - world.source.period_s) < 1e-6, PERIOD
            before = frame
        world.close()

    def test_the_same_seed_gives_the_same_episode(self) -> None:
        world, other = self.make_world(), self.make_world()
        if world.source.embedded:
            list(self._episode(world, 3))  # what came before must not matter
            pairs = zip(self._episode(world, 4), self._episode(other, 4), strict=True)
            assert all(same(one, two) for one, two in pairs), SAME_SEED
        world.close()
        other.close()

    def test_foreseeing_changes_nothing(self) -> None:
        world, other = self.make_world(), self.make_world()
        if isinstance(world, Foresight) and world.source.embedded:
            foreseeing = self._foreseeing(world, 6)
            pairs = zip(foreseeing, self._episode(other, 6), strict=True)
            assert all(same(one, two) for one, two in pairs), FORESEES
        world.close()
        other.close()

    def _foreseeing(self, world: World, seed: int) -> Iterator[Frame]:
        """An episode in which each action is foreseen, twice, before it is done."""
        assert isinstance(world, Foresight)
        frame = world.reset(seed)
        yield frame
        for _, action in zip(range(self.steps), self.actions(), strict=False):
            if world.ended() is not None:
                return
            if action is not None:
                ahead = world.foresee(action)
                assert same(ahead, world.foresee(action)), FORESEES
                assert ahead.sequence > frame.sequence, FORESEES
                missing = [n for n in world.source.provides if n not in ahead.values]
                assert missing == [], CARRIES
            frame = world.step(action)
            yield frame

    def test_global_randomness_is_left_alone(self) -> None:
        world = self.make_world()
        before = random.getstate()
        list(self._episode(world, 5))
        assert random.getstate() == before, NO_GLOBAL_LUCK
        world.close()

    def test_frames_given_out_do_not_change(self) -> None:
        world = self.make_world()
        kept = [(frame, copy.deepcopy(frame)) for frame in self._episode(world, 6)]
        assert all(same(frame, was) for frame, was in kept), KEEPS_FRAMES
        world.close()

    def test_what_can_be_drawn_is_drawn(self) -> None:
        world, other = self.make_world(), self.make_world()
        if isinstance(world, Scenic) and isinstance(other, Scenic):
            unseen = list(self._episode(world, 9))
            for frame, before in zip(self._episode(other, 9), unseen, strict=True):
                if before is unseen[0]:
                    assert all(
                        math.isfinite(number)
                        for shape in other.ground()
                        for point in shape.points
                        for number in (*point, shape.width_m)
                    ), DRAWN
                things = other.scene()
                names = {thing.name for thing in things}
                assert len(names) == len(things), DRAWN
                assert sum(thing.kind == "ego" for thing in things) <= 1, DRAWN
                for thing in things:
                    place = thing.x, thing.y, thing.heading_deg, thing.top_m
                    assert all(map(math.isfinite, place)), DRAWN
                    assert thing.length_m >= 0 and thing.width_m >= 0, DRAWN
                if world.source.embedded:
                    assert same(frame, before), LOOKED_AT
        world.close()
        other.close()

    def test_an_episode_that_is_over_stays_over(self) -> None:
        world = self.make_world()
        for _ in self._episode(world, 7):
            pass
        why = world.ended()
        assert why is None or (isinstance(why, str) and why.strip()), ENDS
        assert world.ended() == why, ENDS
        world.close()
        world.close()

    def test_it_steps_only_when_ready(self) -> None:
        world = self.make_world()
        assert _refuses(world), NOT_READY
        world.reset(8)
        world.close()
        assert _refuses(world), NOT_READY


def _refuses(world: World) -> bool:
    try:
        world.step(None)
    except ForewarnError:
        return True
    return False


class PilotContract:
    """What every pilot promises. `make_pilot`, and a world for it to act in.

    Attributes:
        steps: How long the suite follows an episode.
        deterministic: Whether its proposals follow from the seed. An agent behind a
            remote model cannot promise that.
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

    def test_it_proposes_actions(self) -> None:
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
        self._proposals(pilot, 2)  # what came before must not matter
        assert self._proposals(pilot, 3) == self._proposals(self.make_pilot(), 3), (
            SAME_SEED
        )

    def test_global_randomness_is_left_alone(self) -> None:
        before = random.getstate()
        self._proposals(self.make_pilot(), 4)
        assert random.getstate() == before, NO_GLOBAL_LUCK

    def test_it_can_be_asked_to_think_again(self) -> None:
        words = "Think again: the rule is at risk."
        assert self._proposals(self.make_pilot(), 5, words), "A pilot proposes actions."


class ActuatorContract:
    """What every actuator promises, in a world with a pilot that goes on.

    Attributes:
        steps: How far the pilot drives before the suite intervenes.
        ack_s: How long the world may take to show that it obeyed.
    """

    steps = 3
    ack_s = 2.0

    def make_actuator(self) -> Actuator:
        raise NotImplementedError

    def make_world(self) -> World:
        raise NotImplementedError

    def make_pilot(self) -> Pilot:
        raise NotImplementedError

    def decision(self, kind: Kind, frame: Frame) -> Decision:
        """A decision of that kind, with everything that one of it carries."""
        return Decision(
            kind,
            frame.sequence,
            frame.time_s,
            law="no harm",
            risk=Risk(0.8, 0.9, 0.95),
            reason="no harm is at risk of 0.9 within 3 s",
            cap_kmh=10.0 if kind == "slow" else None,
            action=self.substitute() if kind == "substitute" else None,
        )

    def substitute(self) -> Action | None:
        """An action that can stand in for another; needed if it can `substitute`."""
        return None

    def _under_way(self) -> tuple[World, Pilot, Frame]:
        world, pilot = self.make_world(), self.make_pilot()
        frame = world.reset(1)
        pilot.reset(1)
        for _ in range(self.steps):
            frame = world.step(pilot.propose(frame))
        return world, pilot, frame

    def test_it_can_stop(self) -> None:
        can = self.make_actuator().can
        assert "stop" in can, CAN_STOP
        assert can <= set(RANK), "What an actuator can is a kind of decision."

    def test_it_lets_pass_what_may_pass(self) -> None:
        actuator = self.make_actuator()
        world, pilot, frame = self._under_way()
        proposal = pilot.propose(frame)
        passing: tuple[Kind, ...] = ("proceed", "alert")
        for kind in passing:
            decision = self.decision(kind, frame)
            assert actuator.carry_out(decision, proposal) == proposal, LET_THROUGH
            assert actuator.carry_out(decision, None) is None, LET_THROUGH
        world.close()

    def test_the_world_takes_all_that_it_sends(self) -> None:
        for kind in sorted(self.make_actuator().can, key=RANK.__getitem__):
            for proposed in (True, False):
                actuator = self.make_actuator()
                world, pilot, frame = self._under_way()
                proposal = pilot.propose(frame) if proposed else None
                world.step(actuator.carry_out(self.decision(kind, frame), proposal))
                world.close()

    def test_the_fallback_needs_nothing(self) -> None:
        world, _, _ = self._under_way()
        world.step(self.make_actuator().fallback())
        world.close()

    def test_what_was_done_shows(self) -> None:
        harder: tuple[Kind, ...] = ("reflect", "skip", "slow", "stop", "cut")
        for kind in harder:
            if kind in self.make_actuator().can:
                assert True in self._shown(kind, obeys=True), f"{TELLS} ({kind})"

    def test_what_was_not_done_shows_too(self) -> None:
        assert not all(self._shown("stop", obeys=False)), NOTICES

    def _shown(self, kind: Kind, *, obeys: bool) -> list[bool | None]:
        """What the actuator says of each frame until the world must have obeyed."""
        actuator = self.make_actuator()
        world, pilot, frame = self._under_way()
        decision = self.decision(kind, frame)
        shown: list[bool | None] = []
        for _ in range(max(1, math.ceil(self.ack_s / world.source.period_s))):
            proposal = pilot.propose(frame)
            action = actuator.carry_out(decision, proposal)
            frame = world.step(action if obeys else proposal)
            shown.append(actuator.obeyed(decision, frame))
            if world.ended() is not None:
                break
            decision = self.decision(kind, frame)
        world.close()
        return shown

    def test_it_does_not_take_silence_for_obedience(self) -> None:
        actuator = self.make_actuator()
        world, pilot, frame = self._under_way()
        decision = self.decision("stop", frame)
        actuator.carry_out(decision, pilot.propose(frame))
        time_s = frame.time_s + world.source.period_s
        blank = Frame(time_s, frame.sequence + 1, {})
        assert actuator.obeyed(decision, blank) is not True, BLIND
        world.close()


class BaselineContract:
    """What every baseline promises, watching a pilot in a world.

    Attributes:
        steps: How long the suite follows an episode.
    """

    steps = 60

    def make_baseline(self) -> Baseline:
        """One for a law that it can judge, and for the world's source."""
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

    def test_it_says_when_it_alarms(self) -> None:
        thresholds = list(self.make_baseline().thresholds)
        assert thresholds and all(map(math.isfinite, thresholds)), HAS_THRESHOLDS

    def test_its_scores_are_numbers(self) -> None:
        for seed in range(3):
            scores = self._scores(self.make_baseline(), seed)
            assert not any(map(math.isnan, scores)), NUMBERS

    def test_an_episode_does_not_depend_on_the_one_before(self) -> None:
        baseline = self.make_baseline()
        self._scores(baseline, 1)
        again = self._scores(baseline, 2)
        assert again == self._scores(self.make_baseline(), 2), SAME_SEED

    def test_global_randomness_is_left_alone(self) -> None:
        before = random.getstate()
        self._scores(self.make_baseline(), 3)
        assert random.getstate() == before, NO_GLOBAL_LUCK
