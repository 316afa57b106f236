"""Follows one guarded episode: what was decided, what was done, what it showed."""

from __future__ import annotations

from dataclasses import replace

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import RANK, Decision, Turn
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.scenarios.running.episode import Episode, Intervention, Raised

UNKNOWN = -1
"""Stands for every state that the model does not know."""


class Tracker(Listener):
    """Sums up a guarded episode while it goes on."""

    def __init__(self) -> None:
        self._watch: Watch | None = None
        self.alarms: list[Raised] = []
        self.interventions: list[Intervention] = []
        self.decisions: dict[str, int] = {}
        self.unknown = 0
        self._raised: dict[str, int] = {}
        self._under_way = False
        self._runs: list[list[int]] = []
        self._ticks = 0

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Takes in a decision; before the next frame is read."""
        self._watch = watch
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
        """Takes in what became of a decision."""
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
        """The states of the ticks: of each model a number, then for how many."""
        return tuple(map(tuple, self._runs))

    @property
    def drift(self) -> str:
        """What the guard has to say of a model that no longer fits."""
        return "" if self._watch is None else "; ".join(self._watch.drifted())

    def told(self, episode: Episode, loop: GuardedLoop) -> Episode:
        """The episode with what its guard said and did."""
        return replace(
            episode,
            alarms=tuple(self.alarms),
            interventions=tuple(self.interventions),
            decisions=self.decisions,
            unknown=self.unknown,
            states=self.states,
            drift=self.drift,
            machine={
                **episode.machine,
                "review_s": loop.review_s,
                "longest_review_s": loop.longest_review_s,
            },
        )
