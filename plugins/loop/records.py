"""Run records of guards outside a scenario: what a replay needs, and the model."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from forewarn.abstractions.files import atomic_bytes, read_bytes
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.replay import model_file
from forewarn.monitors.guarding.watch import Watch


def keep_model(model: Path, folder: Path) -> str:
    """Copies a model beside the records, if it is not there yet; gives its digest."""
    data = read_bytes(model)
    digest = hashlib.sha256(data).hexdigest()
    copy = model_file(folder / "any", digest)
    if not copy.exists():
        with atomic_bytes(copy) as out:
            out.write(data)
    return digest


def open_record(
    path: Path,
    digest: str,
    policy: Policy,
    watch: Watch,
    *,
    source: str,
    provides: Sequence[str] | None = None,
) -> RunRecord:
    """A run record that `forewarn replay` can derive again.

    Args:
        path: Its file.
        digest: Of the model, which is kept beside it.
        policy: The guard's.
        watch: The guard's.
        source: What the frames come from.
        provides: The signals that it says it carries.
    """
    header = {
        "model": {"sha256": digest},
        "policy": policy.as_dict(),
        "laws": [watched.law.reference for watched in watch.laws],
        "provides": None if provides is None else list(provides),
        "source": source,
    }
    machine = {"began": datetime.now(UTC).isoformat(), "host": platform.node()}
    return RunRecord(path, header, machine)
