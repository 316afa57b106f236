"""`forewarn report`: one HTML page of runs, campaigns and measurements."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.support import emit, json_option

NAME = "report.html"


@click.command()
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    metavar="RUN|DIR...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"The page; by default {NAME} in DIR, or beside RUN under its name.",
)
@click.option("--title", default="", help="Its headline.")
@json_option
def report(
    sources: tuple[Path, ...], out: Path | None, title: str, as_json: bool
) -> None:
    """Write one self-contained HTML page about RUN or DIR.

    RUN is a run record, or what `forewarn measure --json` printed, in a file. DIR is
    what `forewarn run --out` or `forewarn measure --out` filled. The page shows each
    run in motion with its risk, its signals, its chain and its laws, and tables for the
    rest. It asks nothing of any network.

    \b
    Examples:
      forewarn report forewarn-runs
      forewarn report forewarn-runs/s1-*-000007.run.jsonl --out run.html
    """
    from forewarn.scenarios.report import write_report

    out = out or _beside(sources[0])
    found = write_report(sources, out, title)
    counts = [
        f"{found[what]} {what if found[what] != 1 else what[:-1]}"
        for what in ("runs", "campaigns", "measurements")
        if found[what]
    ]
    emit(as_json, found, [*found["cautions"], f"{out}: {', '.join(counts)}"])


def _beside(source: Path) -> Path:
    if source.is_dir():
        return source / NAME
    stem = source.name.removesuffix(".json").removesuffix(".run.jsonl")
    return source.with_name(f"{stem}.html")
