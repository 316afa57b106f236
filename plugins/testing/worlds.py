"""A test suite that checks the interface of worlds."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forewarn.abstractions.errors import ForewarnError, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.readers import read_trace
from forewarn.abstractions.trace import TraceHeader, trace_writer
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.actions import Actions
from forewarn.plugins.contracts import Foresight, Scenic, Unattended, World

_TRACED = 5
"""The number of frames that are written to a trace and read back."""


def same(one: Frame, other: Frame) -> bool:
    """Whether two frames are equal."""
    return (one.time_s, one.sequence, dict(one.values)) == (
        other.time_s,
        other.sequence,
        dict(other.values),
    )


class WorldContract:
    """Tests for worlds; override `make_world`.

    Attributes:
        steps: The number of steps in a test run.
    """

    steps = 60

    def make_world(self) -> World:
        raise NotImplementedError

    def actions(self) -> Iterator[Action | None]:
        """Yields the actions of a test run; None means no action."""
        while True:
            yield None

    def _run(self, world: World, seed: int) -> Iterator[Frame]:
        yield world.reset(seed)
        for _, action in zip(range(self.steps), self.actions(), strict=False):
            if world.ended() is not None:
                return
            yield world.step(action)

    def test_every_declared_action_is_accepted(self) -> None:
        luck, world = random.Random(10), self.make_world()
        for spec in world.actions:
            world.reset(10)
            world.step(spec.some(luck))
        world.close()

    def test_undeclared_actions_are_rejected(self) -> None:
        world = self.make_world()
        world.reset(11)
        for action in _wrong(world.actions):
            assert _refuses(world, action), f"{REFUSES} ({action})"
        if world.ended() is None:
            world.step(None)
        world.close()

    def test_a_live_world_can_be_halted(self) -> None:
        world = self.make_world()
        world.reset(12)
        if isinstance(world, Unattended):
            for _ in range(3):
                world.halt()
            if world.ended() is None:
                world.step(None)
        else:
            assert world.source.embedded, HALTS
        world.close()

    def test_the_source_describes_the_world(self) -> None:
        world = self.make_world()
        source = world.source
        vocabulary = load_vocabulary(source.vocabulary)
        assert source.name, "A world has a name."
        assert source.period_s > 0, "The period is a positive time."
        assert len(set(source.provides)) == len(source.provides) > 0, CARRIES
        unknown = [key for key in source.provides if not vocabulary.knows(key)]
        assert unknown == [], "What a source provides is in its vocabulary."
        world.close()

    def test_frames_contain_all_declared_signals(self) -> None:
        world = self.make_world()
        vocabulary = load_vocabulary(world.source.vocabulary)
        for frame in self._run(world, 1):
            missing = [key for key in world.source.provides if key not in frame.values]
            assert missing == [], CARRIES
            for key, value in frame.values.items():
                try:
                    vocabulary.check_value(key, value)
                except SignalFault as fault:
                    raise AssertionError(f"{CARRIES} ({fault})") from fault
        world.close()

    def test_a_trace_can_be_read_from_any_folder(self) -> None:
        world = self.make_world()
        source = world.source
        header = TraceHeader(
            source.vocabulary, source.provides, source.period_s, source=source.name
        )
        frames = [*islice(self._run(world, 1), _TRACED)]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run.jsonl"
            with trace_writer(path, header) as writer:
                for frame in frames:
                    writer.write(frame)
            read = read_trace(path)
        assert read.header.provides == source.provides, WRITTEN
        pairs = zip(read.frames, frames, strict=True)
        assert all(same(one, other) for one, other in pairs), WRITTEN
        world.close()

    def test_time_increases(self) -> None:
        world = self.make_world()
        before: Frame | None = None
        for frame in self._run(world, 2):
            assert math.isfinite(frame.time_s), GOES_ON
            if before is not None:
                assert frame.sequence > before.sequence, GOES_ON
                assert frame.time_s > before.time_s, GOES_ON
                if world.source.embedded:
                    passed_s = frame.time_s - before.time_s
                    assert abs(passed_s - world.source.period_s) < 1e-6, PERIOD
            before = frame
        world.close()

    def test_the_same_seed_gives_the_same_run(self) -> None:
        world, other = self.make_world(), self.make_world()
        if world.source.embedded:
            list(self._run(world, 3))  # earlier runs must have no effect
            # Run one after the other, because a process may have only one
            # engine.
            pairs = zip(*(list(self._run(w, 4)) for w in (world, other)), strict=True)
            assert all(same(one, two) for one, two in pairs), SAME_SEED
        world.close()
        other.close()

    def test_foresight_does_not_change_the_world(self) -> None:
        world, other = self.make_world(), self.make_world()
        if isinstance(world, Foresight) and world.source.embedded:
            foreseeing = self._foreseeing(world, 6)
            pairs = zip(foreseeing, self._run(other, 6), strict=True)
            assert all(same(one, two) for one, two in pairs), FORESEES
        world.close()
        other.close()

    def _foreseeing(self, world: World, seed: int) -> Iterator[Frame]:
        """Yields the frames of a run that predicts each action twice."""
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

    def test_global_random_state_is_unchanged(self) -> None:
        world = self.make_world()
        before = random.getstate()
        list(self._run(world, 5))
        assert random.getstate() == before, NO_GLOBAL_LUCK
        world.close()

    def test_returned_frames_do_not_change(self) -> None:
        world = self.make_world()
        kept = [(frame, copy.deepcopy(frame)) for frame in self._run(world, 6)]
        assert all(same(frame, was) for frame, was in kept), KEEPS_FRAMES
        world.close()

    def test_the_scene_can_be_drawn(self) -> None:
        world, other = self.make_world(), self.make_world()
        if isinstance(world, Scenic) and isinstance(other, Scenic):
            unseen = list(self._run(world, 9))
            for frame, before in zip(self._run(other, 9), unseen, strict=True):
                if before is unseen[0]:
                    assert all(
                        math.isfinite(number)
                        for shape in other.ground()
                        for point in shape.points
                        for number in (*point, shape.width_m)
                    ), DRAWN
                things = other.things()
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

    def test_a_finished_run_stays_finished(self) -> None:
        world = self.make_world()
        for _ in self._run(world, 7):
            pass
        why = world.ended()
        assert why is None or (isinstance(why, str) and why.strip()), ENDS
        assert world.ended() == why, ENDS
        world.close()
        world.close()

    def test_steps_before_reset_are_rejected(self) -> None:
        world = self.make_world()
        assert _refuses(world), NOT_READY
        world.reset(8)
        world.close()
        assert _refuses(world), NOT_READY


def _wrong(actions: Actions) -> Iterator[Action]:
    """Yields invalid actions, each of which has one error."""
    luck = random.Random(11)
    yield Action("no such action")
    for spec in actions:
        fits = spec.some(luck)
        yield Action(spec.name, {**fits.arguments, "no such argument": 1.0})
        for name, argument in spec.arguments.items():
            odd: list[Any] = [[], {}, math.nan if argument.type == "number" else 3.5]
            odd += ["no such word"] if argument.choices else []
            odd += [argument.high * 2.0] if math.isfinite(argument.high) else []
            for value in odd:
                yield Action(spec.name, {**fits.arguments, name: value})
            if argument.required:
                rest = {k: v for k, v in fits.arguments.items() if k != name}
                yield Action(spec.name, rest)


def _refuses(world: World, action: Action | None = None) -> bool:
    try:
        world.step(action)
    except ForewarnError:
        return True
    return False


SAME_SEED = "The same seed gives the same run."
CARRIES = "Every frame contains the signals that the source provides."
WRITTEN = "A trace contains the same frames when it is read back."
GOES_ON = "Sequence numbers and times increase."
PERIOD = "The frames of an embedded world are one period apart."
ENDS = "A run that has ended stays ended, and `ended` says why."
NOT_READY = "A world that was not reset, or was closed, rejects steps."
FORESEES = "Predicting an action twice has the same result, and changes nothing."
KEEPS_FRAMES = "A frame does not change after it was returned."
DRAWN = "A scene has finite numbers, unique names and at most one ego."
LOOKED_AT = "Reading the scene does not change the world."
NO_GLOBAL_LUCK = "Random choices depend on the seed, not on the global generator."
PLAIN = "The arguments of an action can be written as JSON."
LET_THROUGH = "Under `proceed` and `alert`, the proposal is carried out unchanged."
CAN_STOP = "Every actuator can stop."
REFUSES = "A world rejects an action that it does not declare."
HALTS = "A world that runs in real time can be halted without a guard."
AS_DECIDED = "A decision that the actuator can carry out is carried out as decided."
TOLD = "The record contains what is carried out."
WATCHED = "While a review hangs, a world that runs in real time is halted."
SLOWS = "The actuator of a world with a speed cap can `slow`."
CUTS = "The actuator of a world with the action `cut` can `cut`."
TELLS = "The frames show in time that a decision was obeyed."
NOTICES = "A world that ignores a decision does not count as having obeyed."
BLIND = "Without signals, no decision counts as obeyed."
NUMBERS = "A score is a number, and a higher score is worse."
HAS_THRESHOLDS = "A baseline has finite alarm thresholds."
