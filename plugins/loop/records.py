"""Run records: what a replay needs of a run, and the model that it was made with."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forewarn import __version__
from forewarn.abstractions.files import atomic_bytes, read_bytes
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.replay import model_file


def digest_of(model: Path) -> str:
    """The SHA-256 of a model file's content."""
    return hashlib.sha256(read_bytes(model)).hexdigest()


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
    guard: Guard,
    model: Mapping[str, Any],
    *,
    source: str,
    scenario: Mapping[str, Any] | None = None,
    seed: int | None = None,
    laws: Sequence[str] | None = None,
    vocabulary: str | None = None,
    period_s: float | None = None,
    provides: Sequence[str] | None = None,
) -> RunRecord:
    """A run record that `forewarn replay` can derive again.

    Args:
        path: Its file.
        guard: Whose decisions it is of.
        model: The digest of the model, which is kept beside it, and its name.
        source: What the frames come from.
        scenario: What was run, by its name.
        seed: Of the episode.
        laws: Those that were asked for; by default all that are watched.
        vocabulary: That of the frames.
        period_s: The time between two frames.
        provides: The signals that the source says it carries.
    """
    watched = [each.law.reference for each in guard.watch.laws]
    header: dict[str, Any] = {
        "scenario": scenario,
        "seed": seed,
        "mode": "shadow" if guard.policy.shadow else "guarded",
        "model": dict(model),
        "policy": guard.policy.as_dict(),
        "laws": watched if laws is None else list(laws),
        "source": source,
        "vocabulary": vocabulary,
        "period_s": period_s,
    }
    said = {name: value for name, value in header.items() if value is not None}
    said["provides"] = None if provides is None else list(provides)
    if guard.judges:
        said["judges"] = [judge.as_dict() for judge in guard.judges]
    return RunRecord(path, said, machine_facts())


def machine_facts() -> dict[str, str]:
    """What a record says of this machine and moment, outside its hashes."""
    return {
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "forewarn": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
