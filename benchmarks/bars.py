"""Compares warnings in simulated worlds with their targets (bars), on held-out runs.

For every scenario that ships with a model, the detection rate of the shipped guard must
be at least that of gradient boosting minus 0.04. The fraction of violations that the
guard detects at least 1 s ahead must be at least 0.8 times that of boosting. Boosting
is fitted to the raw signals and their last second in the model's training runs, to
predict violations within the horizon. Both thresholds are chosen on the held-out runs,
for a false-alarm rate of at most 0.10. For each missed bar, a second table, the loss
ledger, shows which step loses against boosting (see recordings.py). Each cell has the
detection rate and the fraction detected at least 1 s ahead.

    python benchmarks/bars.py --runs out/runs --out out/bars [SCENARIO ...]

Scenarios already in --out are not measured again. To store both tables for the page:

    python docs/tables.py [--rows] bars bars-ledger -- python benchmarks/bars.py …
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from driving import DRIVING
from highway import ALLOWED, ROADS
from recordings import EXACT, GUARD, LEDGER, Way, boosting, fresh, shipped
from run import arguments, markdown, show, stored

from forewarn.monitors.evaluation.foretold import Foretold, Leads, early
from forewarn.scenarios.shipped import FOLDER

FIRST_SEED = 9_420_000
BOOSTING = "boosting with lags"
LESS_DETECTED = 0.04
SHARE_OF_SOONER = 0.8


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the figures of a scenario's laws, with the loss ledger of missed bars."""
    of = fresh(name, options)
    horizon_s = of.told.scenario.horizon_s
    rows = []
    for number, law in enumerate(of.told.scenario.laws):
        ways: dict[str, Way] = {GUARD: shipped(of.files), BOOSTING: boosting}
        found = of.found(ways, number)
        row = {
            "law": law.name,
            "violating": sum(each.broken is not None for each in found[GUARD]),
            "runs": len(found[GUARD]),
            **{way: _figures(each, horizon_s) for way, each in found.items()},
        }
        if row["violating"] and not all(_kept(row)):
            steps = of.found(LEDGER, number)
            row["ledger"] = {
                way: _figures(each, horizon_s) for way, each in steps.items()
            }
        rows.append(row)
        print(f"{name}, {law.name}: measured", flush=True)
    return {"scenario": name, "laws": rows}


def _figures(found: Sequence[Foretold], horizon_s: float) -> dict[str, float]:
    """Returns the detection rate, the median lead time in seconds, and the fraction of
    violations detected at least 1 s ahead.
    """
    share, _, median_s, sooner = Leads.of(early(found, horizon_s, ALLOWED))
    return {"detected": share, "median_s": median_s, "second_ahead": sooner}


def _kept(row: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the bars for the detection rate and for warnings 1 s ahead are met."""
    guard, other = row[GUARD], row[BOOSTING]
    return (
        guard["detected"] >= other["detected"] - LESS_DETECTED - EXACT,
        guard["second_ahead"] >= SHARE_OF_SOONER * other["second_ahead"] - EXACT,
    )


def table(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the table of all laws in Markdown, then the loss ledger."""
    rows = [(each["scenario"], row) for each in found for row in each["laws"]]
    head = (
        "scenario", "law", "violating runs",
        "guard: detected", "median", "1 s ahead",
        "boosting: detected", "median", "1 s ahead",
        "detection bar", "1 s bar",
    )  # fmt: skip
    yield from markdown(head, (list(_cells(*each)) for each in rows))
    yield ""
    lost = [(name, row) for name, row in rows if "ledger" in row]
    yield from markdown(
        ("scenario, law", BOOSTING, *LEDGER),
        (list(_ledger(*each)) for each in lost),
    )


def _cells(name: str, row: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"`{name}`", f"`{row['law']}`", f"{row['violating']} of {row['runs']}")
    for way in (GUARD, BOOSTING):
        told = row[way]
        yield f"{told['detected']:.2f}"
        yield f"{told['median_s']:.1f} s" if told["detected"] else "-"
        yield f"{told['second_ahead']:.2f}"
    for kept in _kept(row):
        yield "-" if not row["violating"] else "met" if kept else "missed"


def _ledger(name: str, row: Mapping[str, Any]) -> Iterator[str]:
    yield f"`{name}`, `{row['law']}`"
    for told in (row[BOOSTING], *row["ledger"].values()):
        yield f"{told['detected']:.2f}, {told['second_ahead']:.2f}"


def main() -> None:
    options = arguments(
        __doc__, scenarios=[*DRIVING, *ROADS], runs=Path, out=Path, trained=FOLDER,
        episodes=300, seed=FIRST_SEED,
    )  # fmt: skip
    found = stored(options.out, options.scenarios, lambda name: measure(name, options))
    show(table(found))


if __name__ == "__main__":
    main()
