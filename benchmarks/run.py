"""Measures the figures on the pages, and other tools for comparison in the same run.

Prints a table and then all missed targets. A missed target does not make the command
fail, because times depend on the machine. Run this on an otherwise idle machine.

    python benchmarks/run.py [--quick] [TOPIC ...]
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.files import read_json, write_json
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model

ROOT = Path(__file__).parents[1]
TOPICS = (
    "fleet", "guard", "household", "driving", "measuring", "carla_client", "apollo",
    "rules", "programs",
)  # fmt: skip
HEAD = ("what", "bar", "measured", "peer", "its figure", "ratio", "bar")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Args:
        what: The measured quantity.
        measured: The time in seconds; with `rate`, a number per second.
        bar: The target: a maximum, or with `rate` a minimum; None for no target.
        peer: The tool measured for comparison in the same run, or why there is none.
        peer_measured: The figure of the peer, in the same unit.
        least_ratio: The minimum factor by which the figure must beat the peer.
        rate: Whether higher is better.
    """

    what: str
    measured: float
    bar: float | None = None
    peer: str = ""
    peer_measured: float | None = None
    least_ratio: float | None = None
    rate: bool = False

    @property
    def ratio(self) -> float | None:
        """The factor by which the figure beats the peer."""
        if self.peer_measured is None:
            return None
        if self.rate:
            return self.measured / self.peer_measured
        return self.peer_measured / self.measured

    def misses(self) -> Iterator[str]:
        """Describes each missed target."""
        if self.bar is not None:
            worse = self.bar / self.measured if self.rate else self.measured / self.bar
            if worse > 1:
                yield f"misses its target by a factor of {worse:.2g}"
        if self.ratio is not None and self.ratio < (self.least_ratio or 0.0):
            yield (
                f"is {self.ratio:.3g} times as fast as its peer ({self.peer});"
                f" the target is {self.least_ratio:g}"
            )

    def cells(self) -> tuple[str, ...]:
        def shown(value: float | None, unit: Callable[[float], str]) -> str:
            return "" if value is None else unit(value)

        return (
            self.what,
            shown(self.bar, self._figure),
            self._figure(self.measured),
            self.peer,
            shown(self.peer_measured, self._figure),
            shown(self.ratio, lambda r: f"{r:,.0f}x" if r >= 100 else f"{r:.2g}x"),
            shown(self.least_ratio, lambda r: f"{r:g}x"),
        )

    def _figure(self, value: float) -> str:
        """Formats a time or a rate with three digits and a suitable unit."""
        units = (
            ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s"), (1.0, "/s"))
            if self.rate
            else ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
        )
        size, unit = next((u for u in units if value >= u[0]), units[-1])
        return f"{value / size:.3g} {unit}"


def command_line(about: str | None, *tables: Callable[..., Iterable[str]]) -> None:
    """Prints the lines of a table, whose options are the parameters of its function.

    With several functions, the first argument names one of them. `scenarios` and
    parameters without a default that may be passed by position are positional.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if len(tables) == 1:
        _add_options(parser, tables[0])
    else:
        commands = parser.add_subparsers(required=True, metavar="TABLE")
        for table in tables:
            name = table.__name__.replace("_", "-")
            _add_options(commands.add_parser(name, help=table.__doc__), table)
    given = vars(parser.parse_args())
    table = given.pop("table")
    for line in table(**given):
        print(line, flush=True)


def _add_options(
    parser: argparse.ArgumentParser, table: Callable[..., Iterable[str]]
) -> None:
    parser.set_defaults(table=table)
    kinds = get_type_hints(table)
    for name, each in signature(table).parameters.items():
        flag, required = "--" + name.replace("_", "-"), each.default is each.empty
        kind, *_ = get_args(kinds[name]) or (kinds[name],)
        if name == "scenarios":
            parser.add_argument(name, nargs="*", default=each.default)
        elif required and each.kind is not each.KEYWORD_ONLY:
            parser.add_argument(name, type=kind)
        elif kind is bool:
            parser.add_argument(flag, action="store_true")
        else:
            default = None if required else each.default
            parser.add_argument(flag, type=kind, default=default, required=required)


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yields the lines of a table in Markdown."""
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield f"| {' | '.join(cells)} |"


def stored(out: Path, names: Sequence[str], measure: Callable[[str], Any]) -> list[Any]:
    """Returns the figures of each scenario; those in the folder are not measured
    again.
    """
    for name in names:
        path = out / f"{name}.json"
        if not path.exists():
            write_json(path, measure(name))
    return [read_json(out / f"{name}.json") for name in names]


def seconds(run: Callable[[], object], *, repeat: int = 15, number: int = 1) -> float:
    """Returns the median time of a call, over batches of `number` calls."""
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(number):
            run()
        times.append((time.perf_counter() - start) / number)
    return statistics.median(times)


def each_call(run: Callable[[Any], object], inputs: Iterable[Any]) -> list[float]:
    """Returns the time of every call."""
    times = []
    for item in inputs:
        start = time.perf_counter()
        run(item)
        times.append(time.perf_counter() - start)
    return times


def least_cpu(run: Callable[[], object], rounds: int = 3) -> float:
    """Returns the minimum processor time of several calls."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return min(found)


def installed(*modules: str) -> bool:
    return all(find_spec(module) is not None for module in modules)


def learned(
    frames: Sequence[Any],
    predicates: Sequence[str],
    laws: Sequence[str],
    domain: str,
    *,
    period_s: float = 0.1,
    alpha: Fraction = Fraction(1),
) -> Model:
    """Learns a model from one long run that is split into runs of 500 frames."""
    abstraction = from_expressions(predicates, load_vocabulary(domain))
    names = [abstraction.state_name(abstraction.encode(frame)) for frame in frames]
    tally = Tally()
    for begin in range(0, len(names), 500):
        tally.add_sequence(names[begin : begin + 500])
    return learn(
        tally, Support("observed"), alpha, "absorb",
        abstraction=abstraction.as_dict(), period_s=period_s, laws=tuple(laws),
    )  # fmt: skip


@contextmanager
def serving(*arguments: str) -> Iterator[dict[str, Any]]:
    """Starts a command-line server in its own process; yields its first line."""
    command = [sys.executable, "-m", "forewarn.cli", *arguments, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("topics", nargs="*", choices=[*TOPICS, []], metavar="TOPIC")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    rows: list[Row] = []
    for topic in options.topics or TOPICS:
        rows.extend(importlib.import_module(topic).rows(options.quick))
    print(f"Python {platform.python_version()}, {platform.machine()}\n")
    print("\n".join(markdown(HEAD, (row.cells() for row in rows))))
    misses = [f"{row.what}: {miss}" for row in rows for miss in row.misses()]
    print("\nAll targets are met." if not misses else "\nMisses:")
    for miss in misses:
        print(f"  {miss}")


if __name__ == "__main__":
    main()
