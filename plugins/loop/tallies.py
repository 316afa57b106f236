"""Tallies of a guarded loop: what it saw while nobody stepped in, kept in a file.

The file can be taken away at any time; what is counted later begins another one, with
an id of its own.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.chains.learning import LiveTally, Tally
from forewarn.monitors.chains.model import Model
from forewarn.monitors.fleet.tallies import (
    FleetTally,
    Subject,
    bounded,
    read_tallies,
    write_tallies,
)
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.loop.alerts import LOGGER

Counted = tuple[Tally, int]
"""What was counted, and how many transitions were not kept."""

EVERY = 6_000
"""An episode that goes on is written whenever so many frames were read."""


class TallyFile:
    """Where guards put what they counted. Several may, from threads of their own.

    Args:
        path: The file; gzipped if it ends in .gz. One that is there is continued.
        models: Those of the guards.
        own_id: The id of a tally that begins; by default one that nobody else has.
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
        """Writes what was counted; what cannot be written waits for the next time."""
        with self._lock:
            waiting = _added(self._waiting, counted)
            try:
                kept = self._kept() if self.path.exists() else []
                own_id = kept[0].id if kept else self._new_id()
                there = {each.subject: (each.tally(), each.beyond) for each in kept}
                tallies = [
                    FleetTally.of(own_id, subject, bounded(tally), beyond)
                    for subject, (tally, beyond) in _added(there, waiting).items()
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
        total, beyond = Tally(), 0
        for tally, more in (each[subject] for each in (one, other) if subject in each):
            total.add(tally)
            beyond += more
        found[subject] = total, beyond
    return found


class Tallying(Listener):
    """Counts runs into a file.

    Args:
        watch: The guard's; it is told of every state.
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

    def began(self, run: Run) -> None:
        """From now on the models' states are counted."""
        for part, (_, live, _) in zip(self._parts, self._live, strict=True):
            part.tally = live

    def decided(self, *_: object) -> None:
        """A frame was read; now and then what was counted is written."""
        self._frames += 1
        if self._frames % EVERY == 0:
            self._hand_over(ended=False)

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Writes what was counted; a run that failed has no end."""
        self._hand_over(ended=facts.get("error") is None)
        for part in self._parts:
            part.tally = None

    def _hand_over(self, ended: bool) -> None:
        counted: dict[Subject, Counted] = {}
        for subject, live, name in self._live:
            tally = live.take(name, ended)
            if tally.frames or tally.ends:
                counted[subject] = tally, live.beyond
                live.beyond = 0
        if counted:
            self._file.add(counted)
