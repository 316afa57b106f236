"""`forewarn replay`: every decision of a run record, derived again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from forewarn.cli.support import emit, json_option

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("record", type=_FILE)
@click.option(
    "--model",
    type=_FILE,
    help="The model that it was made with; by default the copy kept beside it.",
)
@json_option
def replay(record: Path, model: Path | None, as_json: bool) -> None:
    """Derive every decision of the run record RECORD again, and compare.

    Exit status 1 names the first decision that comes out differently, and in which
    field.

    \b
    Example:
      forewarn replay forewarn-runs/tiny-road-*-000000.run.jsonl
    """
    from forewarn.monitors.guarding.replay import replay as derive
    from forewarn.plugins.loop.judges import make_judge

    alike, divergence = derive(record, model, make_judge=make_judge)
    payload = {
        "record": str(record),
        "decisions": alike,
        "divergence": None if divergence is None else asdict(divergence),
    }
    lines = [f"{record}: {alike} decisions, all as recorded"]
    if divergence is not None:
        lines = [f"{record}: {divergence}", f"{alike} decisions before it are alike"]
    emit(as_json, payload, lines)
    if divergence is not None:
        raise SystemExit(1)
