"""Listeners that summarise an episode: decisions, interventions, violations and
driving.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import Note, Trace, TraceHeader
from forewarn.monitors.evaluation.evidence import Outcome
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.guarding.decision import RANK, Action, Decision, Turn
from forewarn.monitors.guarding.drift import Stated
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import Watch
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import FollowedLaw, Violation
from forewarn.plugins.contracts import Source
from forewarn.plugins.loop.loop import GuardedLoop, as_json
from forewarn.scenarios.running.episode import Episode, Intervention, Raised

UNKNOWN = -1
"""The number that represents every state unknown to the model."""


class Tracker(Listener):
    """Summarises the decisions and interventions of a guarded episode."""

    def __init__(self) -> None:
        self._stated = Stated(Policy())
        self.alarms: list[Raised] = []
        self.interventions: list[Intervention] = []
        self.decisions: dict[str, int] = {}
        self.unknown = 0
        self._raised: dict[str, int] = {}
        self._under_way = False
        self._runs: list[list[int]] = []
        self._ticks = 0

    def began(self, run: Run) -> None:
        """Reads the policy, which defines when there is an alarm."""
        self._stated = Stated(run.policy or Policy())

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Records a decision; called before the next frame is read."""
        self._stated.decided(watch, frame, decision)
        kind, time_s = decision.kind, frame.time_s
        self.decisions[kind] = self.decisions.get(kind, 0) + 1
        if kind == "proceed":
            self._raised.clear()
        elif RANK[kind] > self._raised.get(decision.law, 0):
            self._raised[decision.law] = RANK[kind]
            self.alarms.append(Raised(decision.law, time_s, decision.risk, kind))
        if watch.ticks != self._ticks:
            self._note_state(watch)

    def _note_state(self, watch: Watch) -> None:
        runs = self._runs
        missed = watch.ticks - self._ticks - 1
        self._ticks = watch.ticks
        if missed and runs:
            runs[-1][-1] += missed
        self.unknown += watch.unknown
        states = [UNKNOWN if each is None else each for each in watch.states]
        if runs and runs[-1][:-1] == states:
            runs[-1][-1] += 1
        else:
            runs.append([*states, 1])

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        """Records the outcome of a decision."""
        time_s, outcome = frame.time_s, turn.outcome
        last = self.interventions[-1] if self._under_way else None
        if last is not None and outcome.obeyed and last.obeyed_s is None:
            last = self.interventions[-1] = replace(last, obeyed_s=time_s)
        self._under_way = outcome.enforced and outcome.kind != "proceed"
        if not self._under_way:
            return
        if last is not None and last.kind == outcome.kind:
            self.interventions[-1] = replace(last, until_s=time_s)
            return
        begun = Intervention(
            turn.decision.law,
            time_s,
            time_s,
            outcome.kind,
            outcome.decided,
            outcome.because,
        )
        self.interventions.append(begun)

    @property
    def states(self) -> tuple[tuple[int, ...], ...]:
        """The models' states over the clock's ticks, run-length encoded: a state's
        number per model, then the number of ticks.
        """
        return tuple(map(tuple, self._runs))

    def outcomes(self, broken: Sequence[Broken]) -> dict[str, Outcome]:
        """Returns the outcome of the run under each law."""
        return self._stated.outcomes(broken)

    def told(self, episode: Episode, loop: GuardedLoop) -> Episode:
        """Adds the guard's decisions and interventions to an episode."""
        return replace(
            episode,
            alarms=tuple(self.alarms),
            interventions=tuple(self.interventions),
            decisions=self.decisions,
            unknown=self.unknown,
            states=self.states,
            outcomes=self.outcomes(episode.violations),
            machine={
                **episode.machine,
                "review_s": loop.review_s,
                "longest_review_s": loop.longest_review_s,
            },
        )


class _LawTruth:
    def __init__(self, law: Law, frame_period_s: float) -> None:
        self.name = law.name
        self._law = FollowedLaw(law, frame_period_s)
        self.reset()

    def reset(self) -> None:
        self._law.reset()
        self._known = 0
        self._last_broken = -2

    def frame(self, frame: Frame) -> list[Broken]:
        self._law.frame(frame)
        return self._news()

    def _news(self) -> list[Broken]:
        """Returns the violations since the last call."""
        violations = self._law.monitor.violations
        if len(violations) == self._known:
            return []
        news = violations[self._known :]
        self._known = len(violations)
        return [each for violation in news if (each := self._broken(violation))]

    def _broken(self, violation: Violation) -> Broken | None:
        # An invariant that stays broken counts as one violation.
        goes_on = violation.step == self._last_broken + 1
        self._last_broken = violation.step
        if goes_on:
            return None
        times_s = self._law.times_s
        return Broken(self.name, times_s[violation.step], times_s[violation.since])

    def finish(self) -> list[Broken]:
        """Resolves obligations that are pending at the end by repeating the last
        frame.
        """
        law = self._law
        pending = law.automaton.pending
        for _ in range(law.automaton.n if law.times_s else 0):
            if not pending[law.monitor.state]:
                break
            if law.wait().status == "violated":
                return self._news()
        return []


class Truth:
    """Monitors the laws of a scenario, one episode after another.

    Args:
        laws: The laws; the parts of a compound law are separate laws.
        source: The world's source; laws that need other signals do not apply.
    """

    def __init__(self, laws: Sequence[Law], source: Source) -> None:
        provided = set(source.provides)
        self.not_applicable: dict[str, list[str]] = {}
        self._laws: list[_LawTruth] = []
        for law in laws:
            lacking = sorted(set(law.signals) - provided)
            if lacking:
                self.not_applicable[law.name] = lacking
            else:
                self._laws.append(_LawTruth(law, source.period_s))
        self.names = tuple(law.name for law in self._laws)
        self.broken: list[Broken] = []

    def reset(self) -> None:
        """Begins an episode."""
        self.broken = []
        for law in self._laws:
            law.reset()

    def frame(self, frame: Frame) -> list[Broken]:
        """Returns the violations at this frame."""
        found = [broken for law in self._laws for broken in law.frame(frame)]
        self.broken += found
        return found

    def finish(self) -> list[Broken]:
        """Returns the violations that are only certain at the end of the episode."""
        found = [broken for law in self._laws for broken in law.finish()]
        self.broken += found
        return found


HARD_BRAKE = 4.5
"""The deceleration in m/s² above which a vehicle brakes hard."""

STANDING_KMH = 1.0
"""The speed in km/h below which a vehicle counts as stationary."""


class Driven(Listener):
    """Measures the driving: standing time, hard braking, collisions and arrival."""

    def began(self, run: Run) -> None:
        provided = run.source.provides
        self._began_s: float | None = None
        self._last_s: float | None = None
        self._stood_s = 0.0 if "speed" in provided else None
        self._stands = False
        self._brakes = 0 if "acceleration" in provided else None
        self._collided = False if "collision" in provided else None
        self._reaches = "destination_reached" in provided
        self._reached_s: float | None = None
        self._braking = False

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        values = frame.values
        if self._began_s is None:
            self._began_s = frame.time_s
        if self._stood_s is not None:
            if self._stands and self._last_s is not None:
                self._stood_s += frame.time_s - self._last_s
            speed = values["speed"]
            self._stands = speed is not None and float(speed) < STANDING_KMH
            self._last_s = frame.time_s
        if self._brakes is not None:
            hard = (values["acceleration"] or 0.0) < -HARD_BRAKE
            self._brakes += hard and not self._braking
            self._braking = hard
        if self._collided is not None:
            self._collided = self._collided or values["collision"] is True
        if self._reaches and self._reached_s is None and values["destination_reached"]:
            self._reached_s = frame.time_s - self._began_s

    def facts(self) -> dict[str, float | bool | None]:
        """Returns the measurements since the episode began."""
        facts: dict[str, float | bool | None] = {}
        if self._stood_s is not None:
            facts["stationary_s"] = round(self._stood_s, 3)
            facts["stands"] = self._stands
        if self._brakes is not None:
            facts["hard_brakes"] = self._brakes
        if self._collided is not None:
            facts["collided"] = self._collided
        if self._reaches:
            facts["destination_s"] = self._reached_s
        return facts


class Recorder(Listener):
    """Records the frames of one episode."""

    def began(self, run: Run) -> None:
        self._source = run.source
        self.frames: list[Frame] = []
        self._notes: dict[int, Note] = {}

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        if proposal is not None:
            changed = as_json(executed) if executed != proposal else None
            note = Note(proposal=as_json(proposal), executed=changed)
            self._notes[len(self.frames)] = note
        self.frames.append(frame)

    def trace(self, scenario: str, episode: Episode) -> Trace:
        """Returns the recorded frames as a trace."""
        source = self._source
        header = TraceHeader(
            source.vocabulary, source.provides, source.period_s, scenario,
            episode.seed, source.name, episode.mode == "guarded",
        )  # fmt: skip
        return Trace(header, tuple(self.frames), self._notes)


class Pace(Listener):
    """Slows a simulated world down to a given pace.

    Args:
        pace: The speed of the world relative to real time.
    """

    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._waits = False
        self._first: tuple[float, float] | None = None

    def began(self, run: Run) -> None:
        """Checks whether the world is simulated; other worlds have their own pace."""
        self._waits, self._first = run.source.embedded, None

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        """Waits until the frame is due."""
        if not self._waits:
            return
        now_s = time.monotonic()
        if self._first is None:
            self._first = now_s, frame.time_s
        began_s, first_s = self._first
        due_s = began_s + (frame.time_s - first_s) / self._pace
        if due_s > now_s:
            time.sleep(due_s - now_s)
