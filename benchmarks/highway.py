"""Figures of docs/environments.md: warnings on simulated roads, on held-out runs.

The roads are highway-env's and MetaDrive's. Each scenario is run on held-out seeds
without a guard. The table of each law compares the shipped model; gradient boosting and
logistic regression on the raw signals and their last second, fitted to the model's
training runs; the time to collision or to the road's edge; and RSS. Each threshold is
chosen on these same runs for a false-alarm rate of at most 10 %. The guard also has a
row at the shipped threshold. For a second table, some of the seeds are run again with
the guard stopping the vehicle, if there is a shipped policy for that.

    python benchmarks/highway.py --runs out/runs [--episodes 90] [SCENARIO ...]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from held_out import (
    ALLOWED,
    GUARD,
    GUARDED,
    LEARNED,
    Fresh,
    Outcomes,
    Recordings,
    Way,
    boosting_soon,
    fresh,
    haste,
    leads,
    scored,
    shipped,
    with_guard,
)
from numpy.typing import NDArray
from run import command_line, markdown

from forewarn.abstractions.frame import Frame
from forewarn.abstractions.trace import Kept
from forewarn.monitors.evaluation.foretold import Foretold, climb_of, early
from forewarn.monitors.evaluation.warned import Warned
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.guarding.policy import load_policy
from forewarn.plugins.baselines.rss import ResponsibilitySensitiveSafety
from forewarn.plugins.contracts import Source
from forewarn.scenarios.schema import load_scenario, shipped_scenarios
from forewarn.scenarios.shipped import FOLDER, shipped_with

FIRST_SEED = 8_400_040
ROADS = [
    name
    for name, path in shipped_scenarios().items()
    if path.parent.name in ("highway", "metadrive")
    and shipped_with(load_scenario(name))
]


def safe_distances(
    told: Recordings, corpus: Corpus, out: Sequence[int]
) -> Iterator[Outcomes]:
    """Scores runs by how much RSS's safe distances are violated."""
    (law,) = corpus.laws

    def missed(run: Kept) -> NDArray[np.float64]:
        source = Source("kept", "driving", tuple(run.signals), corpus.period_s)
        rss = ResponsibilitySensitiveSafety(law, source)
        missed_m = np.array([rss.score(frame) for frame in _frames(run)])
        risks: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-missed_m / 100.0))
        return risks

    yield from scored(told, corpus, out, missed)


def _frames(run: Kept) -> Iterator[Frame]:
    for number, time_s in enumerate(run.times_s.tolist()):
        values = {name: column[number] for name, column in run.signals.items()}
        plain = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in values.items()
        }
        yield Frame(time_s, number, plain)


def _at(several: Sequence[Foretold], horizon_s: float, at: float) -> tuple[str, ...]:
    """Returns the same figures at one threshold, and the false-alarm rate."""
    warned = Warned(
        tuple(climb_of(each, horizon_s, each.run, False).warned(at) for each in several)
    )
    return *leads(warned.ahead(True)), f"{warned.false_alarm_rate or 0.0:.2f}"


HEAD = (
    "scenario, law", "warned by", "detection rate", "mean lead time", "median",
    "at least 1 s ahead", "false-alarm rate",
)  # fmt: skip


def _compared(of: Fresh, number: int, law: str) -> Iterator[tuple[str, ...]]:
    """Yields the rows of a law."""
    horizon_s = of.told.scenario.horizon_s
    soonest = "time_to_edge" if law == "stay_on_road" else "time_to_collision"
    ways: dict[str, Way] = {
        GUARD: shipped(of.files),
        **LEARNED,
        "boosting, one second ahead": boosting_soon,
        soonest: haste(soonest),
    }
    if law == "no_collision":
        ways["rss"] = safe_distances
    found = of.found(ways, number)
    told = found[GUARD]
    violating = sum(each.broken is not None for each in told)
    name = f"`{of.told.scenario.name}`, `{law}` ({violating} of {len(told)} runs)"
    for way, several in found.items():
        cells = leads(early(several, horizon_s, ALLOWED))
        yield name, way, *cells, f"at most {ALLOWED:.2f}"
    for step in load_policy(of.files.policy).steps_for(law):
        row = f"{GUARD}, threshold {step.threshold:g}"
        yield name, row, *_at(told, horizon_s, step.threshold)


def table(
    scenarios: Sequence[str] = ROADS,
    *,
    runs: Path,
    trained: Path = FOLDER,
    episodes: int = 200,
    seed: int = FIRST_SEED,
    guarded: int = 100,
) -> Iterator[str]:
    """Yields the table of warnings and, if asked, the table of guarded runs."""
    seeds = range(seed, seed + episodes)
    roads = [fresh(name, seeds, trained, runs) for name in scenarios]
    rows = (
        row
        for of in roads
        for number, law in enumerate(of.told.scenario.laws)
        for row in _compared(of, number, law.name)
    )
    yield from markdown(HEAD, rows)
    if guarded:
        acting = [(of, of.files.acting) for of in roads if of.files.acting.exists()]
        acted = (with_guard(of, load_policy(f), guarded) for of, f in acting)
        yield ""
        # The stops of driving.py count the arrivals, in more runs.
        yield from markdown(GUARDED[:-1], (row[:-1] for row in acted))


if __name__ == "__main__":
    command_line(__doc__, table)
