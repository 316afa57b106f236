"""The one loop: the pilot proposes, the guard reviews, the world carries out.

    reset → frame → pilot.propose → guard.review → intervener.apply → world.step

Without a guard the proposal is carried out as it is; in shadow mode too, with every
decision made and recorded. Either way the laws are monitored on the world's own
frames, so that what is called a violation never depends on a guard.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from forewarn import __version__
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.expression.tree import signals_of
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.guard import Guard, Observer
from forewarn.monitors.guarding.record import RunRecord
from forewarn.plugins.contracts import Metered, Pilot, Source, WithActuator, World
from forewarn.plugins.registry import make_actuator, make_pilot, make_world
from forewarn.plugins.scenery import Scenic
from forewarn.scenarios.running.episode import Episode, Mode
from forewarn.scenarios.running.oversight import (
    EpisodeClock,
    Guarding,
    Oversight,
    RiskLog,
    foresight_of,
)
from forewarn.scenarios.running.scenery import SceneLog
from forewarn.scenarios.running.truth import Broken, Truth
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
    """

    record: Path | None = None
    listeners: tuple[Listener, ...] = ()
    risks: RiskLog | None = None
    scene: Path | None = None


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
            self._prepare(world.source)
            for observer in self._observers:
                observer.began(self.scenario.name, seed)
            episode = self._run(seed, world, pilot, keep or Keep())
            for observer in self._observers:
                observer.ended(episode.as_dict())
            return episode

    def _settings(self, plug: Plug, seed: int) -> tuple[dict[str, Any], str]:
        return self.scenario.settings(plug, seed), self.scenario.source

    def _prepare(self, source: Source) -> None:
        """Makes what depends on the source alone, and so serves all episodes."""
        if source == self._source:
            return
        scenario = self.scenario
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
            self._guard = self.guarding.make(source, self._clock or time.monotonic)
        self._source = source

    def _run(self, seed: int, world: World, pilot: Pilot, keep: Keep) -> Episode:
        began_s = time.perf_counter()
        head = error = None
        with ExitStack() as stack:
            oversight = self._oversight(seed, world, pilot, keep)
            if oversight is not None:
                stack.enter_context(oversight)
            listeners, scenes = keep.listeners, None
            if keep.scene is not None and isinstance(world, Scenic):
                scenes = SceneLog(keep.scene, world, self.scenario.name, seed)
                stack.callback(scenes.close)
                listeners = (*listeners, scenes)
            drive = _Drive(
                self.scenario, world, pilot, self._truth, oversight, listeners
            )
            try:
                ended = drive.through(seed)
            except Exception as failure:
                ended, error = FAILED, f"{type(failure).__name__}: {failure}"
            if oversight is not None:
                drawn = None if scenes is None else scenes.close()
                head = oversight.close(ended, error, drawn)
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
        return episode if oversight is None else _overseen(episode, oversight, head)

    def _oversight(
        self, seed: int, world: World, pilot: Pilot, keep: Keep
    ) -> Oversight | None:
        guarding, guard = self.guarding, self._guard
        if guarding is None or guard is None:
            return None
        foresight = foresight_of(world, guarding.policy)
        # A world's own actuator has the name of the world.
        own = pilot.actuator if isinstance(pilot, WithActuator) else None
        plug = self.scenario.actuator or Plug(name=own or self.scenario.world.name)
        actuator = make_actuator(plug.name, *self._settings(plug, seed))
        record = None
        if keep.record is not None:
            header = self._header(seed, world.source, guarding)
            if guard.judges:
                header["judges"] = [judge.as_dict() for judge in guard.judges]
            keep.record.unlink(missing_ok=True)  # of an episode that is run again
            record = RunRecord(keep.record, header, machine_facts())
        return Oversight(
            guard,
            guarding,
            self._clock,
            actuator,
            foresight,
            record,
            self._observers,
            keep.risks,
        )

    def _header(self, seed: int, source: Source, guarding: Guarding) -> dict[str, Any]:
        """Everything that a replay needs, and what the episode was."""
        scenario = self.scenario
        return {
            "scenario": {
                "name": scenario.name,
                "sha256": scenario.digest,
                "text": scenario.text,
            },
            "seed": seed,
            "mode": self.mode,
            "model": dict(guarding.model),
            "policy": guarding.policy.as_dict(),
            "laws": [law.reference for law in scenario.laws],
            "source": source.name,
            "vocabulary": source.vocabulary,
            "period_s": source.period_s,
            "provides": list(source.provides),
        }


class _Drive:
    """The loop itself, once through."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        pilot: Pilot,
        truth: Truth,
        oversight: Oversight | None,
        listeners: Sequence[Listener],
    ) -> None:
        self._end, self._world, self._pilot = scenario.end, world, pilot
        self._truth, self._oversight = truth, oversight
        self._listeners = listeners
        self.frames = 0
        self.duration_s = 0.0
        self.goal_s: float | None = None
        goal = scenario.goal
        self._reached = None if goal is None else compile_test(goal)
        truth.reset()

    def through(self, seed: int) -> str:
        """Runs the episode; why it was over."""
        frame = self._world.reset(seed)
        self._pilot.reset(seed)
        began_s, oversight = frame.time_s, self._oversight
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
                if oversight is not None:
                    executed, words = oversight.decide(frame, proposal)
            else:
                broken = [*broken, *self._truth.finish()]
                if oversight is not None:
                    oversight.look(frame)
            if oversight is not None:
                for each in broken:
                    oversight.broken(each)
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


def _overseen(episode: Episode, oversight: Oversight, head: str | None) -> Episode:
    """The episode with what its guard said and did."""
    tracker = oversight.tracker
    return replace(
        episode,
        alarms=tuple(tracker.alarms),
        interventions=tuple(tracker.interventions),
        decisions=dict(tracker.decisions),
        unknown=tracker.unknown,
        states=tracker.states,
        drift=tracker.drift,
        head=head,
        machine={
            **episode.machine,
            "review_s": oversight.review_s,
            "longest_review_s": oversight.longest_review_s,
        },
    )


def machine_facts() -> dict[str, str]:
    """What a record says of this machine and moment, outside its hashes."""
    return {
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "forewarn": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
