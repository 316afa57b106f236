"""Counts the transitions of guarded runs in a tally file.

Transitions are counted until the first intervention. In shadow mode nothing intervenes,
so whole runs are counted; transitions after the first decision that would have
intervened are also counted separately. The file can be removed at any time; later
counts go into a new tally with its own id.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.learning import LiveTally
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.branched import EDGES, number_of
from forewarn.monitors.fleet.files import read_tallies, write_tallies
from forewarn.monitors.fleet.tallies import Counted, FleetTally, Subject
from forewarn.monitors.guarding.chain import ChainWatch
from forewarn.monitors.guarding.decision import RANK, Decision, Turn
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.loop.alerts import tell

EVERY = 6_000
"""The interval in frames at which counts are written during an episode."""


class TallyFile:
    """A tally file, to which the guards of several threads may add counts.

    Args:
        path: The file; compressed with gzip if the name ends in .gz. Counts are added
            to an existing file.
        models: The models of the guards.
        own_id: The id of a new tally; by default a random one.
    """

    def __init__(
        self, path: Path, models: Sequence[Model], own_id: str | None = None
    ) -> None:
        self.path, self._own_id = path, own_id
        self._subjects = [Subject.of(model) for model in models]
        self._lock = threading.Lock()
        self._waiting: dict[Subject, Counted] = {}
        if path.exists():
            self._kept()

    def add(self, counted: Mapping[Subject, Counted]) -> None:
        """Adds counts to the file; if that fails, keeps them for the next call."""
        with self._lock:
            waiting = _added(self._waiting, counted)
            try:
                kept = self._kept() if self.path.exists() else []
                own_id = kept[0].id if kept else self._new_id()
                there = {each.subject: each for each in kept}
                tallies = [
                    FleetTally.of(own_id, subject, each.bounded())
                    for subject, each in _added(there, waiting).items()
                ]
                write_tallies(self.path, tallies)
            except (OSError, InvalidInput) as error:
                told = "the tally could not be written and is kept in memory: %s"
                tell(logging.WARNING, told, error)
                self._waiting = waiting
                return
            self._waiting = {}

    def _kept(self) -> list[FleetTally]:
        kept = read_tallies(self.path)
        for each in kept:
            if each.subject not in self._subjects:
                self._subjects[0].refuse_other(each.subject, str(self.path))
        return kept

    def _new_id(self) -> str:
        return self._own_id or secrets.token_hex(10)


def _added(
    one: Mapping[Subject, Counted], other: Mapping[Subject, Counted]
) -> dict[Subject, Counted]:
    """Adds two sets of counts without changing either."""
    return {
        subject: Counted.total(
            [each[subject] for each in (one, other) if subject in each]
        )
        for subject in dict.fromkeys([*one, *other])
    }


class _Live(NamedTuple):
    """The counts of the current run for one model.

    Args:
        part: The watch of the model.
        subject: What is counted.
        free: The counts until the first decision to intervene.
        passed: The counts after that decision, if it is not enforced.
    """

    part: ChainWatch
    subject: Subject
    free: LiveTally
    passed: LiveTally

    def take(self, ended: bool) -> Counted:
        """Returns the counts since the last call, and resets them."""
        name = self.part.abstraction.state_name
        tally, passed = self.free.take(name, ended), self.passed.take(name, ended)
        tally.add(
            replace(passed, starts={}, traces=0, frames=passed.frames - passed.traces)
        )
        beyond = self.free.beyond + self.passed.beyond
        self.free.beyond = self.passed.beyond = 0
        return Counted(tally, beyond, passed=passed)


class Tallying(Listener):
    """Counts the transitions of runs in a tally file.

    Args:
        watch: The watch of the guard, which tracks the current state.
        file: The tally file.
    """

    def __init__(self, watch: Watch, file: TallyFile) -> None:
        self._file, self._frames = file, 0
        self._live = [
            _Live(part, Subject.of(part.model), LiveTally(), LiveTally())
            for part in watch.parts
        ]
        self._begin()

    def _begin(self) -> None:
        self._stop: Decision | None = None
        self._passed = self._broke = False

    def began(self, run: Run) -> None:
        """Starts counting the transitions of a run."""
        self._begin()
        for each in self._live:
            each.part.tally = each.free

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Counts a frame, and writes the counts at intervals."""
        self._broke |= self._stop is not None and bool(decision.violated)
        self._frames += 1
        if self._frames % EVERY == 0:
            self._hand_over(ended=False)

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        """Remembers the first intervention of a run, enforced or not."""
        if self._stop is not None:
            return
        if not turn.passes:
            self._stop = turn.decision
        elif not turn.outcome.enforced and RANK[turn.decision.kind] > RANK["alert"]:
            self._stop, self._passed = turn.decision, True
            for each in self._live:
                each.free.go_on(each.passed)
                each.part.tally = each.passed

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Writes the counts; the end of the run is not counted if the run failed."""
        self._hand_over(ended=facts.get("error") is None, stop=self._stop)
        for each in self._live:
            each.part.tally = None

    def _hand_over(self, ended: bool, stop: Decision | None = None) -> None:
        counted: dict[Subject, Counted] = {}
        for each in self._live:
            own = each.take(ended)
            if stop is not None and self._passed:
                own.let_pass = {stop.law: 1}
            elif stop is not None:
                risk = stop.risk
                at = "" if risk is None else f"{EDGES[number_of(risk.point)]:g}"
                own.stopped_by = {stop.law: 1}
                own.after_stops = {at: (1, int(self._broke))}
            if own.tally.frames or own.tally.ends or stop is not None:
                counted[each.subject] = own
        if counted:
            self._file.add(counted)
