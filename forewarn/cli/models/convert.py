"""`forewarn convert`: traces from JSON Lines into columns, and back."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.support import Place, emit, json_option, left_out, progress


@click.command()
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    metavar="TRACES…",
    type=Place(exists=True),
)
@click.option(
    "--out", type=Place(file_okay=False), required=True, help="The folder they go to."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["columns", "jsonl"]),
    help="columns: Parquet, for everything large; jsonl: a file a run, for people. By"
    " default what the first source is not.",
)
@json_option
def convert(
    sources: tuple[Path, ...], out: Path, kind: str | None, as_json: bool
) -> None:
    """Write TRACES in the other format; nothing is lost either way.

    TRACES are files, or folders of nothing but traces: JSON Lines, CSV, LawBreaker's
    JSON, or Parquet files as `forewarn collect` writes them.

    \b
    Examples:
      forewarn convert runs/*.jsonl.gz --out columns
      forewarn convert columns --out lines
    """
    from forewarn.abstractions.dataset.layout import SUFFIX
    from forewarn.abstractions.readers.stored import (
        files_in,
        stored_runs,
        to_columns,
        to_lines,
    )

    left_out(sources)
    files = [file for source in sources for file in files_in(source)]
    if kind is None:
        kind = "jsonl" if files[0].suffix == SUFFIX else "columns"
    runs = stored_runs(files)
    converted = to_columns(runs, out) if kind == "columns" else to_lines(runs, out)
    written = list(dict.fromkeys(progress(converted, "runs converted", len(runs))))
    size = sum(path.stat().st_size for path in written)
    payload = {
        "format": kind,
        "runs": len(runs),
        "files": [str(path) for path in written],
        "bytes": size,
    }
    what = "file" if len(written) == 1 else "files"
    line = f"{out}: {len(runs)} runs in {len(written)} {what}, {size:,} bytes"
    emit(as_json, payload, [line])
