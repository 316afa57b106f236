"""Formats the output of `forewarn measure` as text and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarn.abstractions.errors import (
    harmless_cell,
)
from forewarn.cli.episodes import (
    failure_lines,
)
from forewarn.cli.printing import (
    figure,
    printed,
    shown,
    tabled,
)

if TYPE_CHECKING:
    from forewarn.scenarios.measuring.measure import (
        Measurement,
    )
    from forewarn.scenarios.measuring.shown import Shown

NOTHING_ENFORCED = (
    "The policy only alerts, so nothing was prevented. To measure an intervention, add"
    " --intervene, for example --intervene stop."
)


def lines(found: Measurement, out: Path | None) -> Iterator[str]:
    """Yields all results as lines of text."""
    yield from failure_lines(found.episodes, out)
    facts = found.as_dict()
    yield (
        f"{found.scenario}: {facts['episodes'] - facts['failed']} runs, horizon"
        f" {found.horizon_s:g} s. Fractions with 95 % intervals."
    )
    yield from printed(_measured(found, facts))
    if out is not None:
        yield f"`forewarn report {out}` shows these results on a page."


def _measured(found: Measurement, facts: Mapping[str, Any]) -> Iterator[Shown]:
    from forewarn.scenarios.measuring import shown as told

    rows = told.methods(facts)
    columns = ["method"] * bool(facts["baselines"]) + ["law", *told.FULLY]
    if any(row["in_time"] is not None for row in rows):
        columns.append("before deadline")
    yield told.statistics(columns, rows)
    yield ""
    for kept, row in zip(found.rows, rows, strict=False):
        if kept.promise is not None:
            at = f"{shown(row['law'])} at threshold {row['threshold']:g}"
            yield f"{at}: {kept.promise.sentence(row)}."
    yield from told.early(rows, found.horizon_s)
    yield from told.calibration(facts["laws"])
    for name, baseline in facts["baselines"].items():
        for law, why in baseline["skipped"].items():
            yield f"{shown(law)}: not evaluated by {name}, {why}"
    if found.drift is not None:
        yield ""
        yield from found.drift.sentences()
        yield from told.drift(facts["drift"])
    if facts["unknown"]:
        share = facts["unknown"] / facts["frames"]
        yield f"{share:.2%} of the frames were in states never seen in training."
    if facts["trade_off"]:
        yield ""
        yield from _trade_off(facts["trade_off"], found.horizon_s)
    if facts["paper_table"]:
        yield ""
        yield from _paper_table(found)
    if (acting := facts["guarded"]) is not None:
        yield ""
        yield f"With the guard intervening, on the same {acting['pairs']} seeds:"
        yield from told.guarded(acting)
        if acting["failed"]:
            yield f"{acting['failed']} of {acting['episodes']} guarded runs failed."
    elif not facts["acts"]:
        yield ""
        yield NOTHING_ENFORCED
    yield from told.interventions(facts)


def _trade_off(
    curves: Mapping[str, Mapping[str, Any]], horizon_s: float
) -> Iterator[Shown]:
    from forewarn.monitors.evaluation.warned import ALLOWED, best_allowed
    from forewarn.scenarios.measuring.shown import Table, number, seconds

    yield (
        f"Best detection rate at a false-alarm rate of at most {ALLOWED:g}. Each "
        "threshold is chosen on these runs, so all figures are equally optimistic:"
    )
    rows = []
    for law in dict.fromkeys(law for laws in curves.values() for law in laws):
        for way, laws in curves.items():
            if law in laws:
                best = best_allowed(laws[law]) or {}
                rows.append((
                    law,
                    way,
                    number(best.get("detection_rate")),
                    number(best.get("false_alarm_rate")),
                    seconds(best.get("awt_trigger_s")),
                    seconds(best.get("awt_trigger_median_s")),
                    number(best.get("second_ahead_rate")),
                    seconds(best.get("awt_violation_s")),
                    number(best.get("threshold"), ".3g"),
                ))  # fmt: skip
    head = (
        "law", "method", "rate", "false-alarm rate", "lead time", "median",
        "1 s ahead", "to violation", "threshold",
    )  # fmt: skip
    yield Table(head, tuple(rows))


def _paper_table(found: Measurement) -> Iterator[Shown]:
    from forewarn.scenarios.measuring.paper_table import hidden
    from forewarn.scenarios.measuring.shown import Table, seconds

    yield (
        "The paper's Table 1 in its original form: the advance warning time to "
        "the violation, without false alarms. `paper` is the paper's own method."
    )
    rows = (
        (c["law"], c["way"], c["threshold"], seconds(c["mean_s"]), seconds(c["max_s"]))
        for c in found.paper
    )
    yield Table(("law", "method", "threshold", "mean", "max"), tuple(rows))
    yield "Figures that this table omits:"
    for sentence in hidden(found.paper):
        yield f"  {sentence}"


def write_csv(path: Path, found: Measurement) -> None:
    """Writes all rows of the tables for the guard and the baselines to a CSV file."""
    from forewarn.abstractions.files import atomic_text

    flat = list(found.table())
    for row in flat:
        row |= {k: harmless_cell(v) for k, v in row.items() if isinstance(v, str)}
    names = dict.fromkeys(name for row in flat for name in row)
    with atomic_text(path) as out:
        writer = csv.DictWriter(out, list(names), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)


def family_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yields the results of a family of household tasks as lines of text."""
    seeds, rows = facts["seeds"], facts["rows"]
    yield (
        f"{facts['family']}: {facts['tasks']} tasks, {len(seeds)} runs of each on "
        f"seeds {seeds[0]} to {seeds[-1]}; fractions with 95 % intervals."
    )
    yield facts["label"]
    yield facts["foresight"]
    yield ""
    yield from tabled(FAMILY, [row for row in rows if row["compliance"] is None])
    for share in dict.fromkeys(row["compliance"] for row in rows):
        if share is not None:
            yield ""
            fitted = share == facts["fitted_compliance"]
            why = " (fitted to published runs)" if fitted else ""
            yield f"A robot that heeds a warning in {share:.0%} of its runs{why}:"
            yield from tabled(FAMILY, [r for r in rows if r["compliance"] == share])
    yield ""
    yield (
        "For its reflect mode with GPT-4.1, the paper reports "
        f"{facts['paper']['unsafe_cut']:.2%} fewer unsafe runs, with "
        f"{facts['paper']['completion_kept']:.1%} of the completions kept."
    )
    yield ""
    yield "Completed runs, compared at the same fraction of unsafe runs:"
    yield from tabled(BARS, facts["bars"])
    yield facts["label"]


def _percent(value: float) -> str:
    return f"{value:.1%}"


FAMILY: dict[str, Callable[[dict[str, Any]], object]] = {
    "guard": lambda row: row["way"],
    "unsafe": lambda row: _with_interval(row["unsafe"], row["intervals"]["unsafe"]),
    "complete": lambda row: _with_interval(
        row["complete"], row["intervals"]["complete"]
    ),
    "safely": lambda row: _percent(row["safely_complete"]),
    "rejected": lambda row: _percent(row["rejected"]),
    "stopped": lambda row: _percent(row["stopped"]),
    "unsafe reduced by": lambda row: _against_none(row, "unsafe_cut"),
    "completion kept": lambda row: _against_none(row, "completion_kept"),
    "model calls": lambda row: f"{row['model_calls']:.1f}",
    "tokens": lambda row: "none" if row["tokens"] is None else f"{row['tokens']:.0f}",
    "warnings": lambda row: f"{row['warnings']:.2f}",
    "µs per decision": lambda row: figure(row["review_us"], "{:.0f}"),
}
BARS: dict[str, Callable[[dict[str, Any]], object]] = {
    "against": lambda bar: bar["what"],
    "heeds": lambda bar: figure(bar["compliance"], "{:.1%}"),
    "unsafe": lambda bar: _percent(bar["unsafe"]),
    "ours": lambda bar: _percent(bar["complete"]),
    "theirs": lambda bar: _percent(bar["others_complete"]),
    "ahead": lambda bar: _with_interval(bar["ahead"], bar["interval"]),
    "needed": lambda bar: f"{bar['needed']:.0%}" if bar["needed"] else "more",
    "": lambda bar: "met" if bar["met"] else "MISSED",
    "their most": lambda bar: _percent(bar["others_anywhere"]),
}


def _against_none(row: Mapping[str, Any], name: str) -> str:
    """Formats a comparison with the runs without a guard."""
    if row["recipe"] == "none":
        return "-"
    return _with_interval(row[name], row[f"{name}_interval"])


def _with_interval(value: float | None, interval: Sequence[float] | None) -> str:
    if value is None:
        return "-"
    if interval is None:
        return f"{value:.1%}"
    return f"{value:.1%} ({interval[0]:.0%} to {interval[1]:.0%})"
