"""Tables of campaigns and measurements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from forewarn.monitors.evaluation.branched import HEAD, cells, if_acted
from forewarn.monitors.evaluation.figures import wilson
from forewarn.monitors.evaluation.foretold import ReliabilityBin
from forewarn.monitors.evaluation.warned import warned_early
from forewarn.scenarios.measuring.late import late_lines
from forewarn.scenarios.measuring.pairs import finished, handled, saved
from forewarn.scenarios.report.drawing import (
    Markup,
    joined,
    reliability,
    side_by_side,
    tag,
    trade_off,
)
from forewarn.scenarios.running.episode import Episode

SHOWN_EPISODES = 50


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Builds a table that scrolls if it is too wide, with right-aligned figures."""
    body = [list(row) for row in rows]
    numeric = [
        all(isinstance(row[i], int | float) or _figure(row[i]) for row in body)
        for i in range(len(head))
    ]

    def cell(kind: str, i: int, value: object) -> Markup:
        return tag(kind, value, class_="n" if numeric[i] else None)

    return tag(
        "div",
        tag(
            "table",
            tag("thead", tag("tr", *(cell("th", i, h) for i, h in enumerate(head)))),
            tag(
                "tbody",
                *(
                    tag("tr", *(cell("td", i, v) for i, v in enumerate(row)))
                    for row in body
                ),
            ),
        ),
        class_="scroll",
        tabindex=0,
        role="group",
        aria_label=f"table: {', '.join(head)}",
    )


def _figure(value: object) -> bool:
    return isinstance(value, str) and (value == "–" or value.lstrip("-")[:1].isdigit())


def campaign(episodes: Sequence[Episode], shown: Mapping[int, str]) -> Markup:
    """Builds the table of the episodes of one scenario and mode.

    Args:
        episodes: All episodes.
        shown: The link to the section of each run on the page, by seed.
    """
    good = [episode for episode in episodes if not episode.failed]
    names = sorted({b.law for e in good for b in e.violations})
    laws = [
        (
            name,
            *_share(sum(e.first(name) is not None for e in good), len(good)),
        )
        for name in names
    ]
    failed = len(episodes) - len(good)
    several = "episode, seed" if len(episodes) == 1 else "episodes, seeds"
    lead = f"{len(episodes)} {several} {_seeds([e.seed for e in episodes])}"
    if failed:
        lead += f"; {failed} failed and are not included in the fractions"
    rows = [
        (
            tag("a", e.seed, href=shown[e.seed]) if e.seed in shown else e.seed,
            f"{e.duration_s:.1f} s",
            ", ".join(f"{b.law} {b.time_s:g} s" for b in e.violations) or "–",
            f"{e.alarms[0].time_s:g} s" if e.alarms else "–",
            ", ".join(dict.fromkeys(i.kind for i in e.interventions)) or "–",
            e.error or e.ended,
        )
        for e in episodes[:SHOWN_EPISODES]
    ]
    more = len(episodes) - len(rows)
    return joined(
        tag("p", f"{lead}."),
        table(("law", "violating runs", "of", "fraction", "95 %"), laws)
        if laws
        else tag("p", "No law was broken."),
        tag(
            "details",
            tag("summary", "Episodes"),
            table(
                ("seed", "duration", "violations", "first alarm", "acted", "ended"),
                rows,
            ),
            tag("p", f"… and {more} more.", class_="note") if more else None,
            class_="fold",
        ),
    )


def _share(part: int, whole: int) -> tuple[object, ...]:
    bounds = wilson(part, whole)
    if bounds is None:
        return part, whole, "–", "–"
    low, high = bounds
    return part, whole, f"{part / whole:.2f}", f"{low:.2f} to {high:.2f}"


def _seeds(seeds: Sequence[int]) -> str:
    ordered = sorted(seeds)
    if not ordered:
        return "none"
    whole = ordered == list(range(ordered[0], ordered[-1] + 1))
    if whole and len(ordered) > 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered[:10])) + (", …" if len(ordered) > 10 else "")


# -- measurements ---------------------------------------------------------------------


def measurement(facts: Mapping[str, Any]) -> Markup:
    """Builds the tables and charts of a measurement by `forewarn measure`."""
    good = facts["episodes"] - facts["failed"]
    laws = list(dict.fromkeys(row["law"] for row in facts["laws"]))
    horizon = facts["laws"][0]["horizon_s"] if facts["laws"] else 0.0
    rows = [("Forewarn", row) for row in facts["laws"]]
    for name, baseline in facts.get("baselines", {}).items():
        rows += [(name, row) for row in baseline["laws"]]
    return joined(
        *(tag("p", text, class_="lead") for text in _worth(facts["laws"], horizon)),
        _guarded(facts["guarded"]) if facts.get("guarded") else None,
        *(
            tag("p", f"For {law}, the policy only alerts and does not intervene.")
            for law in facts.get("only_alerts", ())
        ),
        *(
            tag("p", sentence)
            for law, late in facts.get("last_moment_s", {}).items()
            for sentence in late_lines(law, late)
        ),
        *(_branched(law, b) for law, b in facts.get("if_acted", {}).items()),
        tag(
            "details",
            tag("summary", "All figures with their intervals"),
            tag(
                "p",
                f"{good} held-out runs, seeds {_seeds(facts['seeds'])}; the "
                f"prediction horizon is {horizon:g} s. A violation is detected if "
                "its first alarm came before its trigger; lead times are those of "
                "detected violations. A false alarm is a clean run with any "
                "alarm. In brackets: 95 % intervals.",
            ),
            table(
                (
                    "method", "law", "threshold", "detected", "of", "rate",
                    "lead time", "median", "1 s ahead",
                    "to violation", "false alarms", "of", "false-alarm rate",
                ),
                (_row(name, row) for name, row in rows),
            ),
            *(
                side_by_side(trade_off(facts, law), reliability(facts, law))
                for law in laws
            ),
            *_notes(facts, laws),
            class_="fold",
        ),
        _drift(facts["drift"]) if facts.get("drift") else None,
    )  # fmt: skip


def _branched(law: str, bands: Sequence[Mapping[str, Any]]) -> Markup:
    """Builds the table of the effect of slowing and stopping, by risk band."""
    return joined(tag("p", if_acted(law)), table(HEAD, map(cells, bands)))


def _drift(facts: Mapping[str, Any]) -> Markup:
    """Lists the quantities examined for drift, with the evidence for each."""
    rows = [
        (
            each["law"],
            each["what"],
            each["runs"],
            "–" if each["happened"] is None else each["happened"],
            each["reference"],
            f"{each['evidence']:.2g}",
        )
        for each in facts["examined"]
    ]
    missing = ", ".join(facts["not_examined"])
    return tag(
        "details",
        tag(
            "summary",
            f"Drift: evidence {facts['evidence']:.2g} after {facts['runs']} runs "
            f"(reported from {facts['enough']:g})",
        ),
        table(
            ("law", "examined", "runs", "occurred in", "compared with", "evidence"),
            rows,
        ),
        tag("p", f"Not examined, for lack of training figures: {missing}.")
        if missing
        else None,
        class_="fold",
    )


def _worth(rows: Sequence[Mapping[str, Any]], horizon_s: float) -> Iterator[str]:
    """Yields one summary sentence per law and threshold."""
    for row in rows:
        ahead = row["awt_trigger_s"]["mean"]
        early = "" if ahead is None else f", {ahead:.1f} s ahead on average"
        if ahead is not None and "second_ahead" in row:
            middle = row["awt_trigger_s"]["median"]
            early += f" (median {middle:.1f} s; {row['second_ahead']} at least 1 s)"
        yield (
            f"{row['law']}, threshold {row['threshold']:g}: {row['detected']} of "
            f"{row['violating']} violations were detected in time{early}; "
            f"{row['false_alarms']} of {row['clean']} clean runs had an alarm."
        )
        if words := warned_early(row, horizon_s):
            yield f"{row['law']}: {words}."


def _row(name: str, row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        name,
        row["law"],
        f"{row['threshold']:g}",
        row["detected"],
        row["violating"],
        _rate(row, "detection_rate"),
        _time(row["awt_trigger_s"]["mean"]),
        _time(row["awt_trigger_s"]["median"]),
        row.get("second_ahead", "–"),
        _time(row["awt_violation_s"]["mean"]),
        row["false_alarms"],
        row["clean"],
        _rate(row, "false_alarm_rate"),
    )


def _rate(row: Mapping[str, Any], key: str) -> str:
    if row[key] is None:
        return "–"
    low, high = row["intervals"][key]
    return f"{row[key]:.2f} ({low:.2f} to {high:.2f})"


def _time(time_s: float | None) -> str:
    return "–" if time_s is None else f"{time_s:.1f} s"


def _notes(facts: Mapping[str, Any], laws: Sequence[str]) -> list[Markup]:
    notes: list[Markup] = []
    for law in laws:
        row = next(each for each in facts["laws"] if each["law"] == law)
        if row["brier"] is not None:
            notes.append(
                tag(
                    "p",
                    f"{law}: Brier score {row['brier']:.4f}; always predicting "
                    f"the base rate scores {row['brier_of_base_rate']:.4f}. The "
                    f"mean risk at the start is {row['initial_risk']:.3f}; the "
                    f"law is broken in {_rate(row, 'base_rate')} of the runs.",
                )
            )
    return notes


def _guarded(facts: Mapping[str, Any]) -> Markup:
    ratio = facts["duration_ratio"]
    done = ", ".join(f"{k} in {n}" for k, n in facts["episodes_with"].items())
    return joined(
        tag("h3", f"With the guard acting, on the same {facts['pairs']} seeds"),
        table(
            (
                "law",
                "violations without",
                "with",
                "cut by",
                "of these arrive",
                "caused",
            ),
            (
                (
                    law["law"],
                    law["violating_unguarded"],
                    law["violating_guarded"],
                    "–" if law["cut"] is None else f"{100 * law['cut']:.0f} %",
                    saved(law) or "–",
                    law["caused"],
                )
                for law in facts["laws"]
            ),
        ),
        tag("p", f"Interventions: {done or 'none'}."),
        *(tag("p", sentence) for sentence in finished(facts)),
        *(tag("p", sentence) for sentence in handled(facts["driving"])),
        tag(
            "p",
            f"The {facts['clean_pairs']} clean runs that are comparable took"
            f" {ratio:.2f} times as long.",
        )
        if ratio is not None
        else None,
    )


def cautions(facts: Mapping[str, Any]) -> list[str]:
    """Returns a caution if the runs of a measurement contradict the model."""
    found: list[str] = []
    drift, scenario = facts.get("drift"), facts["scenario"]
    if drift and drift["found_at"] is not None:
        found.append(
            f"Caution: after {drift['found_at']} runs of {scenario}, {drift['note']}."
        )
    for law, curve in facts.get("reliability", {}).items():
        bins = [ReliabilityBin(**{k: b[k] for k in _BIN}) for b in curve["bins"]]
        off = [each for each in bins if each.off]
        if off:
            worst = max(off, key=lambda each: abs(each.predicted - each.observed))
            found.append(
                f"Caution: the risk of {law} in {scenario} is not calibrated: "
                f"where it was {worst.predicted:.2f}, the observed frequency was "
                f"{worst.observed:.2f} in {worst.frames} frames ({worst.traces} "
                "runs)."
            )
    return found


_BIN = ("low", "high", "frames", "traces", "predicted", "observed")
