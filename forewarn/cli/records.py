"""`forewarn verify` and `replay`: check run records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, mend_of
from forewarn.cli.command import (
    AnyPath,
    File,
    command,
)
from forewarn.cli.printing import (
    say,
)

Looked = tuple[dict[str, Any], Sequence[str], bool]
"""The result of checking a record: as JSON, as text, and whether the check passed."""


def each_record(given: Path, look: Callable[[Path], Looked]) -> None:
    """Checks a run record, or all records in a folder; exits with status 1 if a check
    fails.
    """
    looked = [look(record) for record in _records(given)]
    payloads = [payload for payload, _, _ in looked]
    lines = [line for _, lines, _ in looked for line in lines]
    payload = {"records": payloads} if given.is_dir() else payloads[0]
    say(payload, lines, found=not all(fine for _, _, fine in looked))


def _records(given: Path) -> list[Path]:
    if not given.exists():
        mend = mend_of(FileNotFoundError(), given)
        raise InvalidInput("no such file or folder", source=str(given), mend=mend)
    if not given.is_dir():
        return [given]
    found = sorted(given.glob("*.run.jsonl"))
    if not found:
        raise InvalidInput(
            "this folder contains no run record",
            source=str(given),
            mend=(
                "run records end in .run.jsonl; `forewarn run` prints where it writes "
                "them"
            ),
        )
    return found


@command()
def verify(record: AnyPath, /) -> None:
    """Check the hash chain of RECORD, a run record or a folder of run records.

    The exit status is 1 if the record was changed; the output names the first line that
    was altered, moved or truncated. If the end of a record is missing together with its
    final line, only the last hash reveals this: compare the printed hash with the hash
    that `forewarn run --json` printed.

    \b
    Example:
      forewarn verify forewarn-runs
    """
    each_record(record, _verified)


def _verified(record: Path) -> Looked:
    from forewarn.monitors.guarding.record import BrokenRecord, read_record

    lines, head = 0, ""
    try:
        for line in read_record(record):
            lines, head = line.number, line.content["hash"]
    except BrokenRecord as error:
        broken = {
            "record": str(record),
            "whole": False,
            "problem": error.problem,
            "place": error.place,
            "verified_lines": lines,
        }
        return broken, [str(error), f"Verified up to line {lines}."], False
    whole = {"record": str(record), "whole": True, "lines": lines, "head": head}
    return whole, [f"{record}: {lines} lines, unchanged", f"head {head}"], True


@command()
def replay(record: AnyPath, /, *, model: File | None = None) -> None:
    """Recompute every decision of RECORD, a run record or a folder of run records.

    The exit status is 1 if a decision differs; the output names the first such decision
    and the field.

    \b
    Example:
      forewarn replay forewarn-runs

    Args:
        model: Model of the run (default: the copy next to the record).
    """
    each_record(record, partial(_derived, model=model))


def _derived(record: Path, model: Path | None) -> Looked:
    from forewarn.plugins.loop.replay import replay as derive

    alike, divergence = derive(record, model)
    payload = {
        "record": str(record),
        "decisions": alike,
        "divergence": None if divergence is None else asdict(divergence),
    }
    if divergence is None:
        return payload, [f"{record}: {alike} decisions, all as recorded"], True
    lines = [f"{record}: {divergence}", f"the {alike} decisions before it agree"]
    return payload, lines, False
