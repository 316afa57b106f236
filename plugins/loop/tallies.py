"""Tallies of a guarded loop: transitions seen while no intervention was in force, kept
in a file.

The file can be removed at any time; later counts go to a new tally with its own id.
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
    """What was counted.

    Args:
        tally: The transitions.
        beyond: The number of those not kept.
        stopped_by: How many runs an intervention cut off, by law.
        after_stops: How many at a risk in each band, and how many broke a law then.
    """

    tally: Tally
    beyond: int
    stopped_by: Mapping[str, int]
    after_stops: Mapping[str, Stopped] = MappingProxyType({})


EVERY = 6_000
"""An episode that goes on is written whenever so many frames were read."""


class TallyFile:
    """The folder of the guards' tallies. Several may, from threads of their own.

    Args:
        path: The file; gzipped if it ends in .gz. An existing one is continued.
        models: Those of the guards.
        own_id: The id of a new tally (default: a unique one).
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
        """Writes the counts; if that fails, they are kept for the next time."""
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
    """Both together; neither is changed."""
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
    """Counts runs into a file.

    Args:
        watch: The guard's watch, which reports every state.
        file: Where the counts go.
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
        """Counts the models' states from now on."""
        self._stop, self._broke = None, False
        for part, (_, live, _) in zip(self._parts, self._live, strict=True):
            part.tally = live

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """A frame was read; writes the counts at intervals."""
        self._broke |= self._stop is not None and bool(decision.violated)
        self._frames += 1
        if self._frames % EVERY == 0:
            self._hand_over(ended=False)

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        """The first intervention of a run ends its counting."""
        if self._stop is None and not turn.passes:
            self._stop = turn.decision

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Writes the counts; a failed run has no end."""
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
