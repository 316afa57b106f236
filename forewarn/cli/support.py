"""What the commands share: options, output for people or machines, progress."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from forewarn.abstractions.errors import InvalidInput, clean

__all__ = [
    "FILE",
    "FOLDER",
    "Count",
    "Number",
    "Place",
    "clean",
    "emit",
    "given_options",
    "json_option",
    "keyed",
    "left_out",
    "naming",
    "numbers",
    "option_group",
    "progress",
    "seed_option",
    "table",
]

Item = TypeVar("Item")
Command = Callable[..., Any]

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


class Place(click.Path):
    """A path, or an address in storage such as `s3://bucket/runs`."""

    def __init__(self, **checks: Any) -> None:
        super().__init__(path_type=Path, **checks)

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if "://" not in str(value):
            return super().convert(value, param, ctx)
        from forewarn.abstractions.places import place

        return place(value)


def left_out(folders: Iterable[Path]) -> list[str]:
    """Says on the terminal which runs in these folders are not read, and returns it."""
    from forewarn.abstractions.dataset.writing import pending

    told = [
        f"{folder}: {count} runs of a `forewarn collect` that was killed, or is under"
        " way, are left out; the same command, given again, takes them in"
        for folder in folders
        if (count := pending(folder))
    ]
    for sentence in told:
        click.echo(f"warning: {sentence}", err=True)
    return told


class Count(click.IntRange):
    """A whole number in a range; help calls it by what it is."""

    name = "count"


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, and nothing else."
)
seed_option = click.option(
    "--seed",
    type=Count(min=0),
    default=0,
    show_default=True,
    help="Seed of everything random.",
)


def option_group(
    name: str, made: type, *options: Callable[[Command], Command]
) -> Callable[[Command], Command]:
    """Options that a command is handed as one value.

    Args:
        name: The command's parameter for it.
        made: A dataclass: its fields are the options' names.
        options: They, in the order of `--help`; a group may be within a group.
    """
    names = [each.name for each in fields(made)]

    def group(command: Command) -> Command:
        @wraps(command)
        def handed(*arguments: Any, **given: Any) -> Any:
            own = {each: given.pop(each) for each in names}
            return command(*arguments, **{name: made(**own)}, **given)

        found: Command = handed
        for option in reversed(options):
            found = option(found)
        return found

    return group


class Number(click.FloatRange):
    """A finite number in a range: click's own lets nan through, and inf."""

    name = "number"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def numbers(most: float) -> Callable[..., tuple[float, ...]]:
    """Reads numbers apart by commas, each within 0 and `most`; an option's callback."""

    def read(ctx: click.Context, param: click.Parameter, value: str) -> Any:
        try:
            found = tuple(float(part) for part in value.split(",") if value)
        except ValueError:
            raise click.BadParameter(
                f"{value!r:.60} is not numbers apart by commas"
            ) from None
        for number in found:
            if not 0 <= number <= most:
                raise click.BadParameter(f"{number:g} is not within 0 and {most:g}")
        return found

    return read


def keyed(texts: Sequence[str], option: str) -> dict[str, Any]:
    """What an option's KEY=VALUE say, each value as YAML has it."""
    from forewarn.abstractions.files import parse_yaml

    given: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(
                f"{option}: {text!r:.60} is not KEY=VALUE (as in speed=3)"
            )
        given[key] = parse_yaml(value, f"{option} {key}") if value else ""
    return given


@contextmanager
def naming(source: object) -> Iterator[None]:
    """Says of what file or option an error is that names none."""
    try:
        yield
    except InvalidInput as error:
        if error.source:
            raise
        raise error.within(str(source)) from None


def given_options(ctx: click.Context) -> dict[str, str]:
    """The options that stand on the command line, by their parameters' names."""
    return {
        option.name: option.opts[0]
        for option in ctx.command.params
        if option.name
        and ctx.get_parameter_source(option.name) == ParameterSource.COMMANDLINE
    }


def emit(as_json: bool, payload: Any, lines: Iterable[str]) -> None:
    """Prints the payload as one line of JSON, or the lines for people."""
    if as_json:
        click.echo(json.dumps(payload, allow_nan=False))
        return
    for line in lines:
        click.echo(clean(line))


def in_seconds(time_s: float | None) -> str:
    """A time as tables have it."""
    return "-" if time_s is None else f"{time_s:.1f} s"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of aligned columns: numbers to the right, words to the left."""
    body = [[clean(str(cell)) for cell in row] for row in rows]
    columns = list(zip(head, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [
        bool(cells) and all(_NUMBER.fullmatch(cell) for cell in cells)
        for _, *cells in columns
    ]
    return [
        "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(head), *body]
    ]


_NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?( ?(%|s|ms|µs))?|-|")


def progress(
    items: Iterable[Item],
    what: str,
    total: int | None = None,
    note: Callable[[], str] | None = None,
) -> Iterator[Item]:
    """The items, with a line on standard error if they take long.

    It says how many there were, how many come in a second and how long the others then
    take, and the memory used. On a terminal one line is rewritten; elsewhere a line
    appears every ten seconds.

    Args:
        items: What is handed on.
        what: They, in words.
        total: How many there are, if that is known.
        note: What else the line says.
    """
    terminal = sys.stderr.isatty()
    pause = 0.1 if terminal else 10.0
    due = time.monotonic() + (0.5 if terminal else pause)
    # What was there already comes at once, and says nothing of the rest.
    first: tuple[float, int] | None = None
    of = f" of {total:,}" if total is not None else ""
    try:
        for count, item in enumerate(items):
            now = time.monotonic()
            if now >= due:
                due = now + pause
                head, tail = ("\r\x1b[K", "") if terminal else ("", "\n")
                more = clean(note()) if note is not None else ""
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
    """How many come in a second, and how long what is left will take."""
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
    """The most that was in use so far; nothing where the system does not say."""
    try:
        import resource
    except ImportError:
        return ""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return f", {used / (1 << 20 if sys.platform == 'darwin' else 1 << 10):,.0f} MiB"
