"""A test suite that checks worlds and their actuators in the guarded loop."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from forewarn.abstractions.abstraction import Abstraction, Predicate
from forewarn.abstractions.expression.parser import parse_expression
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary, load_vocabulary
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.guarding.decision import RANK, Kind, Turn
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.record import read_record
from forewarn.plugins.contracts import Pilot, Source, Unattended, World
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.loop import EpisodeClock
from forewarn.plugins.testing.worlds import AS_DECIDED, TOLD, WATCHED

_HANG_S = 10.0


class LoopContract:
    """Tests for a world and its actuator, which run in the guarded loop.

    Attributes:
        steps: The number of steps in a test run.
    """

    steps = 10

    def make_world(self) -> World:
        raise NotImplementedError

    def make_pilot(self) -> Pilot:
        raise NotImplementedError

    def _turns(
        self, kind: Kind, world: World, record: Path | None = None
    ) -> Iterator[Turn]:
        """Yields the turns of a run under a constant decision."""
        pilot, frame = self.make_pilot(), world.reset(1)
        pilot.reset(1)
        guarding = replace(always(kind, world.source, frame), record=record)
        words: str | None = None
        with guarding.open(world.source, clock=EpisodeClock()) as loop:
            loop.equip(world)
            for _ in range(self.steps):
                turn = loop.decide(frame, pilot.propose(frame, words))
                words = turn.outcome.prompt
                yield turn
                if world.ended() is not None:
                    break
                frame = world.step(turn.executed)
            loop.close("the test ended")

    def test_supported_decisions_are_carried_out(self) -> None:
        world = self.make_world()
        world.reset(1)
        can = world.actuator().can - {"proceed", "substitute", "ask"}
        for kind in sorted(can, key=RANK.__getitem__):
            turn = next(self._turns(kind, world))
            assert turn.outcome.kind == kind, f"{AS_DECIDED} ({kind})"
            assert not turn.outcome.because, f"{AS_DECIDED} ({turn.outcome.because})"
        world.close()

    def test_interventions_are_recorded(self) -> None:
        world = self.make_world()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "contract.run.jsonl"
            for _ in self._turns("stop", world, path):
                pass
            lines = [line.content for line in read_record(path)]
        done = [line for line in lines if line.get("event") == "carried_out"]
        assert done and done[0]["kind"] == "stop", TOLD
        assert "executed" in done[0], TOLD
        world.close()

    def test_a_hanging_review_halts_the_world(self) -> None:
        world = self.make_world()
        if not isinstance(world, Unattended):
            return
        pilot, frame = self.make_pilot(), world.reset(2)
        pilot.reset(2)
        halted, halt = threading.Event(), world.halt

        def watched() -> None:
            halt()
            halted.set()

        world.halt = watched  # type: ignore[method-assign]
        guarding, hangs = always("alert", world.source, frame), _Hangs(halted)
        with guarding.open(world.source, clock=time.monotonic) as loop:
            loop.prepare(listeners=[hangs])
            loop.equip(world)
            loop.decide(frame, pilot.propose(frame))
        assert hangs.halted, WATCHED
        world.close()


class _Hangs(Listener):
    """A listener that makes a review hang until the world is halted."""

    def __init__(self, halted: threading.Event) -> None:
        self._halted, self.halted = halted, False

    def reviewed(self, *_: Any) -> None:
        self.halted = self._halted.wait(_HANG_S)


def always(kind: Kind, source: Source, frame: Frame) -> Guarding:
    """Creates a guard that always makes the same decision, because its threshold is 0.

    Args:
        kind: The kind of decision.
        source: The source of the frames.
        frame: A frame of the source, which is the only training data of the model.
    """
    vocabulary = load_vocabulary(source.vocabulary)
    text = next(_facts(source, vocabulary))
    fact = Predicate(parse_expression(text, vocabulary))
    abstraction = Abstraction([fact], vocabulary=vocabulary)
    tally = Tally()
    bits = abstraction.encode(frame.values)
    tally.add_codes(np.array([bits, bits ^ 1, bits]), abstraction.state_name)
    model = learn(
        tally, Support("observed"), Fraction(0), "absorb",
        abstraction=abstraction.as_dict(), period_s=source.period_s,
        laws=(f"always ({text})",),
    )  # fmt: skip
    policy = Policy(
        rules={"*": (Step(kind, 0.0),)}, lease_s=0.1, ack_s=1e6, max_age_s=1e6,
        deadline_s=dict.fromkeys(Policy().deadline_s, _HANG_S * 2.0),
    )  # fmt: skip
    return Guarding([model], policy, "a suite's model")


def _facts(source: Source, vocabulary: Vocabulary) -> Iterator[str]:
    """Yields predicates over the signals of a source, the simplest first."""
    for name in source.provides:
        signal = vocabulary.signals.get(name)
        if signal is None or signal.type == "bool":
            yield name
    for name in source.provides:
        yield f"{name} > 0"
