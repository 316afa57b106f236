"""Prints results as text or JSON, tables, and progress."""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from forewarn.abstractions.errors import (
    clean,
)

if TYPE_CHECKING:
    from forewarn.scenarios.measuring.shown import Shown

Item = TypeVar("Item")

NAME_WIDTH = 40


def several(count: int, noun: str) -> str:
    """Returns a count with its noun, as in "1 run" or "1,200 runs"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def wants_json() -> bool:
    """Whether --json was given to the running command."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.params.get("as_json"))


def say(payload: Any, lines: Iterable[str], *, found: object = False) -> None:
    """Prints a result: a line of JSON with --json, otherwise lines of text.

    Args:
        payload: The result as JSON.
        lines: The result as text.
        found: If true, the command exits with status 1, because a check found
            something.
    """
    if wants_json():
        click.echo(json.dumps(payload, allow_nan=False))
    tell(lines)
    sys.stdout.flush()
    if found:
        raise SystemExit(1)


def tell(lines: Iterable[str]) -> None:
    """Prints lines of text; prints nothing with --json."""
    if not wants_json():
        for line in lines:
            click.echo(clean(line))


def say_each(
    results: Sequence[tuple[Any, Iterable[str]]],
    key: str = "models",
    *,
    also: Mapping[str, Any] | None = None,
    last: Iterable[str] = (),
    found: object = False,
) -> None:
    """Prints several results, with an empty line between them.

    Args:
        results: Each result as JSON and as text.
        key: With --json, the key of the list of results; a single result is not put in
            a list.
        also: More facts for the JSON.
        last: More lines of text.
        found: As in `say`.
    """
    payloads = [payload for payload, _ in results]
    lines: list[str] = []
    for _, some in results:
        lines += [*([""] if lines else []), *some]
    payload = payloads[0] if len(payloads) == 1 else {key: payloads}
    say({**payload, **(also or {})}, [*lines, *last], found=found)


def note(text: str) -> None:
    """Prints a line to standard error."""
    click.echo(clean(text), err=True)


def left_out(folders: Iterable[Path]) -> list[str]:
    """Warns about runs in these folders that are not read; returns the warnings."""
    from forewarn.abstractions.dataset.writing import (
        pending,
    )

    told = [
        (
            f"{folder}: {count} runs of an interrupted or still running `forewarn "
            "collect` are left out; run that `collect` again to include them"
        )
        for folder in folders
        if (count := pending(folder))
    ]
    for sentence in told:
        note(f"warning: {sentence}")
    return told


def shown(law: str) -> str:
    """Returns the name of a law, truncated if it is a long formula."""
    return law if len(law) <= NAME_WIDTH else law[: NAME_WIDTH - 1] + "…"


def figure(value: float | None, form: str = "{:.2f}") -> str:
    """Formats a number for a table; a dash if it is unknown."""
    return "-" if value is None else form.format(value)


def part_of(part: int, whole: int) -> str:
    """Formats a count out of a total."""
    return f"{part} of {whole}"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    most: int | None = None,
    more: str = "… and {} more; --json lists all.",
) -> list[str]:
    """Formats a table as lines; numbers are right-aligned, other columns left-aligned.

    Args:
        head: The names of the columns.
        rows: The cells.
        most: Maximum number of rows.
        more: The line about omitted rows; `{}` is replaced with their number.
    """
    body = [["-" if c is None else clean(str(c)) for c in row] for row in rows]
    left = 0 if most is None else max(len(body) - most, 0)
    body = body[:most]
    columns = list(zip(head, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [
        bool(cells) and all(_NUMBER.fullmatch(cell) for cell in cells)
        for _, *cells in columns
    ]
    lines = [
        "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(head), *body]
    ]
    return [*lines, more.format(left)] if left else lines


_NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?( ?(%|s|ms|µs))?|-|")


def tabled(
    columns: Mapping[str, Callable[[Any], object]], rows: Iterable[Any]
) -> list[str]:
    """Formats a table whose columns are functions from a row to a cell."""
    return table(
        list(columns), [[read(row) for read in columns.values()] for row in rows]
    )


def printed(found: Iterable[Shown]) -> Iterator[str]:
    """Yields sentences and tables as lines of text; long names of laws are
    truncated.
    """
    for each in found:
        if isinstance(each, str):
            yield each
        else:
            short = [
                [shown(c) if isinstance(c, str) else c for c in r] for r in each.rows
            ]
            yield from table(each.head, short)


def progress(
    items: Iterable[Item],
    what: str,
    total: int | None = None,
    also: Callable[[], str] | None = None,
) -> Iterator[Item]:
    """Yields the items; prints progress to standard error if they take long.

    The progress line shows the count, the rate per second, the time left and the peak
    memory use. On a terminal, this line is updated in place; elsewhere, a new line is
    printed every ten seconds.

    Args:
        items: The items to yield.
        what: What the items are, such as "frames".
        total: The total number of items, if known.
        also: A function that returns additional text.
    """
    terminal = sys.stderr.isatty()
    pause = 0.1 if terminal else 10.0
    due = time.monotonic() + (0.5 if terminal else pause)
    # Items that exist already arrive immediately, so they must not affect the rate.
    first: tuple[float, int] | None = None
    of = f" of {total:,}" if total is not None else ""
    try:
        for count, item in enumerate(items):
            now = time.monotonic()
            if now >= due:
                due = now + pause
                head, tail = ("\r\x1b[K", "") if terminal else ("", "\n")
                more = clean(also()) if also is not None else ""
                more += _pace(first, (now, count), total) + _memory()
                first = first or (now, count)
                line = f"{clean(what)}: {count:,}{of}{more}"
                click.echo(f"{head}{line}{tail}", err=True, nl=False)
            yield item
    finally:
        if first is not None and terminal:
            click.echo("\r\x1b[K", err=True, nl=False)


def _pace(
    first: tuple[float, int] | None, now: tuple[float, int], total: int | None
) -> str:
    """Returns the rate per second and the time left, as text."""
    if first is None or now[1] == first[1] or now[0] == first[0]:
        return ""
    rate = (now[1] - first[1]) / (now[0] - first[0])
    told = f", {rate:,.0f}/s" if rate >= 10 else f", {rate:.2g}/s"
    if total is None or total < now[1]:
        return told
    left_s = round((total - now[1]) / rate)
    hours, minutes = divmod(left_s // 60, 60)
    clock = f"{hours}:{minutes:02}" if hours else f"{minutes}"
    return f"{told}, {clock}:{left_s % 60:02} left"


def _memory() -> str:
    """Returns the peak memory use so far, as text."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return f", {used / (1 << 20 if sys.platform == 'darwin' else 1 << 10):,.0f} MiB"
