"""Formats the output of `forewarn measure` as text and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    in_seconds,
    part_of,
    shown,
    table,
    tabled,
)

if TYPE_CHECKING:
    from forewarn.monitors.guarding.drift import Drift
    from forewarn.scenarios.measuring.embodied import (
        Table,
    )
    from forewarn.scenarios.measuring.measure import (
        Measurement,
    )

NOTHING_ENFORCED = (
    "The policy only alerts, so nothing was prevented. To measure an intervention, add"
    " --intervene, for example --intervene stop."
)
_FEWEST_RUNS = 30
"""The minimum number of runs in a bin of the reliability curve to be reported."""


_COUNTS: dict[str, tuple[str, Callable[[Mapping[str, Any]], object]]] = {
    "scenario": ("scenario", lambda row: row["scenario"]),
    "law": ("law", lambda row: shown(row["law"])),
    "states": ("states", lambda row: row["states"]),
    "horizon": ("horizon", lambda row: f"{row['horizon_s']:g} s"),
    "threshold": ("threshold", lambda row: figure(row["threshold"], "{:g}")),
    "broken": ("violations", lambda row: row["violating"]),
    "detected": ("detected", lambda row: part_of(row["detected"], row["violating"])),
    "in_time": (
        "in time",
        lambda row: part_of(row["warned_in_time"], row["violating"]),
    ),
    "trigger": (
        "lead time: mean",
        lambda row: in_seconds(row["awt_trigger_s"]["mean"]),
    ),
    "median": ("median", lambda row: in_seconds(row["awt_trigger_s"]["median"])),
    "second": (
        "1 s ahead",
        lambda row: part_of(row["second_ahead"], row["violating"]),
    ),
    "alarms": ("false alarms", lambda row: part_of(row["false_alarms"], row["clean"])),
}


def counts_of(columns: str, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A table with the given columns, one row per law."""
    return tabled(dict(_COUNTS[name] for name in columns.split()), rows)


def lines(found: Measurement, out: Path | None) -> Iterator[str]:
    """Yields all results as lines of text."""
    from forewarn.scenarios.measuring.late import late_lines

    yield from failure_lines(found.episodes, out)
    facts = found.as_dict()
    yield (
        f"{found.scenario}: {facts['episodes'] - facts['failed']} runs, horizon"
        f" {found.horizon_s:g} s. Fractions with 95 % intervals."
    )
    yield from _table(facts["laws"])
    yield ""
    for kept, row in zip(found.rows, facts["laws"], strict=True):
        if kept.promise is not None:
            yield f"{_at(row)}: {kept.promise.sentence(row)}."
        yield from early(_at(row), row, found.horizon_s)
    for law, row in {row["law"]: row for row in reversed(facts["laws"])}.items():
        yield from _calibration(row, facts["reliability"].get(law))
    if found.drift is not None:
        yield ""
        yield from _drift(found.drift)
    if facts["unknown"]:
        share = facts["unknown"] / facts["frames"]
        yield f"{share:.2%} of the frames were in states never seen in training."
    for name, baseline in facts["baselines"].items():
        yield ""
        yield f"Baseline {name}:"
        yield from _table(baseline["laws"])
        for row in baseline["laws"]:
            yield from early(_at(row), row, found.horizon_s)
        for law, why in baseline["skipped"].items():
            yield f"{shown(law)}: not evaluated, {why}"
    if facts["trade_off"]:
        yield ""
        yield from _trade_off(facts["trade_off"], found.horizon_s)
    if facts["paper_table"]:
        yield ""
        yield from _paper_table(found)
    if facts["guarded"] is not None:
        yield ""
        yield from _guarded(facts["guarded"])
        for law in facts["only_alerts"]:
            yield f"For {shown(law)} the policy only alerts, so nothing was prevented."
    elif not facts["acts"]:
        yield ""
        yield NOTHING_ENFORCED
    for law, late in facts["last_moment_s"].items():
        yield from late_lines(shown(law), late)
    yield from branched_lines(facts["if_acted"])
    if out is not None:
        yield f"`forewarn report {out}` shows this on a page."


def branched_lines(
    found: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Iterator[str]:
    """Yields tables of the effects of slowing and stopping, by risk band."""
    from forewarn.monitors.evaluation.branched import HEAD, cells, if_acted

    for law, bands in found.items():
        yield ""
        yield if_acted(shown(law))
        yield from table(HEAD, map(cells, bands))


def _drift(drift: Drift) -> Iterator[str]:
    yield from drift.sentences()
    if drift.examined:
        yield from tabled(_EXAMINED, [each.as_dict() for each in drift.examined])
    if drift.not_examined:
        yield (
            "Not examined, because the policy has no training figures:"
            f" {', '.join(drift.not_examined)}."
        )


_EXAMINED: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "law": lambda row: shown(row["law"]),
    "examined": lambda row: row["what"],
    "runs": lambda row: row["runs"],
    "happened": lambda row: "-" if row["happened"] is None else row["happened"],
    "compared with": lambda row: row["reference"],
    "evidence": lambda row: f"{row['evidence']:.2g}",
}

_LAW: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "law": lambda row: shown(row["law"]),
    "threshold": lambda row: figure(row["threshold"], "{:g}"),
    "violations": lambda row: row["violating"],
    "detected": lambda row: _share(row, "detection_rate"),
    "lead time: mean": lambda row: in_seconds(row["awt_trigger_s"]["mean"]),
    "median": lambda row: in_seconds(row["awt_trigger_s"]["median"]),
    "p10": lambda row: in_seconds(row["awt_trigger_s"]["p10"]),
    "1 s ahead": lambda row: part_of(row["second_ahead"], row["violating"]),
    "to violation: mean": lambda row: in_seconds(row["awt_violation_s"]["mean"]),
    "max": lambda row: in_seconds(row["awt_violation_s"]["max"]),
    "clean": lambda row: row["clean"],
    "false alarms": lambda row: _share(row, "false_alarm_rate"),
    "per hour": lambda row: figure(row["false_alarms_per_hour"], "{:.1f}"),
}


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = dict(_LAW)
    if any(row["in_time"] is not None for row in rows):
        columns["3 s before the deadline"] = lambda row: figure(
            (row["in_time"] or {}).get("rate")
        )
    return tabled(columns, rows)


def _at(row: Mapping[str, Any]) -> str:
    return f"{shown(row['law'])} at threshold {row['threshold']:g}"


def early(name: str, row: Mapping[str, Any], horizon_s: float) -> list[str]:
    """A sentence if alarms often come much earlier than the horizon; otherwise
    empty.
    """
    from forewarn.monitors.evaluation.warned import (
        warned_early,
    )

    words = warned_early(row, horizon_s)
    return [f"{name}: {words}."] if words else []


def _calibration(
    row: Mapping[str, Any], curve: Mapping[str, Any] | None
) -> Iterator[str]:
    if row["brier"] is None or curve is None:
        return
    yield (
        f"{shown(row['law'])}: base rate {_share(row, 'base_rate')}; mean initial risk"
        f" {row['initial_risk']:.3f}; Brier score {row['brier']:.4f}, of the base rate"
        f" {row['brier_of_base_rate']:.4f}"
    )
    bins = [each for each in curve["bins"] if each["traces"] >= _FEWEST_RUNS]
    if bins:
        worst = max(bins, key=lambda each: abs(each["predicted"] - each["observed"]))
        yield (
            f"  worst of {len(bins)} reliability bins with {_FEWEST_RUNS} runs or more:"
            f" predicted {worst['predicted']:.2f}, observed {worst['observed']:.2f}"
            f" ({worst['traces']} runs)"
        )


def _trade_off(
    curves: Mapping[str, Mapping[str, Any]], horizon_s: float
) -> Iterator[str]:
    from forewarn.monitors.evaluation.warned import (
        ALLOWED,
        best_allowed,
    )

    yield (
        f"Best detection rate at a false-alarm rate of at most {ALLOWED:g}. Each "
        "threshold is chosen on these runs, so all figures are equally optimistic:"
    )
    rows: list[Sequence[object]] = []
    notes: list[str] = []
    for law in dict.fromkeys(law for laws in curves.values() for law in laws):
        for way, laws in curves.items():
            if law not in laws:
                continue
            best = best_allowed(laws[law]) or {}
            notes += early(f"{shown(law)} by {way}", best, horizon_s)
            rows.append(
                (
                    shown(law),
                    way,
                    figure(best.get("detection_rate")),
                    figure(best.get("false_alarm_rate")),
                    in_seconds(best.get("awt_trigger_s")),
                    in_seconds(best.get("awt_trigger_median_s")),
                    figure(best.get("second_ahead_rate")),
                    in_seconds(best.get("awt_violation_s")),
                    figure(best.get("threshold"), "{:.3g}"),
                )
            )
    head = [
        "law", "by", "detected", "false alarms", "lead time: mean", "median",
        "1 s ahead", "to violation: mean", "at",
    ]  # fmt: skip
    yield from table(head, rows)
    yield from notes


def _paper_table(found: Measurement) -> Iterator[str]:
    from forewarn.scenarios.measuring.measure import (
        hidden,
    )

    yield (
        "The paper's Table 1 in its original form: the advance warning time to "
        "the violation, without false alarms. `paper` is the paper's own method."
    )
    head = ["law", "by", "threshold", "mean", "max"]
    yield from table(
        head,
        (
            (
                shown(each["law"]),
                each["way"],
                each["threshold"],
                in_seconds(each["mean_s"]),
                in_seconds(each["max_s"]),
            )
            for each in (cell.as_dict() for cell in found.paper)
        ),
    )
    yield "What it hides:"
    for sentence in hidden(found.paper):
        yield f"  {sentence}"


def _guarded(facts: Mapping[str, Any]) -> Iterator[str]:
    from forewarn.scenarios.measuring.pairs import finished, handled, saved

    yield f"With the guard acting, on the same {facts['pairs']} seeds:"
    yield from table(
        ["law", "violations unguarded", "guarded", "prevented", "arrived", "caused"],
        (
            (
                shown(law["law"]),
                _counted(law, "unguarded"),
                _counted(law, "guarded"),
                "-" if law["cut"] is None else f"{100 * law['cut']:.0f} %",
                saved(law) or "-",
                law["caused"],
            )
            for law in facts["laws"]
        ),
    )
    done = ", ".join(f"{kind} in {n}" for kind, n in facts["episodes_with"].items())
    yield f"Interventions: {done or 'none'}."
    yield from finished(facts)
    yield from handled(facts["driving"])
    if facts["duration_ratio"] is not None:
        yield (
            f"The {facts['clean_pairs']} clean runs that can be compared took"
            f" {facts['duration_ratio']:.2f} times as long."
        )
    if facts["failed"]:
        yield f"{facts['failed']} of {facts['episodes']} guarded episodes failed."


def _counted(law: Mapping[str, Any], side: str) -> str:
    share = law[f"violation_rate_{side}"]
    return f"{law[f'violating_{side}']} ({figure(share)})"


def _share(row: Mapping[str, Any], key: str) -> str:
    if row[key] is None:
        return "-"
    low, high = row["intervals"][key]
    return f"{row[key]:.2f} ({low:.2f} to {high:.2f})"


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


def family_lines(found: Table) -> Iterator[str]:
    from forewarn.scenarios.measuring.embodied import (
        PAPER_HEADLINE,
    )

    facts = found.as_dict()
    yield (
        f"{found.family}: {found.tasks} tasks, {len(found.seeds)} runs of each on "
        f"seeds {found.seeds[0]} to {found.seeds[-1]}; fractions with 95 % "
        "intervals."
    )
    yield found.label
    yield ""
    yield from tabled(
        _FAMILY, [row for row in facts["rows"] if row["compliance"] is None]
    )
    for share in dict.fromkeys(row["compliance"] for row in facts["rows"]):
        if share is not None:
            yield ""
            why = ", as fitted to published runs" if share == found.fitted else ""
            yield f"A robot that heeds a warning in {share:.0%} of its runs{why}:"
            yield from tabled(
                _FAMILY, [r for r in facts["rows"] if r["compliance"] == share]
            )
    yield ""
    yield (
        "For its reflect mode with GPT-4.1, the paper reports "
        f"{PAPER_HEADLINE['unsafe_cut']:.2%} fewer unsafe runs, with "
        f"{PAPER_HEADLINE['completion_kept']:.1%} of the completions kept."
    )
    yield ""
    yield "Completed at the same fraction of unsafe runs:"
    yield from tabled(_BARS, facts["bars"])
    yield found.label


def _percent(value: float) -> str:
    return f"{value:.1%}"


_FAMILY: dict[str, Callable[[dict[str, Any]], object]] = {
    "guard": lambda row: row["way"],
    "unsafe": lambda row: _with_interval(row["unsafe"], row["intervals"]["unsafe"]),
    "complete": lambda row: _with_interval(
        row["complete"], row["intervals"]["complete"]
    ),
    "safely": lambda row: _percent(row["safely_complete"]),
    "rejected": lambda row: _percent(row["rejected"]),
    "stopped": lambda row: _percent(row["stopped"]),
    "unsafe cut by": lambda row: _with_interval(
        row["unsafe_cut"], row["unsafe_cut_interval"]
    ),
    "completion kept": lambda row: _with_interval(
        row["completion_kept"], row["completion_kept_interval"]
    ),
    "model calls": lambda row: f"{row['model_calls']:.1f}",
    "tokens": lambda row: "none" if row["tokens"] is None else f"{row['tokens']:.0f}",
    "warnings": lambda row: f"{row['warnings']:.2f}",
    "us a decision": lambda row: figure(row["review_us"], "{:.0f}"),
}
_BARS: dict[str, Callable[[dict[str, Any]], object]] = {
    "against": lambda bar: bar["what"],
    "heeds": lambda bar: figure(bar["compliance"], "{:.0%}"),
    "unsafe": lambda bar: _percent(bar["unsafe"]),
    "ours": lambda bar: _percent(bar["complete"]),
    "theirs": lambda bar: _percent(bar["others_complete"]),
    "ahead": lambda bar: _with_interval(bar["ahead"], bar["interval"]),
    "needed": lambda bar: f"{bar['needed']:.0%}" if bar["needed"] else "more",
    "": lambda bar: "met" if bar["met"] else "MISSED",
    "their most": lambda bar: _percent(bar["others_anywhere"]),
}


def _with_interval(value: float | None, interval: Sequence[float] | None) -> str:
    if value is None:
        return "-"
    if interval is None:
        return f"{value:.1%}"
    return f"{value:.1%} ({interval[0]:.0%} to {interval[1]:.0%})"
