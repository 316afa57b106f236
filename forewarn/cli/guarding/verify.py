"""`forewarn verify`: whether a run record is as it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from forewarn.cli.support import emit, json_option


@click.command()
@click.argument("record", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def verify(record: Path, as_json: bool) -> None:
    """Check the chain of hashes of the run record RECORD.

    Exit status 1 names the first line that was changed, is out of place or is cut.
    A whole tail that is missing, end line and all, shows only against the head hash
    that was kept elsewhere: it is printed here, and by `forewarn run --json`.

    \b
    Example:
      forewarn verify forewarn-runs/tiny-road-*-000000.run.jsonl
    """
    from forewarn.monitors.guarding.record import BrokenRecord, read_record

    lines, head = 0, ""
    try:
        for line in read_record(record):
            lines, head = line.number, line.content["hash"]
    except BrokenRecord as error:
        payload: dict[str, Any] = {
            "record": str(record),
            "whole": False,
            "problem": error.problem,
            "place": error.place,
            "verified_lines": lines,
        }
        emit(as_json, payload, [str(error), f"Verified up to line {lines}."])
        raise SystemExit(1) from error
    payload = {"record": str(record), "whole": True, "lines": lines, "head": head}
    emit(as_json, payload, [f"{record}: {lines} lines, whole", f"head {head}"])
