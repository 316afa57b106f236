"""Tallies of a guarded loop: what it saw while nobody stepped in, kept in a file.

The file can be taken away at any time; what is counted later begins another one, with
an id of its own.
"""

from __future__ import annotations

import logging
import secrets
import threading
from pathlib import Path

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.chains.learning import Tally
from forewarn.monitors.chains.model import Model
from forewarn.monitors.chains.tallying import LiveTally
from forewarn.monitors.fleet.tallies import FleetTally, Subject, read_tally
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.loop.alerts import LOGGER

EVERY = 6_000
"""An episode that goes on is written whenever so many frames were read."""


class TallyFile:
    """Where guards put what they counted. Several may, from threads of their own.

    Args:
        path: The file; gzipped if it ends in .gz. One that is there is continued.
        model: That of the guards.
        own_id: The id of a tally that begins; by default one that nobody else has.
    """

    def __init__(self, path: Path, model: Model, own_id: str | None = None) -> None:
        self.path, self._own_id = path, own_id
        self.subject = Subject.of(model)
        self._lock = threading.Lock()
        self._waiting, self._beyond = Tally(), 0
        if path.exists():
            self.subject.refuse_other(read_tally(path).subject, str(path))

    def add(self, tally: Tally, beyond: int = 0) -> None:
        """Writes what was counted; what cannot be written waits for the next time."""
        with self._lock:
            self._waiting.add(tally)
            self._beyond += beyond
            try:
                kept = self._kept()
                total = Tally() if kept is None else kept.tally()
                total.add(self._waiting)
                beyond = self._beyond + (0 if kept is None else kept.beyond)
                own_id = self._new_id() if kept is None else kept.id
                FleetTally.of(own_id, self.subject, total, beyond).write(self.path)
            except (OSError, InvalidInput) as error:
                logging.getLogger(LOGGER).warning("the tally waits: %s", error)
                return
            self._waiting, self._beyond = Tally(), 0

    def _kept(self) -> FleetTally | None:
        if not self.path.exists():
            return None
        kept = read_tally(self.path)
        self.subject.refuse_other(kept.subject, str(self.path))
        return kept

    def _new_id(self) -> str:
        return self._own_id or secrets.token_hex(10)


class Tallying:
    """Counts the episodes of one loop into a file.

    Args:
        watch: The loop's; it hears of every state.
        file: Where the counts go.
    """

    def __init__(self, watch: Watch, file: TallyFile) -> None:
        self._watch, self._file = watch, file
        self._live = watch.tally = LiveTally()
        self._name = watch.abstraction.state_name
        self._frames = 0

    def read(self) -> None:
        """A frame was read; now and then what was counted is written."""
        self._frames += 1
        if self._frames % EVERY == 0:
            self._hand_over(ended=False)

    def end(self, whole: bool = True) -> None:
        """The episode is over.

        Args:
            whole: Whether it came to its end; otherwise it was broken off.
        """
        self._hand_over(whole)

    def leave(self) -> None:
        """No longer hears of anything."""
        self._watch.tally = None

    def _hand_over(self, ended: bool) -> None:
        tally = self._live.take(self._name, ended)
        if tally.frames or tally.ends:
            self._file.add(tally, self._live.beyond)
            self._live.beyond = 0
