"""`forewarn rules mark`: a person's word on a run, as a label to evolve from."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.rules.options import FILE
from forewarn.cli.support import emit, json_option


@click.command()
@click.argument("run", type=FILE)
@click.option(
    "--as",
    "mark_as",
    type=click.Choice(["false-alarm", "miss", "safe", "unsafe"]),
    help="A false alarm makes the run safe, a miss makes it unsafe.",
)
@click.option("--trace", "name", help="Of a file of labelled traces: which one.")
@click.option(
    "--answers",
    is_flag=True,
    help="Take what people answered to `ask` in this run: approved is safe, rejected"
    " unsafe.",
)
@click.option("--note", default="", help="Why, for whoever reads the label.")
@click.option(
    "--out", type=FILE, required=True, help="Labelled traces; they are added to it."
)
@json_option
def mark(
    run: Path,
    mark_as: str | None,
    name: str | None,
    answers: bool,
    note: str,
    out: Path,
    as_json: bool,
) -> None:
    """Labels a RUN: a run record, or a trace in a file of labelled traces.

    A later label of the same run replaces the one before.

    \b
    Example:
      forewarn rules mark out/run.jsonl --as false-alarm --out labels.jsonl
      forewarn rules evolve --traces labels.jsonl --domain household …
    """
    from forewarn.monitors.rules.marking import (
        MARKS,
        answered,
        keep,
        marked_run,
        marked_trace,
    )

    if answers == (mark_as is not None):
        raise click.UsageError("give either --as or --answers")
    if answers and name:
        raise click.UsageError("--answers is of a run record, not of a trace")
    if mark_as is None:
        rows = answered(run)
    else:
        said = next(each for each in MARKS if each == mark_as)
        rows = [
            marked_trace(run, name, said, note) if name else marked_run(run, said, note)
        ]
    total = keep(out, rows) if rows else 0
    payload = {
        "marked": [{"id": row["id"], "label": row["label"]} for row in rows],
        "out": str(out),
        "traces": total,
    }
    lines = [f"{row['id']}: {row['label']}" for row in rows] or ["nobody was asked"]
    emit(as_json, payload, lines)
