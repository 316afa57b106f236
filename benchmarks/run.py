"""Every figure that Forewarn promises, measured, beside its peers in the same run.

Prints one table and then, plainly, what misses its bar. It never fails for being slow:
the machine decides that. Run it with nothing else going on.

    python benchmarks/run.py [--quick] [TOPIC ...]
"""

from __future__ import annotations

import argparse
import importlib
import platform
from collections.abc import Iterable

from measuring import Row

TOPICS = (
    "fleet", "risk", "online", "guard", "arrays", "remote", "startup", "household",
    "driving_steps", "carla_ticks", "carla_guard", "apollo", "rules", "programs",
    "live",
)  # fmt: skip
HEAD = ("what", "bar", "measured", "peer", "its figure", "ratio", "bar")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("topics", nargs="*", choices=[*TOPICS, []], metavar="TOPIC")
    parser.add_argument(
        "--quick", action="store_true", help="under a minute: the slowest peers rest"
    )
    options = parser.parse_args()
    rows: list[Row] = []
    for topic in options.topics or TOPICS:
        rows.extend(importlib.import_module(topic).rows(options.quick))
    print(f"Python {platform.python_version()}, {platform.machine()}\n")
    for line in aligned([HEAD, *map(cells, rows)]):
        print(line)
    misses = [f"{row.what}: {miss}" for row in rows for miss in row.misses()]
    print("\nEverything meets its bar." if not misses else "\nMisses:")
    for miss in misses:
        print(f"  {miss}")


def cells(row: Row) -> tuple[str, ...]:
    return (
        row.what,
        "" if row.bar is None else figure(row.bar, row.rate),
        figure(row.measured, row.rate),
        row.peer,
        "" if row.peer_measured is None else figure(row.peer_measured, row.rate),
        ""
        if row.ratio is None
        else f"{row.ratio:,.0f}x"
        if row.ratio >= 100
        else f"{row.ratio:.2g}x",
        "" if row.least_ratio is None else f"{row.least_ratio:g}x",
    )


def figure(value: float, rate: bool) -> str:
    """A time or a rate with three digits and a fitting unit."""
    units = (
        ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s"), (1.0, "/s"))
        if rate
        else ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
    )
    size, unit = next((u for u in units if value >= u[0]), units[-1])
    return f"{value / size:.3g} {unit}"


def aligned(lines: Iterable[tuple[str, ...]]) -> list[str]:
    table = list(lines)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if 0 < i != 3 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]


if __name__ == "__main__":
    main()
