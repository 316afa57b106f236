"""Run records of what a served guard decided: one file an episode."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.record import RunRecord
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.loop.records import keep_model, open_record
from forewarn.plugins.remote.messages import Hello
from forewarn.plugins.remote.session import Lend, Provides


class Recorder:
    """Records every episode of the guards that it lends on, ready to be replayed.

    Args:
        lend: Where the guards come from.
        folder: Where the records go, with a copy of the model.
        model: The model's file.
    """

    def __init__(self, lend: Lend, folder: Path, model: Path) -> None:
        self._lend, self._folder = lend, folder
        self._facts = {"sha256": keep_model(model, folder), "name": model.name}

    @contextmanager
    def lend(self, hello: Hello) -> Iterator[GuardedLoop]:
        """A loop that is recorded until it is given back."""
        with self._lend(hello) as loop:
            loop.keep(self._record(loop.guard, hello.provides))
            try:
                yield loop
            finally:
                loop.close("the loop was gone")

    def _record(self, guard: Guard, provides: Provides) -> RunRecord:
        return open_record(
            self._next(),
            guard,
            self._facts,
            source="guard/1",
            provides=provides,
        )

    def _next(self) -> Path:
        began = f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
        # Others may record in the same folder in the same second.
        return self._folder / f"{began}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
