"""The demo's steps for a scenario: collect runs, learn, tune, measure, and repeat one
violating run with the guard.

Models are learned from unguarded runs during the demo, and evaluated on held-out runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import write_json
from forewarn.abstractions.readers.stored import Stored
from forewarn.monitors.chains.formats.own import models_as_dict
from forewarn.monitors.finding.choice import Choice, Chosen, Evidence
from forewarn.monitors.guarding.decision import Kind
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.trust.hindsight import Found
from forewarn.scenarios.measuring.measure import (
    LawRow,
    Measurement,
    Wish,
    measure,
)
from forewarn.scenarios.measuring.recorded import applicable, kept_runs
from forewarn.scenarios.report.sources import MEASUREMENT
from forewarn.scenarios.running.campaign import Kept, Progress, campaign, jobs
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import Here, Pool
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.training.train import (
    Trained,
    collected,
    dealt,
    learned,
    settled,
)

__all__ = [
    "DRIVING", "HOUSEHOLD", "MEASUREMENT", "WITHOUT_SUMO", "Leg", "Travelled", "travel",
]  # fmt: skip

FALSE_ALARMS = 0.20
"""The guaranteed maximum false-alarm rate. With so few tuning runs, hardly any
threshold could guarantee a lower one.
"""

_TRIED = 8
"""The maximum number of violating runs that are repeated until the guard prevents a
violation.
"""

Shown = Callable[[Iterable[Any], str, int], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Leg:
    """One scenario of the demo.

    Args:
        scenario: The name of the scenario.
        kind: The intervention at the tuned thresholds.
        training: The seeds of the training runs.
        held_out: The seeds of the held-out runs.
    """

    scenario: str
    kind: Kind
    training: range
    held_out: range


# These seeds are used only for the demo, not for any published figure.
DRIVING = (
    Leg("s1", "stop", range(600_000, 600_240), range(720_000, 720_060)),
    Leg("s3", "stop", range(600_000, 600_240), range(720_000, 720_060)),
)
WITHOUT_SUMO = (
    Leg("tiny-road", "stop", range(600_000, 600_150), range(720_000, 720_100)),
)
HOUSEHOLD = (
    Leg(
        "fork-in-microwave", "reflect", range(600_000, 600_180),
        range(720_000, 720_060),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Travelled:
    """The results of the demo for one scenario.

    Args:
        leg: The scenario's name, seeds and intervention.
        scenario: The loaded scenario.
        trained: The learned model, its thresholds and their guarantees.
        policy: The guard's policy.
        measured: The quality of the warnings on the held-out runs.
        folder: The folder that contains the measurement.
        seed: The seed of the run that is shown both without and with the guard; None if
            no held-out run broke a law.
        records: The two run records for that seed, the one in shadow mode first.
    """

    leg: Leg
    scenario: Scenario
    trained: Trained
    policy: Policy
    measured: Measurement
    folder: Path
    seed: int | None
    records: tuple[Path, ...]

    @property
    def row(self) -> LawRow:
        """The measured row of the law that was violated most often."""
        return max(self.measured.rows, key=lambda row: len(row.warned.violating))

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that a report on this scenario reads."""
        return (self.folder / MEASUREMENT, *self.records)


def travel(
    leg: Leg,
    folder: Path,
    on: Pool,
    progress: Progress = lambda items, *_: items,
    shown: Shown = lambda items, *_: items,
) -> Travelled:
    """Runs all steps of the demo for one scenario.

    Args:
        leg: The scenario, its seeds and the intervention.
        folder: The folder for its files; existing episodes are not run again.
        on: The pool in which the episodes run.
        progress: Shows the progress of the episodes.
        shown: Shows the progress of learning and tuning.
    """
    scenario = load_scenario(leg.scenario)
    training = folder / "training"
    paths = collected(scenario, leg.training, on, training, progress)
    trained = _learn(leg, scenario, paths, shown)
    policy = trained.policy
    if policy is None:
        raise InvalidInput(
            f"no threshold for {scenario.name} achieves the demo's guarantee"
        )
    file = folder / f"{scenario.name}.model.json"
    write_json(file, models_as_dict(trained.models))
    wish = Wish(scenario, file, policy, leg.held_out, sweep=True)
    measured = measure(wish, on, folder / "held-out", progress)
    write_json(folder / MEASUREMENT, measured.as_dict())
    seed, records = _twice(measured, scenario, file, policy, folder / "shown")
    return Travelled(leg, scenario, trained, policy, measured, folder, seed, records)


def _learn(
    leg: Leg, scenario: Scenario, stored: Sequence[Stored], shown: Shown
) -> Trained:
    """Learns a chain over the scenario's own predicates, and tunes its thresholds."""
    hand = scenario.abstraction
    signals = [*hand.signals, *(name for law in scenario.laws for name in law.signals)]
    known = kept_runs(stored, dict.fromkeys(signals), shown)
    laws = applicable(scenario.laws, known)
    found = Found(hand)
    choice = Choice(found, lambda _: found, (Evidence("hand-made", hand.name, {}),))
    learning, *_ = dealt(len(known))
    model = learned(stored[learning], known[learning], choice, laws, scenario.horizon_s)
    name = f"the demo's, false-alarm rate at most {FALSE_ALARMS:g}"
    return settled(
        scenario, [model], [Chosen(tuple(laws), choice)], known, FALSE_ALARMS,
        Policy(name), leg.kind, shown,
    )  # fmt: skip


def _twice(
    measured: Measurement,
    scenario: Scenario,
    model: Path,
    policy: Policy,
    folder: Path,
) -> tuple[int | None, tuple[Path, ...]]:
    """Repeats a violating run in shadow mode and with the guard intervening.

    Returns the seed and both records, for the first candidate in which the guard
    prevents the violation, or else for the first candidate.
    """
    kept: list[Kept] = ["record", "scene"]
    seeds = _warned_seeds(measured)[:_TRIED]
    if not seeds:
        return None, ()

    def run(seed: int, acting: Policy) -> Episode:
        todo = jobs(plan(scenario, model, acting), scenario, [seed], folder, kept)
        (episode,) = campaign(todo, Here())
        return episode

    chosen, guarded = seeds[0], None
    for seed in seeds:
        episode = run(seed, policy)
        if guarded is None or not (episode.violations or episode.failed):
            chosen, guarded = seed, episode
        if not (episode.violations or episode.failed):
            break
    watched = run(chosen, replace(policy, shadow=True))
    records = [each.record for each in (watched, guarded) if each and each.record]
    return chosen, tuple(folder / record for record in records)


def _warned_seeds(measured: Measurement) -> list[int]:
    """Returns the seeds of violating held-out runs, those warned in time first."""
    good = [episode.seed for episode in measured.episodes if not episode.failed]
    ranked: dict[int, bool] = {}
    for row in measured.rows:
        for seed, run in zip(good, row.warned.runs, strict=True):
            if run.broken is not None:
                ranked[seed] = ranked.get(seed, False) or run.detected
    return sorted(ranked, key=lambda seed: not ranked[seed])
