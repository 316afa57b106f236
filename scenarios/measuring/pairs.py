"""Unguarded against guarded: what a guard that acts changes, in pairs by seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forewarn.monitors.evaluation.figures import rate
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.schema import Scenario

LONGER = 1.1
"""A clean run that takes more than so many times as long as without is prolonged."""


def compare(
    unguarded: Sequence[Episode], guarded: Sequence[Episode], scenario: Scenario
) -> dict[str, Any]:
    """What the guard's acting changed, pairing episodes by seed.

    Pairs of which one failed are left out. How long trips take is compared on those in
    which no law was broken, with and without.
    """
    others = {episode.seed: episode for episode in guarded if not episode.failed}
    pairs = [
        (before, others[before.seed])
        for before in unguarded
        if not before.failed and before.seed in others
    ]
    laws = []
    for law in scenario.laws:
        broken = [(b.first(law.name), a.first(law.name)) for b, a in pairs]
        without = sum(before is not None for before, _ in broken)
        acting = sum(after is not None for _, after in broken)
        caused = sum(before is None and after is not None for before, after in broken)
        laws.append(
            {
                "law": law.name,
                "violating_unguarded": without,
                "violating_guarded": acting,
                "violation_rate_unguarded": rate(without, len(pairs)),
                "violation_rate_guarded": rate(acting, len(pairs)),
                "caused": caused,
                "cut": None if not without else 1 - acting / without,
            }
        )
    clean = [pair for pair in pairs if not (pair[0].violations or pair[1].violations)]
    before_s = sum(before.duration_s for before, _ in clean)
    after_s = sum(after.duration_s for _, after in clean)
    kinds = [{each.kind for each in after.interventions} for _, after in pairs]
    return {
        "episodes": len(guarded),
        "failed": sum(episode.failed for episode in guarded),
        "pairs": len(pairs),
        "laws": laws,
        "episodes_with": {
            kind: sum(kind in found for found in kinds)
            for kind in sorted(set().union(*kinds))
        },
        "clean_pairs": len(clean),
        "prolonged": sum(prolonged(before, after) for before, after in clean),
        "duration_ratio": after_s / before_s if before_s else None,
        "driving": _driving(pairs),
    }


def prolonged(before: Episode, after: Episode) -> bool:
    """Whether a run took longer by more than a tenth."""
    # Times are sums of periods, and sums are rounded.
    return after.duration_s > LONGER * before.duration_s + 1e-9


def _driving(
    pairs: Sequence[tuple[Episode, Episode]],
) -> dict[str, Mapping[str, Any]]:
    """How episodes without and with a guard acting were driven, in pairs by seed."""
    found: dict[str, Mapping[str, Any]] = {}
    for fact in ("collided", "hard_brakes"):
        both = _known(pairs, fact)
        if both:
            sums = [
                sum(float(value) for value in side) for side in zip(*both, strict=True)
            ]
            found[fact] = {
                "unguarded": sums[0] / len(both),
                "guarded": sums[1] / len(both),
            }
    arrived = _known(pairs, "destination_s")
    if any("destination_s" in before.facts for before, _ in pairs):
        before_s = sum(before for before, _ in arrived)
        after_s = sum(after for _, after in arrived)
        found["destination_s"] = {
            "pairs": len(arrived),
            "of": len(pairs),
            "arrived": {
                side: sum(each.facts.get("destination_s") is not None for each in runs)
                for side, runs in zip(
                    ("unguarded", "guarded"), zip(*pairs, strict=True), strict=True
                )
            },
            "unguarded": before_s / len(arrived) if arrived else None,
            "guarded": after_s / len(arrived) if arrived else None,
            "ratio": after_s / before_s if before_s else None,
        }
    return found


def _known(
    pairs: Sequence[tuple[Episode, Episode]], fact: str
) -> list[tuple[float, float]]:
    """The pairs of which both know it."""
    values = [
        (before.facts.get(fact), after.facts.get(fact)) for before, after in pairs
    ]
    return [(a, b) for a, b in values if a is not None and b is not None]


def trips(driving: Mapping[str, Any]) -> Iterator[str]:
    """How many arrived, with and without, and how long those took that did both."""
    found = driving.get("destination_s")
    if not found:
        return
    there = found["arrived"]
    yield (
        f"Arrived: {there['unguarded']} of {found['of']} without,"
        f" {there['guarded']} with."
    )
    if found["pairs"]:
        yield (
            f"Time to the destination, where both arrived ({found['pairs']} pairs):"
            f" {found['unguarded']:.1f} s without, {found['guarded']:.1f} s with."
        )
