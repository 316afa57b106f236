"""The loop of an episode: the pilot proposes an action, the guard reviews it, and the
world executes it.

    reset → frame → pilot.propose → guard.review → intervener.apply → world.step

Without a guard, the proposal is executed unchanged; likewise in shadow mode, where
decisions are only recorded. The laws are always monitored on the world's own frames, so
detected violations never depend on the guard.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import (
    InvalidInput,
    InvalidModel,
    Unreachable,
    near_miss,
    said,
)
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.expression.tree import signals_of
from forewarn.abstractions.frame import Frame, Source
from forewarn.abstractions.serial import to_json
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.policy import InvalidPolicy
from forewarn.plugins.contracts import (
    Actuator,
    Foresight,
    Metered,
    Pilot,
    Told,
    WithActuator,
    WithFacts,
    World,
)
from forewarn.plugins.functions import said_where
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.loop.tallies import TallyFile
from forewarn.plugins.registry import (
    BrokenPlugin,
    make_actuator,
    make_pilot,
    make_world,
)
from forewarn.scenarios.running.episode import TIME_UP, Episode, Mode
from forewarn.scenarios.running.scenery import SceneLog, is_visible
from forewarn.scenarios.running.tracker import Tracker, Truth
from forewarn.scenarios.schema import End, InvalidScenario, NamedPlugin, Scenario

FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Keep:
    """The files to write for one episode, its listeners and its end.

    Args:
        record: The path of the run record, which is only written with a guard.
        listeners: Listeners to notify of the episode's events.
        scene: The path of the scenes, for a world that can be drawn or that renders
            pictures.
        tally: The path of the guard's tally.
        end: The conditions that end the episode; None for the scenario's own.
    """

    record: Path | None = None
    listeners: tuple[Listener, ...] = ()
    scene: Path | None = None
    tally: Path | None = None
    end: End | None = None


class Runner:
    """Runs episodes of one scenario, guarded or not.

    Args:
        scenario: The scenario.
        guarding: The parts of the guard; None for runs without a guard.
    """

    def __init__(self, scenario: Scenario, guarding: Guarding | None = None) -> None:
        self.scenario, self.guarding = scenario, guarding
        self._made: tuple[Source, bool, int] | None = None
        self._loop: GuardedLoop | None = None

    @property
    def mode(self) -> Mode:
        """The mode: `unguarded`, `shadow` or `guarded`."""
        if self.guarding is None:
            return "unguarded"
        return "shadow" if self.guarding.policy.shadow else "guarded"

    def world(self, seed: int) -> World:
        """Creates the world for one episode; the caller must close it."""
        plugin = self.scenario.world
        return make_world(plugin.name, *self._settings(plugin, seed))

    def run(self, seed: int, keep: Keep | None = None) -> Episode:
        """Runs one episode, and always closes its world.

        If the world or the pilot fails, the episode is marked as failed with the error;
        if they cannot be created at all, the error is raised.
        """
        with closing(self.world(seed)) as world:
            plugin = self.scenario.pilot
            pilot = make_pilot(plugin.name, *self._settings(plugin, seed))
            self._prepare(world)
            return self._run(seed, world, pilot, keep or Keep())

    def _settings(self, plugin: NamedPlugin, seed: int) -> tuple[dict[str, Any], str]:
        scenario = self.scenario
        replaced = scenario.pilot_source if plugin is scenario.pilot else ""
        return scenario.settings(plugin, seed), replaced or scenario.source

    def _prepare(self, world: World) -> None:
        """Creates the parts that depend only on the source and are shared by all
        episodes.
        """
        source, scenario = world.source, self.scenario
        # A forked process needs its own guard.
        made = source, isinstance(world, Foresight), os.getpid()
        if made == self._made:
            return
        vocabulary = scenario.abstraction.vocabulary
        for name in source.provides:
            if vocabulary is not None and not vocabulary.knows(name):
                raise BrokenPlugin(
                    f"the world {source.name}: {vocabulary.unknown(name)}"
                )
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
                    mend=near_miss(lacking[0], source.provides)
                    or "add these signals to the world, or change the predicates",
                )
        step_s = scenario.abstraction.period_s
        if step_s is not None and source.period_s > step_s * (1 + 1e-6):
            raise InvalidScenario(
                f"period_s is {step_s:g}, but the world {source.name} has a frame only "
                f"every {source.period_s:g} s",
                source=scenario.source,
                place="abstraction",
                mend=f"set period_s: {source.period_s:g}, or less in the world",
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
        if self.guarding is not None:
            try:
                self._loop = self.guarding.open_world(world)
            except InvalidInput as error:
                if error.source or isinstance(error, InvalidModel | InvalidPolicy):
                    raise
                raise InvalidScenario(
                    error.problem, source=scenario.source, mend=error.mend
                ) from error
        self._made = made

    def _run(self, seed: int, world: World, pilot: Pilot, keep: Keep) -> Episode:
        began_s = time.perf_counter()
        error = None
        loop, tracker, listeners = self._loop, Tracker(), keep.listeners
        with ExitStack() as stack:
            scenes = None
            if keep.scene is not None and is_visible(world):
                scenes = SceneLog(keep.scene, world, self.scenario.name, seed)
                stack.callback(scenes.close)
                listeners = (*listeners, scenes)
            if loop is not None:
                self._open(loop, seed, keep, (tracker, *listeners))
                stack.enter_context(loop)
            drive = _Drive(
                self.scenario, world, pilot, self._truth, loop, listeners, keep.end
            )
            try:
                frame = world.reset(seed)
                pilot.reset(seed)
                if loop is not None:
                    loop.equip(world, self._actuator(seed, world, pilot))
                else:
                    self._check(frame)
                    run = Run(self._named(seed), world.source)
                    for listener in listeners:
                        listener.began(run)
                ended = drive.through(frame)
            except Unreachable:
                raise  # every other episode would fail too
            except Exception as failure:
                ended, error = FAILED, said_where(failure) or said(failure)
            broken = sorted(
                self._truth.broken, key=lambda each: (each.time_s, each.law)
            )
            episode = Episode(
                seed=seed,
                mode=self.mode,
                ended=ended,
                duration_s=drive.duration_s,
                frames=drive.frames,
                violations=tuple(broken),
                goal_s=drive.goal_s,
                error=error,
                facts=dict(world.facts) if isinstance(world, WithFacts) else {},
                usage=dict(pilot.usage) if isinstance(pilot, Metered) else {},
                machine={"wall_s": time.perf_counter() - began_s},
            )
            if loop is None:
                for listener in listeners:
                    listener.ended(episode.as_dict())
                return episode
            episode = tracker.told(episode, loop)
            facts = {"error": error, "scene": scenes and scenes.close()}
            known = {name: each for name, each in facts.items() if each is not None}
            return replace(episode, head=loop.close(ended, episode.as_dict(), **known))

    def _check(self, frame: Frame) -> None:
        """Raises `SignalFault` for an invalid value; with a guard, the guard checks the
        frames.
        """
        vocabulary = self.scenario.abstraction.vocabulary
        for name, value in frame.values.items():
            if vocabulary is not None and vocabulary.knows(name):
                vocabulary.check_value(name, value)

    def _named(self, seed: int) -> str:
        return f"{self.scenario.name}, seed {seed}"

    def _open(
        self, loop: GuardedLoop, seed: int, keep: Keep, listeners: Sequence[Listener]
    ) -> None:
        """Opens an episode's files, even if the world then fails to start."""
        scenario, tally = self.scenario, None
        for path in (keep.record, keep.tally):
            if path is not None:
                path.unlink(missing_ok=True)  # left over if the episode is repeated
        if keep.tally is not None:
            named_by = hashlib.sha256(keep.tally.name.encode()).hexdigest()[:20]
            models = [part.model for part in loop.guard.watch.parts]
            tally = TallyFile(keep.tally, models, named_by)
        named = {
            "name": scenario.name,
            "sha256": scenario.digest,
            "text": scenario.text,
        }
        loop.prepare(
            name=self._named(seed),
            scenario=named,
            seed=seed,
            record=keep.record,
            tally=tally,
            listeners=listeners,
        )

    def _actuator(self, seed: int, world: World, pilot: Pilot) -> Actuator:
        """Returns the scenario's actuator for this world and pilot; by default, the
        world's own.
        """
        own, plugin = world.actuator(), self.scenario.actuator
        if plugin is None and isinstance(pilot, WithActuator):
            plugin = NamedPlugin(name=pilot.actuator)
        if plugin is None:
            return own
        return make_actuator(plugin.name, own, *self._settings(plugin, seed))


class _Drive:
    """Runs the loop for one episode."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        pilot: Pilot,
        truth: Truth,
        loop: GuardedLoop | None,
        listeners: Sequence[Listener],
        end: End | None,
    ) -> None:
        self._end, self._world, self._pilot = end or scenario.end, world, pilot
        self._truth, self._loop = truth, loop
        self._listeners = listeners
        self.frames = 0
        self.duration_s = 0.0
        self.goal_s: float | None = None
        goal = scenario.goal
        self._reached = None if goal is None else compile_test(goal)
        truth.reset()

    def through(self, frame: Frame) -> str:
        """Runs the episode from its first frame to its end; returns why it ended."""
        began_s, loop = frame.time_s, self._loop
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
                if not isinstance(proposal, Action | None):
                    raise BrokenPlugin(
                        "propose of the pilot must return an Action or None, "
                        f"not {proposal!r:.60}"
                    )
                if loop is not None:
                    turn = loop.decide(frame, proposal)
                    executed, words = turn.executed, turn.outcome.prompt
                    if not turn.passes and isinstance(self._pilot, Told):
                        self._pilot.withheld(turn.decision.reason)
            else:
                broken = [*broken, *self._truth.finish()]
                if loop is not None:
                    loop.review(frame)
            if loop is not None:
                for each in broken:
                    loop.note("violated", **to_json(each))
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
        # Times are sums of periods and have rounding errors.
        if self.duration_s >= self._end.max_time_s - 1e-9:
            return f"{self._end.max_time_s:g} {TIME_UP}"
        return None
