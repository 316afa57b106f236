"""`forewarn replay`: every decision of a run record, derived again."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from forewarn.cli.guarding.records import Looked, each_record, record_argument
from forewarn.cli.support import json_option

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@record_argument
@click.option(
    "--model",
    type=_FILE,
    help="The model that it was made with; by default the copy kept beside it.",
)
@json_option
def replay(record: Path, model: Path | None, as_json: bool) -> None:
    """Derive every decision of RECORD again, a run record or a folder of them.

    Exit status 1 names the first decision that comes out differently, and in which
    field.

    \b
    Example:
      forewarn replay forewarn-runs
    """
    each_record(record, as_json, partial(_derived, model=model))


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
    lines = [f"{record}: {divergence}", f"{alike} decisions before it are alike"]
    return payload, lines, False
