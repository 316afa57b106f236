"""Tables of campaigns and measurements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from forewarn.monitors.evaluation.figures import wilson
from forewarn.monitors.evaluation.foretold import ReliabilityBin
from forewarn.scenarios.measuring.pairs import ended
from forewarn.scenarios.measuring.shown import (
    EPISODES,
    QUALITY,
    Facts,
    Shown,
    calibration,
    drift,
    guarded,
    interventions,
    methods,
    statistics,
    warnings,
)
from forewarn.scenarios.measuring.shown import table as columns
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
    body = [["–" if cell is None else cell for cell in row] for row in rows]
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
    has_goal = any(each.goal_s is not None for each in good)
    failed = len(episodes) - len(good)
    several = "episode, seed" if len(episodes) == 1 else "episodes, seeds"
    lead = f"{len(episodes)} {several} {_seeds([e.seed for e in episodes])}"
    if failed:
        lead += f"; {failed} failed and are not included in the fractions"
    runs = columns(EPISODES, episodes[:SHOWN_EPISODES])
    rows = [
        (tag("a", e.seed, href=shown[e.seed]) if e.seed in shown else e.seed, *cells)
        for e, (_, *cells) in zip(episodes, runs.rows, strict=False)
    ]
    more = len(episodes) - len(rows)
    return joined(
        tag("p", f"{lead}."),
        table(("law", "violating runs", "of", "fraction", "95 %"), laws)
        if laws
        else tag("p", "No law was broken."),
        *(tag("p", said) for said in ended(good, has_goal)),
        tag(
            "details",
            tag("summary", "Episodes"),
            table(runs.head, rows),
            tag("p", f"… and {more} more.", class_="note") if more else None,
            class_="fold",
        ),
    )


def _share(part: int, whole: int) -> tuple[object, ...]:
    bounds = wilson(part, whole)
    if bounds is None:
        return part, whole, None, None
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


def measurement(facts: Facts) -> Markup:
    """Builds the tables and charts of a measurement by `forewarn measure`."""
    good = facts["episodes"] - facts["failed"]
    laws = list(dict.fromkeys(row["law"] for row in facts["laws"]))
    horizon = facts["laws"][0]["horizon_s"] if facts["laws"] else 0.0
    acting, found = facts.get("guarded"), facts.get("drift")
    return joined(
        *(tag("p", said, class_="lead") for said in warnings(facts["laws"], horizon)),
        tag("h3", f"With the guard intervening, on the same {acting['pairs']} seeds")
        if acting
        else None,
        *marked(guarded(acting) if acting else ()),
        *marked(interventions(facts)),
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
            *marked([statistics(("method", "law", *QUALITY), methods(facts))]),
            *(
                side_by_side(trade_off(facts, law), reliability(facts, law))
                for law in laws
            ),
            *marked(calibration(facts["laws"])),
            class_="fold",
        ),
        tag(
            "details",
            tag(
                "summary",
                f"Drift: evidence {found['evidence']:.2g} after {found['runs']} runs "
                f"(drift is reported from {found['enough']:g})",
            ),
            *marked(drift(found)),
            class_="fold",
        )
        if found
        else None,
    )


def marked(shown: Iterable[Shown]) -> Iterator[Markup]:
    """Yields sentences as paragraphs, and tables."""
    for each in shown:
        yield tag("p", each) if isinstance(each, str) else table(each.head, each.rows)


def cautions(facts: Facts) -> list[str]:
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
