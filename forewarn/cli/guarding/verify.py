"""`forewarn verify`: whether a run record is as it was written."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.guarding.records import Looked, each_record, record_argument
from forewarn.cli.support import json_option


@click.command()
@record_argument
@json_option
def verify(record: Path, as_json: bool) -> None:
    """Check the chain of hashes of RECORD, a run record or a folder of them.

    Exit status 1 names the first line that was changed, is out of place or is cut.
    A whole tail that is missing, end line and all, shows only against the head hash
    that was kept elsewhere: it is printed here, and by `forewarn run --json`.

    \b
    Example:
      forewarn verify forewarn-runs
    """
    each_record(record, as_json, _verified)


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
    return whole, [f"{record}: {lines} lines, whole", f"head {head}"], True
