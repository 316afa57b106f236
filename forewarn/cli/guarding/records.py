"""The run records that a command is given: one file, or a folder of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from forewarn.abstractions.errors import InvalidInput, mend_of
from forewarn.cli.support import emit

record_argument = click.argument("record", type=click.Path(path_type=Path))

Looked = tuple[dict[str, Any], Sequence[str], bool]
"""What a record gave, as JSON and for people, and whether it is as it should be."""


def each_record(given: Path, as_json: bool, look: Callable[[Path], Looked]) -> None:
    """Looks at a record, or at each of a folder; ends with status 1 if one is off."""
    looked = [look(record) for record in _records(given)]
    payloads = [payload for payload, _, _ in looked]
    lines = [line for _, lines, _ in looked for line in lines]
    emit(as_json, {"records": payloads} if given.is_dir() else payloads[0], lines)
    if not all(fine for _, _, fine in looked):
        raise SystemExit(1)


def _records(given: Path) -> list[Path]:
    if not given.exists():
        mend = mend_of(FileNotFoundError(), given)
        raise InvalidInput("no such file or folder", source=str(given), mend=mend)
    if not given.is_dir():
        return [given]
    found = sorted(given.glob("*.run.jsonl"))
    if not found:
        raise InvalidInput(
            "no run record is in this folder",
            source=str(given),
            mend="they end in .run.jsonl; `forewarn run` says where it left them",
        )
    return found
