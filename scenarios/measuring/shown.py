"""Formats measured figures: the title and the format of each statistic, in one place.

`Warned.as_dict` computes the statistics for JSON and CSV. The terminal and the report
show the same tables and sentences, which are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.monitors.evaluation.branched import HEAD, cells, if_acted
from forewarn.monitors.evaluation.warned import warned_early
from forewarn.scenarios.measuring.late import late_lines
from forewarn.scenarios.measuring.pairs import finished, handled, saved

Facts = Mapping[str, Any]
"""Figures as JSON."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table to show; an unknown cell is None."""

    head: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


Shown = str | Table
"""A sentence or a table."""


def seconds(time_s: float | None) -> str | None:
    """Formats a time."""
    return None if time_s is None else f"{time_s:.1f} s"


def number(value: float | None, form: str = ".2f") -> str | None:
    """Formats a number."""
    return None if value is None else format(value, form)


def share(row: Facts, key: str) -> str | None:
    """Formats a fraction with its interval."""
    if row[key] is None:
        return None
    low, high = row["intervals"][key]
    return f"{row[key]:.2f} ({low:.2f} to {high:.2f})"


Column = tuple[str, Callable[[Any], object]]
"""The title of a column, and a function from a row to a cell."""

STATISTICS: dict[str, Column] = {
    "scenario": ("scenario", lambda row: row["scenario"]),
    "method": ("method", lambda row: row["method"]),
    "law": ("law", lambda row: row["law"]),
    "states": ("states", lambda row: row["states"]),
    "horizon": ("horizon", lambda row: f"{row['horizon_s']:g} s"),
    "threshold": ("threshold", lambda row: number(row["threshold"], "g")),
    "detected": ("detected", lambda row: row["detected"]),
    "of violating": ("of", lambda row: row["violating"]),
    "rate": ("rate", lambda row: share(row, "detection_rate")),
    "in time": (
        "in time",
        lambda row: f"{row['warned_in_time']} of {row['violating']}",
    ),
    "lead time": ("lead time", lambda row: seconds(row["awt_trigger_s"]["mean"])),
    "median": ("median", lambda row: seconds(row["awt_trigger_s"]["median"])),
    "p10": ("p10", lambda row: seconds(row["awt_trigger_s"]["p10"])),
    "1 s ahead": ("1 s ahead", lambda row: row["second_ahead"]),
    "to violation": (
        "to violation",
        lambda row: seconds(row["awt_violation_s"]["mean"]),
    ),
    "max": ("max", lambda row: seconds(row["awt_violation_s"]["max"])),
    "before deadline": (
        "3 s before the deadline",
        lambda row: number((row["in_time"] or {}).get("rate")),
    ),
    "false alarms": ("false alarms", lambda row: row["false_alarms"]),
    "of clean": ("of", lambda row: row["clean"]),
    "false-alarm rate": (
        "false-alarm rate",
        lambda row: share(row, "false_alarm_rate"),
    ),
    "per hour": (
        "per hour",
        lambda row: number(row["false_alarms_per_hour"], ".1f"),
    ),
}
"""Every statistic of a method's warnings at one threshold, by name."""

QUALITY = (
    "threshold", "detected", "of violating", "rate", "lead time", "median",
    "1 s ahead", "to violation", "false alarms", "of clean", "false-alarm rate",
)  # fmt: skip
FULLY = (
    *QUALITY[:6], "p10", *QUALITY[6:8], "max", *QUALITY[8:], "per hour",
)  # fmt: skip
BRIEFLY = (
    "threshold", "detected", "of violating", "lead time", "median", "1 s ahead",
    "false alarms", "of clean",
)  # fmt: skip


def table(columns: Iterable[Column], rows: Iterable[Any]) -> Table:
    """Makes a table of the rows with these columns."""
    read = list(columns)
    return Table(
        tuple(title for title, _ in read),
        tuple(tuple(cell(row) for _, cell in read) for row in rows),
    )


def statistics(names: Iterable[str], rows: Iterable[Facts]) -> Table:
    """Makes a table with these statistics, one row per law and threshold."""
    return table((STATISTICS[name] for name in names), rows)


def methods(facts: Facts) -> list[dict[str, Any]]:
    """Returns the rows of a measurement, each with its method's name; the guard's come
    first.
    """
    rows = [{"method": "Forewarn", **row} for row in facts["laws"]]
    for name, baseline in facts.get("baselines", {}).items():
        rows += [{"method": name, **row} for row in baseline["laws"]]
    return rows


def warnings(rows: Sequence[Facts], horizon_s: float) -> Iterator[str]:
    """Yields one summary sentence per law and threshold, and a remark on alarms much
    earlier than the horizon.
    """
    for row in rows:
        yield (
            f"{row['law']}, threshold {row['threshold']:g}: {row['detected']} of "
            f"{row['violating']} violations were detected in time{lead_times(row)}; "
            f"{row['false_alarms']} of {row['clean']} clean runs had an alarm."
        )
        if words := warned_early(row, horizon_s):
            yield f"{row['law']}: {words}."


def lead_times(row: Facts) -> str:
    """Describes the lead times of a law's warnings; empty if there were none."""
    times = row["awt_trigger_s"]
    if times["mean"] is None:
        return ""
    return (
        f", {times['mean']:.1f} s ahead on average (median {times['median']:.1f} s;"
        f" {row['second_ahead']} at least 1 s)"
    )


def early(rows: Iterable[Facts], horizon_s: float | None = None) -> Iterator[str]:
    """Yields a sentence for each row whose alarms often come much earlier than the
    horizon.
    """
    for row in rows:
        at_s = row["horizon_s"] if horizon_s is None else horizon_s
        if words := warned_early(row, at_s):
            named = f"{row['scenario']}, " if "scenario" in row else ""
            yield f"{named}{row['law']} at {at_s:g} s: {words}."


def calibration(rows: Iterable[Facts]) -> Iterator[str]:
    """Yields a sentence on the calibration of each law's risk."""
    first: dict[str, Facts] = {}
    for row in rows:
        first.setdefault(row["law"], row)
    for row in first.values():
        if row["brier"] is not None:
            yield (
                f"{row['law']}: Brier score {row['brier']:.4f}; always predicting the"
                f" base rate scores {row['brier_of_base_rate']:.4f}. The mean risk at"
                f" the start is {row['initial_risk']:.3f}; the law is broken in"
                f" {share(row, 'base_rate')} of the runs."
            )


EPISODES: tuple[Column, ...] = (
    ("seed", lambda run: run.seed),
    ("duration", lambda run: f"{run.duration_s:.1f} s"),
    (
        "violations",
        lambda run: (
            ", ".join(f"{b.law} {b.time_s:g} s" for b in run.violations) or None
        ),
    ),
    (
        "first alarm",
        lambda run: f"{run.alarms[0].time_s:g} s" if run.alarms else None,
    ),
    (
        "acted",
        lambda run: ", ".join(dict.fromkeys(i.kind for i in run.interventions)) or None,
    ),
    ("ended", lambda run: run.error or run.ended),
)
"""The columns of a table of runs."""


_EXAMINED: tuple[Column, ...] = (
    ("law", lambda row: row["law"]),
    ("examined", lambda row: row["what"]),
    ("runs", lambda row: row["runs"]),
    ("occurred in", lambda row: row["happened"]),
    ("compared with", lambda row: row["reference"]),
    ("evidence", lambda row: f"{row['evidence']:.2g}"),
)


def drift(facts: Facts) -> Iterator[Shown]:
    """Yields the quantities that were examined for drift, and those that were not."""
    if facts["examined"]:
        yield table(_EXAMINED, facts["examined"])
    if missing := ", ".join(facts["not_examined"]):
        yield f"Not examined, for lack of training figures: {missing}."


_GUARDED: tuple[Column, ...] = (
    ("law", lambda law: law["law"]),
    ("violations without", lambda law: law["violating_unguarded"]),
    ("with", lambda law: law["violating_guarded"]),
    ("prevented", lambda law: _percent(law["cut"])),
    ("of these finish", lambda law: saved(law) or None),
    ("caused", lambda law: law["caused"]),
)


def _percent(part: float | None) -> str | None:
    return None if part is None else f"{100 * part:.0f} %"


def guarded(facts: Facts) -> Iterator[Shown]:
    """Yields the comparison with the same seeds when the guard intervenes."""
    yield table(_GUARDED, facts["laws"])
    done = ", ".join(f"{kind} in {n}" for kind, n in facts["episodes_with"].items())
    yield f"Interventions: {done or 'none'}."
    yield from finished(facts)
    yield from handled(facts["driving"])
    if facts["duration_ratio"] is not None:
        comparable = facts["clean_pairs"] - facts.get("unfinished", 0)
        yield (
            f"The {comparable} clean runs that can be compared took"
            f" {facts['duration_ratio']:.2f} times as long with the guard."
        )


def interventions(facts: Facts) -> Iterator[Shown]:
    """Yields the laws for which the policy only alerts, the last moments for an
    intervention, and the effect of interventions by risk band.
    """
    for law in facts.get("only_alerts", ()):
        yield f"For {law}, the policy only alerts and does not intervene."
    for law, late in facts.get("last_moment_s", {}).items():
        yield from late_lines(law, late)
    yield from branched(facts.get("if_acted", {}))


def branched(found: Mapping[str, Sequence[Facts]]) -> Iterator[Shown]:
    """Yields a table of the effects of slowing and stopping, by risk band, for each
    law.
    """
    for law, bands in found.items():
        yield if_acted(law)
        yield Table(HEAD, tuple(map(cells, bands)))
