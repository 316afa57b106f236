"""Renders the tables of measured figures on the pages from files of results.

    python docs/tables.py                       renders the tables of all pages
    python docs/tables.py NAME … -- COMMAND …   stores the tables that COMMAND prints
    python docs/tables.py --rows NAME … -- …    stores the rows that COMMAND prints, and
                                                keeps the rows of other scenarios

A page marks a table with `<!-- figures: NAME -->` and `<!-- end -->`. The table's
results are in `docs/figures/NAME.json`, with the date and the command that prints them.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "figures"
MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)


class Results(TypedDict):
    """The content of a file of results."""

    command: str
    measured: str
    columns: list[str]
    rows: list[list[str]]


def pages() -> Iterator[Path]:
    """Yields the pages that may contain tables of results."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def results(name: str) -> Results:
    """Returns the stored results with this name."""
    content: Results = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return content


def rendered(page: str) -> str:
    """Returns the page with every marked table rendered from its results."""

    def filled(mark: re.Match[str]) -> str:
        return f"{mark[1]}\n{''.join(_lines(results(mark[2])))}\n{mark[3]}"

    return MARKED.sub(filled, page)


def _lines(found: Results) -> Iterator[str]:
    for row in (found["columns"], ["---"] * len(found["columns"]), *found["rows"]):
        line = "|".join(f" {cell} " if cell else " " for cell in row)
        yield f"|{line}|\n".replace(" --- ", "---")


def printed(output: str) -> list[list[list[str]]]:
    """Returns the tables in a command's output.

    The output contains tables in Markdown, or a single table in aligned columns.
    """
    lines = [line.strip() for line in output.splitlines()]
    if any(line.startswith("|") for line in lines):
        groups = groupby(lines, key=lambda line: line.startswith("|"))
        return [_cells(table) for marked, table in groups if marked]
    split = [re.split(r" {2,}", line) for line in lines]
    widest = max(map(len, split))
    return [[row for row in split if len(row) == widest > 1]]


def _cells(lines: Iterable[str]) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if not set("".join(row)) <= set("-:")]


def store(names: list[str], command: list[str], merge: bool = False) -> None:
    """Runs the command, and stores the first table of its output under the first name,
    the second table under the second name, and so on.

    If `merge` is true, rows of scenarios that the command does not measure are kept,
    and so is the stored command, which measures all scenarios.
    """
    found = printed(_output(command))
    if len(found) < len(names):
        raise SystemExit(f"the command prints {len(found)} tables, not {len(names)}")
    measured = {_scenario(row) for table in found for row in table[1:]}
    commit = _output(["git", "rev-parse", "--short", "HEAD"]).strip()
    for name, (columns, *rows) in zip(names, found, strict=False):
        content = Results(
            command=shlex.join(command).replace(sys.executable, "python"),
            measured=f"{datetime.now(UTC):%Y-%m-%d}, at commit {commit}",
            columns=columns,
            rows=rows,
        )
        if merge:
            before = results(name)
            content["command"] = before["command"]
            content["rows"] = merged(before["rows"], rows, measured)
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (RESULTS / f"{name}.json").write_text(text + "\n", "utf-8")


def merged(
    stored: list[list[str]], rows: list[list[str]], measured: set[str]
) -> list[list[str]]:
    """Returns the stored rows, with the rows of measured scenarios replaced."""
    places = [i for i, row in enumerate(stored) if _scenario(row) in measured]
    at = places[0] if places else len(stored)
    kept = [row for row in stored[at:] if _scenario(row) not in measured]
    return [*stored[:at], *rows, *kept]


def _scenario(row: list[str]) -> str:
    return row[0].split(",")[0]


def _output(command: list[str]) -> str:
    done = subprocess.run(  # noqa: S603
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1:]:
        dashes, merge = sys.argv.index("--"), sys.argv[1] == "--rows"
        store(sys.argv[1 + merge : dashes], sys.argv[dashes + 1 :], merge)
    for path in pages():
        path.write_text(rendered(path.read_text("utf-8")), "utf-8")
