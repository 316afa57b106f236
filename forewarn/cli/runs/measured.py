"""What `forewarn measure` prints, and what it writes as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarn.abstractions.errors import harmless_cell
from forewarn.cli.runs.episodes import failure_lines, shown
from forewarn.cli.support import in_seconds, table

if TYPE_CHECKING:
    from forewarn.scenarios.measuring.measure import Measurement

NOTHING_ENFORCED = (
    "Nothing was enforced: the policy only alerts. What the guard would prevent shows"
    " with --intervene, such as --intervene stop."
)
_FEWEST_RUNS = 30
"""A bin of the reliability curve with fewer runs says little."""


def lines(found: Measurement, out: Path | None) -> Iterator[str]:
    """Everything for people."""
    if found.drift is not None and (note := found.drift.note()):
        yield f"Take care: {note}"
    yield from failure_lines(found.episodes, out)
    facts = found.as_dict()
    yield (
        f"{found.scenario}: {facts['episodes'] - facts['failed']} runs, horizon"
        f" {found.horizon_s:g} s. A share has its 95 % interval."
    )
    yield from _table(facts["laws"])
    yield ""
    for kept, row in zip(found.rows, facts["laws"], strict=True):
        if kept.promise is not None:
            yield f"{_at(row)}: {kept.promise.sentence(row)}."
        yield from _early(row, found.horizon_s)
    for law, row in {row["law"]: row for row in reversed(facts["laws"])}.items():
        yield from _calibration(row, facts["reliability"].get(law))
    if facts["unknown"]:
        share = facts["unknown"] / facts["frames"]
        yield f"{share:.2%} of the frames were in states never seen in training."
    for name, baseline in facts["baselines"].items():
        yield ""
        yield f"Baseline {name}:"
        yield from _table(baseline["laws"])
        for row in baseline["laws"]:
            yield from _early(row, found.horizon_s)
        for law, why in baseline["skipped"].items():
            yield f"{shown(law)}: not judged, {why}"
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
            yield f"Of {shown(law)} the policy only alerts: nothing was done about it."
    elif not facts["acts"]:
        yield ""
        yield NOTHING_ENFORCED
    if out is not None:
        yield f"`forewarn report {out}` shows this on a page."


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    deadlines = any(row["in_time"] is not None for row in rows)
    head = [
        "law", "threshold", "violations", "detected", "to trigger: mean", "median",
        "p10", "to violation: mean", "max", "clean", "false alarms", "an hour",
        *(["3 s before the deadline"] if deadlines else []),
    ]  # fmt: skip
    return table(
        head,
        (
            (
                shown(row["law"]),
                f"{row['threshold']:g}",
                row["violating"],
                _share(row, "detection_rate"),
                *(
                    in_seconds(row["awt_trigger_s"][key])
                    for key in ("mean", "median", "p10")
                ),
                *(in_seconds(row["awt_violation_s"][key]) for key in ("mean", "max")),
                row["clean"],
                _share(row, "false_alarm_rate"),
                _number(row["false_alarms_per_hour"], "{:.1f}"),
                *([_number((row["in_time"] or {}).get("rate"))] if deadlines else []),
            )
            for row in rows
        ),
    )


def _at(row: Mapping[str, Any]) -> str:
    return f"{shown(row['law'])} from {row['threshold']:g} on"


def _early(row: Mapping[str, Any], horizon_s: float) -> Iterator[str]:
    from forewarn.monitors.evaluation.warned import warned_early

    if words := warned_early(row, horizon_s):
        yield f"{_at(row)}: {words}."


def _calibration(
    row: Mapping[str, Any], curve: Mapping[str, Any] | None
) -> Iterator[str]:
    if row["brier"] is None or curve is None:
        return
    yield (
        f"{shown(row['law'])}: broken in {_share(row, 'base_rate')} of the runs; risk"
        f" at the start {row['initial_risk']:.3f}; Brier score {row['brier']:.4f}, of"
        f" the base rate {row['brier_of_base_rate']:.4f}"
    )
    bins = [each for each in curve["bins"] if each["traces"] >= _FEWEST_RUNS]
    if bins:
        worst = max(bins, key=lambda each: abs(each["predicted"] - each["observed"]))
        yield (
            f"  of {len(bins)} spans of risk with {_FEWEST_RUNS} runs or more the worst"
            f" said {worst['predicted']:.2f} where it happened in"
            f" {worst['observed']:.2f} of the frames ({worst['traces']} runs)"
        )


def _trade_off(
    curves: Mapping[str, Mapping[str, Any]], horizon_s: float
) -> Iterator[str]:
    from forewarn.monitors.evaluation.warned import ALLOWED, best_allowed, warned_early

    yield (
        f"The most that each detects at {ALLOWED:g} false alarms a clean run or fewer."
        " The threshold is picked on these very runs, for all alike:"
    )
    rows, notes = [], []
    for law in dict.fromkeys(law for laws in curves.values() for law in laws):
        for way, laws in curves.items():
            if law not in laws:
                continue
            best = best_allowed(laws[law]) or {}
            if words := warned_early(best, horizon_s):
                notes.append(f"{shown(law)} by {way}: {words}.")
            rows.append(
                (
                    shown(law),
                    way,
                    _number(best.get("detection_rate")),
                    _number(best.get("false_alarm_rate")),
                    in_seconds(best.get("awt_trigger_s")),
                    in_seconds(best.get("awt_violation_s")),
                    _number(best.get("threshold"), "{:.3g}"),
                )
            )
    head = ["law", "by", "detected", "false alarms", "to trigger", "to violation", "at"]
    yield from table(head, rows)
    yield from notes


def _paper_table(found: Measurement) -> Iterator[str]:
    from forewarn.scenarios.measuring.measure import hidden

    yield (
        "The paper's Table 1, in its own form: the advance warning time to the"
        " violation, without a word on false alarms. `paper` is its own recipe."
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
    from forewarn.scenarios.measuring.pairs import trips

    yield f"With the guard acting, on the same {facts['pairs']} seeds:"
    yield from table(
        ["law", "broken without", "with", "cut by", "caused"],
        (
            (
                shown(law["law"]),
                _counted(law, "unguarded"),
                _counted(law, "guarded"),
                "-" if law["cut"] is None else f"{100 * law['cut']:.0f} %",
                law["caused"],
            )
            for law in facts["laws"]
        ),
    )
    done = ", ".join(f"{kind} in {n}" for kind, n in facts["episodes_with"].items())
    yield f"Interventions: {done or 'none'}."
    driving = facts["driving"]
    for fact, words in (
        ("collided", "Collisions a run"),
        ("hard_brakes", "Hard brakes a run"),
    ):
        if fact in driving:
            both = driving[fact]
            yield (
                f"{words}: {both['unguarded']:.3f} without, {both['guarded']:.3f} with."
            )
    yield from trips(driving)
    if facts["duration_ratio"] is not None:
        yield (
            "Runs that were clean both ways took"
            f" {facts['duration_ratio']:.2f} times as long;"
            f" {facts['prolonged']} of {facts['clean_pairs']} took longer by more than"
            " a tenth."
        )
    if facts["failed"]:
        yield f"{facts['failed']} of {facts['episodes']} guarded episodes failed."


def _counted(law: Mapping[str, Any], side: str) -> str:
    share = law[f"violation_rate_{side}"]
    return f"{law[f'violating_{side}']} ({_number(share)})"


def _share(row: Mapping[str, Any], key: str) -> str:
    if row[key] is None:
        return "-"
    low, high = row["intervals"][key]
    return f"{row[key]:.2f} ({low:.2f} to {high:.2f})"


def _number(value: float | None, form: str = "{:.2f}") -> str:
    return "-" if value is None else form.format(value)


def write_csv(path: Path, found: Measurement) -> None:
    """Every row of the tables, the guard's and the baselines', a line each."""
    from forewarn.abstractions.files import atomic_text

    facts = found.as_dict()
    rows = [("guard", row) for row in facts["laws"]]
    rows += [
        (name, row) for name, each in facts["baselines"].items() for row in each["laws"]
    ]
    flat = [
        {"scenario": found.scenario, "by": way, **_flat("", row)} for way, row in rows
    ]
    for row in flat:
        row |= {k: harmless_cell(v) for k, v in row.items() if isinstance(v, str)}
    names = dict.fromkeys(name for row in flat for name in row)
    with atomic_text(path) as out:
        writer = csv.DictWriter(out, list(names), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)


def _flat(prefix: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Nested figures under joined names; an interval as its two ends."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping):
            found |= _flat(f"{prefix}{key}_", value)
        elif isinstance(value, tuple | list):
            found |= {f"{prefix}{key}_low": value[0], f"{prefix}{key}_high": value[1]}
        else:
            found[f"{prefix}{key}"] = "" if value is None else value
    return found
