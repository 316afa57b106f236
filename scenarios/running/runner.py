"""The one loop: the pilot proposes, the guard reviews, the world carries out.

    reset → frame → pilot.propose → guard.review → intervener.apply → world.step

Without a guard the proposal is carried out as it is; in shadow mode too, with every
decision made and recorded. Either way the laws are monitored on the world's own
frames, so that what is called a violation never depends on a guard.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from forewarn.abstractions.errors import Unreachable, said
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.expression.tree import signals_of
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.guard import Guard, Observer
from forewarn.plugins.contracts import (
    Actuator,
    Metered,
    Pilot,
    Source,
    Unattended,
    WithActuator,
    World,
)
from forewarn.plugins.functions import said_where
from forewarn.plugins.loop.guarding import Guarding, foresight_of
from forewarn.plugins.loop.loop import EpisodeClock, GuardedLoop, Witness
from forewarn.plugins.loop.records import open_record
from forewarn.plugins.loop.tallies import TallyFile
from forewarn.plugins.registry import make_actuator, make_pilot, make_world
from forewarn.plugins.scenery import Scenic
from forewarn.scenarios.running.episode import Episode, Mode
from forewarn.scenarios.running.scenery import SceneLog
from forewarn.scenarios.running.tracker import Tracker
from forewarn.scenarios.running.truth import Truth
from forewarn.scenarios.schema import InvalidScenario, Plug, Scenario

FAILED = "failed"


class Listener(Protocol):
    """Hears of every frame, guarded or not: a trace's writer, a baseline."""

    def began(self, source: Source) -> None:
        """An episode begins."""

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        """Called once it is settled what is carried out on the frame."""


class EpisodeObserver(Observer, Protocol):
    """A guard's observer that also hears of the episodes themselves."""

    def began(self, scenario: str, seed: int) -> None:
        """An episode begins."""

    def ended(self, facts: Mapping[str, Any]) -> None:
        """An episode is over: what its JSON says of it."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What is kept of one episode.

    Args:
        record: The file of its run record; without a guard there is none.
        listeners: Hear of every frame.
        risks: Takes down the guard's risks.
        scene: The file of what is to be seen, for a world that can be drawn.
        tally: The file of what its guard counts.
    """

    record: Path | None = None
    listeners: tuple[Listener, ...] = ()
    risks: Witness | None = None
    scene: Path | None = None
    tally: Path | None = None


class Runner:
    """Runs episodes of one scenario, guarded or not.

    Args:
        scenario: Which one.
        guarding: What the guard is made of; without it nobody watches.
        observers: Hear of every episode and of every review.
    """

    def __init__(
        self,
        scenario: Scenario,
        guarding: Guarding | None = None,
        observers: Sequence[EpisodeObserver] = (),
    ) -> None:
        self.scenario, self.guarding = scenario, guarding
        self._observers = tuple(observers)
        self._source: Source | None = None
        self._guard: Guard | None = None

    @property
    def mode(self) -> Mode:
        """Whether a guard watches, and whether it acts."""
        if self.guarding is None:
            return "unguarded"
        return "shadow" if self.guarding.policy.shadow else "guarded"

    def world(self, seed: int) -> World:
        """The world of one episode; whoever asks for it closes it."""
        plug = self.scenario.world
        return make_world(plug.name, *self._settings(plug, seed))

    def run(self, seed: int, keep: Keep | None = None) -> Episode:
        """One episode. Its world is closed however it ends.

        What goes wrong in the world or the pilot once they are made leaves an episode
        that failed, with its error; what cannot be made at all raises.
        """
        with closing(self.world(seed)) as world:
            plug = self.scenario.pilot
            pilot = make_pilot(plug.name, *self._settings(plug, seed))
            self._prepare(world)
            for observer in self._observers:
                observer.began(self.scenario.name, seed)
            episode = self._run(seed, world, pilot, keep or Keep())
            for observer in self._observers:
                observer.ended(episode.as_dict())
            return episode

    def _settings(self, plug: Plug, seed: int) -> tuple[dict[str, Any], str]:
        return self.scenario.settings(plug, seed), self.scenario.source

    def _prepare(self, world: World) -> None:
        """Makes what depends on the source alone, and so serves all episodes."""
        source, scenario = world.source, self.scenario
        if source == self._source:
            return
        needed: dict[str, Iterable[str]] = {"abstraction": scenario.abstraction.signals}
        if scenario.goal is not None:
            needed["goal"] = signals_of(scenario.goal)
        for place, signals in needed.items():
            lacking = sorted(set(signals) - set(source.provides))
            if lacking:
                raise InvalidScenario(
                    f"the world {source.name} does not provide {', '.join(lacking)}",
                    source=scenario.source,
                    place=place,
                )
        if source.fixed and self.mode == "guarded":
            raise InvalidScenario(
                "what was recorded cannot be changed by a guard",
                source=scenario.source,
                mend="let it watch, by --intervene none, or measure with --no-guarded",
            )
        halts = source.embedded or isinstance(world, Unattended)
        if self.mode == "guarded" and not halts:
            raise InvalidScenario(
                f"the world {source.name} goes on by itself, and nobody can halt it if"
                " the guard hangs",
                source=scenario.source,
                mend="give it a method `halt`, or only watch: --intervene none",
            )
        self._truth = Truth(scenario.laws, source)
        if not self._truth.names:
            law, signals = next(iter(self._truth.not_applicable.items()))
            raise InvalidScenario(
                f"no law applies: {law} needs {', '.join(signals)}, which the world"
                f" {source.name} does not provide",
                source=scenario.source,
                place="laws",
            )
        self._clock = EpisodeClock() if source.embedded else None
        if self.guarding is not None:
            self._guard = self.guarding.guard(
                source.provides, self._clock or time.monotonic
            )
        self._source = source

    def _run(self, seed: int, world: World, pilot: Pilot, keep: Keep) -> Episode:
        began_s = time.perf_counter()
        head = error = None
        guarded = self._guarded(seed, world, keep)
        with ExitStack() as stack:
            if guarded is not None:
                stack.enter_context(guarded.loop)
            listeners, scenes = keep.listeners, None
            if keep.scene is not None and isinstance(world, Scenic):
                scenes = SceneLog(keep.scene, world, self.scenario.name, seed)
                stack.callback(scenes.close)
                listeners = (*listeners, scenes)
            loop = None if guarded is None else guarded.loop
            drive = _Drive(self.scenario, world, pilot, self._truth, loop, listeners)
            try:
                frame = world.reset(seed)
                pilot.reset(seed)
                if loop is not None:
                    loop.equip(world, self._actuator(seed, world, pilot))
                ended = drive.through(frame)
            except Unreachable:
                raise  # and no other episode would come further
            except Exception as failure:
                ended, error = FAILED, said_where(failure) or said(failure)
            if loop is not None:
                facts = {"error": error, "scene": scenes and scenes.close()}
                known = {name: each for name, each in facts.items() if each is not None}
                head = loop.close(ended, **known)
        broken = sorted(self._truth.broken, key=lambda each: (each.time_s, each.law))
        episode = Episode(
            seed,
            self.mode,
            ended,
            drive.duration_s,
            drive.frames,
            tuple(broken),
            goal_s=drive.goal_s,
            error=error,
            usage=dict(pilot.usage) if isinstance(pilot, Metered) else {},
            machine={"wall_s": time.perf_counter() - began_s},
        )
        return episode if guarded is None else guarded.told(episode, head)

    def _guarded(self, seed: int, world: World, keep: Keep) -> _Guarded | None:
        """The loop of one episode; its record is there even if the world is not."""
        guarding, guard = self.guarding, self._guard
        if guarding is None or guard is None:
            return None
        foresight = foresight_of(world, guarding.policy)
        source, scenario, record = world.source, self.scenario, None
        if keep.record is not None:
            named = {
                "name": scenario.name,
                "sha256": scenario.digest,
                "text": scenario.text,
            }
            keep.record.unlink(missing_ok=True)  # of an episode that is run again
            record = open_record(
                keep.record,
                guard,
                guarding.facts,
                scenario=named,
                seed=seed,
                laws=guarding.laws,
                source=source.name,
                vocabulary=load_vocabulary(source.vocabulary).name,
                period_s=source.period_s,
                provides=source.provides,
            )
        tally = None
        if keep.tally is not None:
            keep.tally.unlink(missing_ok=True)
            named_by = hashlib.sha256(keep.tally.name.encode()).hexdigest()[:20]
            tally = TallyFile(
                keep.tally, [part.model for part in guard.watch.parts], named_by
            )
        tracker = Tracker(guard.watch)
        risks = () if keep.risks is None else (keep.risks,)
        loop = GuardedLoop(
            guard,
            clock=self._clock or time.monotonic,
            alerts=guarding.alerts,
            approver=guarding.approver,
            record=record,
            observers=self._observers,
            witnesses=(tracker, *risks, *guarding.audience),
            foresee=None if foresight is None else foresight.foresee,
            tally=tally,
            name=f"{scenario.name}, seed {seed}",
        )
        return _Guarded(loop, tracker)

    def _actuator(self, seed: int, world: World, pilot: Pilot) -> Actuator:
        """The world's own, or one that is made of it for this pilot."""
        own, plug = world.actuator(), self.scenario.actuator
        if plug is None and isinstance(pilot, WithActuator):
            plug = Plug(name=pilot.actuator)
        if plug is None:
            return own
        return make_actuator(plug.name, own, *self._settings(plug, seed))


@dataclass(frozen=True, slots=True)
class _Guarded:
    """One guarded episode: its loop, and what came of it."""

    loop: GuardedLoop
    tracker: Tracker

    def told(self, episode: Episode, head: str | None) -> Episode:
        """The episode with what its guard said and did."""
        tracker, loop = self.tracker, self.loop
        return replace(
            episode,
            alarms=tuple(tracker.alarms),
            interventions=tuple(tracker.interventions),
            decisions=tracker.decisions,
            unknown=tracker.unknown,
            states=tracker.states,
            drift=tracker.drift,
            head=head,
            machine={
                **episode.machine,
                "review_s": loop.review_s,
                "longest_review_s": loop.longest_review_s,
            },
        )


class _Drive:
    """The loop itself, once through."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        pilot: Pilot,
        truth: Truth,
        loop: GuardedLoop | None,
        listeners: Sequence[Listener],
    ) -> None:
        self._end, self._world, self._pilot = scenario.end, world, pilot
        self._truth, self._loop = truth, loop
        self._listeners = listeners
        self.frames = 0
        self.duration_s = 0.0
        self.goal_s: float | None = None
        goal = scenario.goal
        self._reached = None if goal is None else compile_test(goal)
        truth.reset()

    def through(self, frame: Frame) -> str:
        """Runs the episode from its first frame on; why it was over."""
        began_s, loop = frame.time_s, self._loop
        for listener in self._listeners:
            listener.began(self._world.source)
        words: str | None = None
        while True:
            self.frames += 1
            self.duration_s = frame.time_s - began_s
            if self.goal_s is None and self._reached and self._reached(frame.values):
                self.goal_s = frame.time_s
            broken = self._truth.frame(frame)
            ended = self._why_over(broken)
            proposal = executed = None
            if ended is None:
                proposal = executed = self._pilot.propose(frame, words)
                if loop is not None:
                    turn = loop.decide(frame, proposal)
                    executed, words = turn.executed, turn.outcome.prompt
            else:
                broken = [*broken, *self._truth.finish()]
                if loop is not None:
                    loop.review(frame)
            if loop is not None:
                for each in broken:
                    loop.note("violated", **each.as_dict())
            for listener in self._listeners:
                listener.frame(frame, proposal, executed)
            if ended is not None:
                return ended
            frame = self._world.step(executed)

    def _why_over(self, broken: Sequence[Broken]) -> str | None:
        ended = self._world.ended()
        if ended is not None:
            return ended
        if broken and self._end.on_violation == "stop":
            return f"{broken[0].law} was broken"
        # Times are sums of periods, and sums are rounded.
        if self.duration_s >= self._end.max_time_s - 1e-9:
            return f"{self._end.max_time_s:g} s had passed"
        return None
