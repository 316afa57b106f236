"""Tables of measured figures on the pages, each rendered from a file of results.

    python docs/tables.py                      renders the tables of all pages
    python docs/tables.py NAME -- COMMAND …    runs COMMAND, stores the table it prints

A page marks a table with `<!-- figures: NAME -->` and `<!-- end -->`. Its results are
in `docs/figures/NAME.json`, with the command that prints them and the date.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "figures"
MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->\n\n).*?(\n<!-- end -->)", re.S)


class Results(TypedDict):
    """The content of a file of results."""

    command: str
    measured: str
    columns: list[str]
    rows: list[list[str]]


def pages() -> Iterator[Path]:
    """The pages that may show results."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def results(name: str) -> Results:
    """The results of that name."""
    content: Results = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return content


def rendered(page: str) -> str:
    """The page with every marked table rendered from its results."""
    return MARKED.sub(lambda m: m[1] + "".join(_lines(results(m[2]))) + m[3], page)


def _lines(found: Results) -> Iterator[str]:
    for row in (found["columns"], ["---"] * len(found["columns"]), *found["rows"]):
        line = "|".join(f" {cell} " if cell else " " for cell in row)
        yield f"|{line}|\n".replace(" --- ", "---")


def printed(output: str) -> list[list[str]]:
    """The first table in a command's output, in Markdown or in aligned columns."""
    lines = [line.strip() for line in output.splitlines()]
    if rows := [line for line in lines if line.startswith("|")]:
        cells = [[c.strip() for c in row.strip("|").split("|")] for row in rows]
        return [row for row in cells if not set("".join(row)) <= set("-:")]
    split = [re.split(r" {2,}", line) for line in lines]
    widest = max(map(len, split))
    return [row for row in split if len(row) == widest > 1]


def store(name: str, command: list[str]) -> None:
    """Runs the command, and stores the table that it prints."""
    columns, *rows = printed(_output(command))
    commit = _output(["git", "rev-parse", "--short", "HEAD"]).strip()
    found = Results(
        command=shlex.join(command).replace(sys.executable, "python"),
        measured=f"{datetime.now(UTC):%Y-%m-%d}, at commit {commit}",
        columns=columns,
        rows=rows,
    )
    text = json.dumps(found, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", "utf-8")


def _output(command: list[str]) -> str:
    done = subprocess.run(  # noqa: S603
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1:]:
        store(sys.argv[1], sys.argv[3:])
    for path in pages():
        path.write_text(rendered(path.read_text("utf-8")), "utf-8")
