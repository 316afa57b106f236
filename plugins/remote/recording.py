"""Run records of what a served guard decided: one file an episode."""

from __future__ import annotations

import hashlib
import platform
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from forewarn.abstractions.files import read_bytes
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.replay import model_file
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
        self._digest = hashlib.sha256(read_bytes(model)).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model, model_file(folder / "any", self._digest))
        self._lock = threading.Lock()
        self._count = 0

    @contextmanager
    def lend(self, provides: Provides) -> Iterator[Guard]:
        """A guard whose reviews are recorded until it is given back."""
        with self._lend(provides) as guard:
            record = self._record(guard, provides)
            guard.observers.append(record)
            try:
                yield guard
            finally:
                guard.observers.remove(record)
                record.close()

    def _record(self, guard: Guard, provides: Provides) -> RunRecord:
        header = {
            "model": {"sha256": self._digest},
            "policy": guard.policy.as_dict(),
            "laws": [law.name for law in guard.watch.laws],
            "provides": None if provides is None else list(provides),
            "source": "guard/1",
        }
        now = datetime.now(UTC)
        machine = {"began": now.isoformat(), "host": platform.node()}
        return RunRecord(self._next(now), header, machine)

    def _next(self, now: datetime) -> Path:
        with self._lock:
            self._count += 1
            return self._folder / f"{now:%Y%m%dT%H%M%S}-{self._count:04}.jsonl"
