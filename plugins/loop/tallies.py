"""Counts the transitions of guarded runs in a tally file.

Transitions are counted while no intervention is active. The file can be removed at any
time; later counts go into a new tally with its own id.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.learning import LiveTally, Tally
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.branched import EDGES, number_of
from forewarn.monitors.fleet.tallies import (
    FleetTally,
    Stopped,
    Subject,
    bounded,
    outcomes_of,
    read_tallies,
    write_tallies,
)
from forewarn.monitors.guarding.decision import Decision, Turn
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.loop.alerts import LOGGER


class Counted(NamedTuple):
    """The counts of one or more runs for one model.

    Args:
        tally: The transition counts.
        beyond: The number of transitions that were not stored, because there were too
            many.
        stopped_by: The number of runs in which the guard intervened, by the law that
            caused the intervention.
        after_stops: For each risk band at the intervention, the number of runs and the
            number of those that broke a law afterwards.
    """

    tally: Tally
    beyond: int
    stopped_by: Mapping[str, int]
    after_stops: Mapping[str, Stopped] = MappingProxyType({})


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
                there = {
                    each.subject: Counted(
                        each.tally(), each.beyond, each.stopped_by, each.after_stops
                    )
                    for each in kept
                }
                tallies = [
                    FleetTally.of(
                        own_id, subject, bounded(tally), beyond, stopped_by, after
                    )
                    for subject, (tally, beyond, stopped_by, after) in _added(
                        there, waiting
                    ).items()
                ]
                write_tallies(self.path, tallies)
            except (OSError, InvalidInput) as error:
                logging.getLogger(LOGGER).warning("the tally waits: %s", error)
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
    found: dict[Subject, Counted] = {}
    for subject in dict.fromkeys([*one, *other]):
        total, beyond, stops = Tally(), 0, Counter[str]()
        parts = [each[subject] for each in (one, other) if subject in each]
        for part in parts:
            total.add(part.tally)
            beyond += part.beyond
            stops.update(part.stopped_by)
        after = outcomes_of(part.after_stops for part in parts)
        found[subject] = Counted(total, beyond, stops, after)
    return found


class Tallying(Listener):
    """Counts the transitions of runs in a tally file.

    Args:
        watch: The watch of the guard, which tracks the current state.
        file: The tally file.
    """

    def __init__(self, watch: Watch, file: TallyFile) -> None:
        self._parts, self._file = watch.parts, file
        self._live: list[tuple[Subject, LiveTally, Callable[[int], str]]] = []
        for part in watch.parts:
            live = LiveTally()
            self._live.append(
                (Subject.of(part.model), live, part.abstraction.state_name)
            )
        self._frames = 0
        self._stop: Decision | None = None
        self._broke = False

    def began(self, run: Run) -> None:
        """Starts counting the transitions of a run."""
        self._stop, self._broke = None, False
        for part, (_, live, _) in zip(self._parts, self._live, strict=True):
            part.tally = live

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Counts a frame, and writes the counts at intervals."""
        self._broke |= self._stop is not None and bool(decision.violated)
        self._frames += 1
        if self._frames % EVERY == 0:
            self._hand_over(ended=False)

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        """Remembers the first intervention of a run."""
        if self._stop is None and not turn.passes:
            self._stop = turn.decision

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Writes the counts; the end of the run is not counted if the run failed."""
        self._hand_over(ended=facts.get("error") is None, stop=self._stop)
        for part in self._parts:
            part.tally = None

    def _hand_over(self, ended: bool, stop: Decision | None = None) -> None:
        stops: dict[str, int] = {}
        after: dict[str, Stopped] = {}
        if stop is not None:
            at = "" if stop.risk is None else f"{EDGES[number_of(stop.risk.point)]:g}"
            stops, after = {stop.law: 1}, {at: (1, int(self._broke))}
        counted: dict[Subject, Counted] = {}
        for subject, live, name in self._live:
            tally = live.take(name, ended)
            if tally.frames or tally.ends or stops:
                counted[subject] = Counted(tally, live.beyond, stops, after)
                live.beyond = 0
        if counted:
            self._file.add(counted)
