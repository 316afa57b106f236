"""Figures of docs/evidence.md: thresholds, intervals, and reports of drift.

    python benchmarks/evidence.py estimates --out out/evidence [SCENARIO ...]
    python benchmarks/evidence.py rates
    python benchmarks/evidence.py drift [--out out/drift --runs 600] SCENARIO ...

`estimates` simulates runs of each scenario and splits them as in `forewarn train`, with
the shipped abstraction; further runs are held out. It prints

- how many of 100 tunings, on 150 runs each sampled from held-out runs of s1 and s3,
  keep the guaranteed false-alarm rate on all other held-out runs;
- the width of the likely interval, compared with the confidence bounds.

`rates` and `drift` show how often drift is correctly and falsely reported. For `rates`,
outcomes are sampled, with seeds from 1, and tested against a rate that is guaranteed or
was estimated in training. For `drift`, new ordinary runs of a shipped model and runs
with reckless drivers are simulated once, with the shipped guard in shadow mode.
Deployments are sampled from these runs with replacement: ordinary ones, ones with twice
as many violating runs, and, for SUMO's driver, ones with reckless drivers.

Runs and scenarios already in --out are not measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from held_out import drive
from numpy.typing import NDArray
from run import command_line, markdown, stored

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.trace import Kept
from forewarn.monitors.chains.learning import Tally, learn
from forewarn.monitors.chains.model import Model, load_model
from forewarn.monitors.evaluation.evidence import Rate, Reference
from forewarn.monitors.evaluation.foretold import Foretold
from forewarn.monitors.guarding.chain import LawWatch
from forewarn.monitors.guarding.drift import Drift, Outcomes
from forewarn.monitors.guarding.policy import Policy, load_policy
from forewarn.monitors.guarding.watch import load_watch
from forewarn.monitors.risk.evidence import needed_abstraction
from forewarn.monitors.trust.encoding import encode_trace
from forewarn.monitors.trust.hindsight import Judge, foretold_by
from forewarn.monitors.trust.resampling import likely_risks
from forewarn.scenarios.running.campaign import campaign, jobs, pool
from forewarn.scenarios.running.episode import by_seed
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.schema import NamedPlugin, Scenario, load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped
from forewarn.scenarios.training.train import FALSE_ALARMS, dealt
from forewarn.scenarios.training.tune import settle

# -- thresholds and intervals

ESTIMATES_SEED = 7_000_000
SCENARIOS = ("s1", "s2", "s3", "s4", "s5", "s6")
TUNED = ("s1", "s3")
TUNINGS, RUNS = 100, 150


def estimates(
    scenarios: Sequence[str] = SCENARIOS,
    *,
    out: Path,
    episodes: int = 1000,
    fresh: int = 1000,
    seed: int = ESTIMATES_SEED,
) -> Iterator[str]:
    """Guaranteed thresholds on new runs, and the widths of intervals."""
    found = stored(out, scenarios, lambda name: _estimated(name, episodes, fresh, seed))
    yield f"{TUNINGS} tunings on {RUNS} runs, guaranteed rate {FALSE_ALARMS:g}:"
    yield ""
    head = (
        "scenario, law", "with a threshold", "kept", "mean rate", "highest", "detected",
    )  # fmt: skip
    yield from markdown(head, _tuned(found))
    yield ""
    yield "Likely intervals of risks:"
    yield ""
    head = (
        "scenario, law", "learned from", "states", "mean width, states", "frames",
        "safe, states",
    )  # fmt: skip
    rows = (
        (
            f"{each['scenario']}, {row['law']}",
            f"{each['learned_from']} of {each['episodes']}",
            each["states"],
            f"{row['width_of_states']:.3f}",
            f"{row['width_of_frames']:.3f}",
            f"{row['safe_width_of_states']:.3f}",
        )
        for each in found
        for row in each["laws"]
    )
    yield from markdown(head, rows)


def _estimated(name: str, episodes: int, fresh: int, seed: int) -> dict[str, Any]:
    """Returns all figures of a scenario."""
    scenario = load_scenario(name)
    shipped = load_model(Shipped.in_folder(FOLDER, name).model)
    abstraction = needed_abstraction(shipped, name)
    names = [*abstraction.signals, *(s for law in scenario.laws for s in law.signals)]
    names = list(dict.fromkeys(names))
    runs, _ = drive(scenario, range(seed, seed + episodes + fresh), names)
    learning, calibrating, aside = dealt(episodes)
    model = _learned(runs[learning], abstraction, scenario)
    horizon_s = scenario.horizon_s
    found = settle(
        scenario.laws, [model], (runs[calibrating], runs[aside]), FALSE_ALARMS,
        [horizon_s], Policy(),
    )  # fmt: skip
    curves = found.best.calibration
    kept = likely_risks(
        model, scenario.laws, horizon_s, runs[learning], found.best.told, curves
    )
    model = replace(model, likely=kept)
    judge = Judge(model, abstraction, scenario.laws, [horizon_s], _period(abstraction))
    told = foretold_by([judge], enumerate(runs[episodes:]))
    watch = load_watch(model, horizon_s=horizon_s)
    rows = []
    for law, watched in zip(scenario.laws, watch.laws, strict=True):
        watched.correct(curves[law.name])
        rows.append({"law": law.name, **_widths(watched, model, told[law.name])})
    tuned = _tunings(scenario, model, runs[episodes:], told) if name in TUNED else []
    return {
        "scenario": name,
        "learned_from": len(runs[learning]),
        "episodes": episodes,
        "states": model.chain.n,
        "laws": rows,
        "tunings": tuned,
    }


def _period(abstraction: Abstraction) -> float:
    return abstraction.period_s or 0.1


def _learned(
    runs: Sequence[Kept], abstraction: Abstraction, scenario: Scenario
) -> Model:
    tally = Tally()
    for run in runs:
        tally.add_codes(encode_trace(run, abstraction), abstraction.state_name)
    return learn(
        tally,
        abstraction=abstraction.as_dict(), period_s=_period(abstraction),
        laws=tuple(repr(law.formula) for law in scenario.laws),
    )  # fmt: skip


def _widths(law: LawWatch, model: Model, told: Sequence[Foretold]) -> dict[str, float]:
    """Returns the mean widths of intervals, over states and over the frames of held-out
    runs.
    """
    visits, n = model.visits, model.chain.n
    assert visits is not None
    figures = [law._risks[law.automaton.step[0, letter]][state]
               for state, letter in enumerate(law._table.letters)
               if state != model.chain.end]  # fmt: skip
    likely = np.array([each[4] for each in figures])
    width = likely[:, 1] - likely[:, 0]
    safe = np.array([each[2] - each[0] for each in figures])
    pairs = np.concatenate([each.pairs for each in told])
    frame_width = _looked_up(law, pairs[pairs >= 0], n)
    return {
        "width_of_states": float(width.mean()),
        "width_of_frames": float(frame_width.mean()),
        "safe_width_of_states": float(safe.mean()),
    }


def _looked_up(law: LawWatch, pairs: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    ends = np.array([[each[4] or (0.0, 1.0) for each in row] for row in law._risks])
    table = (ends[..., 1] - ends[..., 0]).reshape(-1)
    assert table.size == len(law._risks) * n
    return np.asarray(table[pairs], np.float64)


def _tunings(
    scenario: Scenario,
    model: Model,
    runs: Sequence[Kept],
    told: Mapping[str, Sequence[Foretold]],
) -> list[dict[str, Any]]:
    """Returns the result of each tuning on the runs that it did not use, by law."""
    random = np.random.default_rng(0)
    horizon_s = scenario.horizon_s
    tops = {
        law: np.array([each.risks[horizon_s].max() for each in several])
        for law, several in told.items()
    }
    clean = {
        law: np.array([each.broken is None for each in several])
        for law, several in told.items()
    }
    found = []
    for _ in range(TUNINGS):
        order = random.permutation(len(runs))
        taken, left = order[:RUNS].tolist(), order[RUNS:]
        half = RUNS // 2
        shares = [runs[i] for i in taken[:half]], [runs[i] for i in taken[half:]]
        settled = settle(
            scenario.laws, [model], shares, FALSE_ALARMS, [horizon_s], Policy()
        )
        for law in told:
            later = left[clean[law][left]]
            entry: dict[str, Any] = {"law": law, "threshold": None}
            if law in settled.thresholds:
                meant = settled.best.calibration[law](tops[law][later])
                rate = float(np.mean(meant >= settled.thresholds[law]))
                entry |= {
                    "threshold": settled.thresholds[law],
                    "false_alarm_rate": rate,
                    "detected": settled.laws[law].warned.detection_rate,
                }
            found.append(entry)
    return found


def _tuned(found: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[object]]:
    for each in found:
        for law in dict.fromkeys(entry["law"] for entry in each["tunings"]):
            tunings = [entry for entry in each["tunings"] if entry["law"] == law]
            made = [e for e in tunings if e["threshold"] is not None]
            rates = np.array([e["false_alarm_rate"] for e in made] or [0.0])
            kept = int(np.count_nonzero(rates <= FALSE_ALARMS)) if made else 0
            detected = [e["detected"] for e in made if e["detected"] is not None]
            yield (
                f"{each['scenario']}, {law}", len(made), f"{kept} of {len(made)}",
                f"{rates.mean():.3f}", f"{rates.max():.3f}",
                f"{np.mean(detected or [0.0]):.2f}",
            )  # fmt: skip


# -- reports of drift

DRIFT_SEED = 6_300_000
DRAWN, DEPLOYMENTS = 400, 1000
"""The number of deployments sampled for each synthetic rate, and for each shipped
model.
"""
LONG, SHORT = 1000, 200
TRAINING = (None, 4000, 1000, 250)
"""The number of training runs behind the rate; None for a guaranteed rate."""

Draw = Callable[[np.random.Generator], Outcomes]


def rates() -> Iterator[str]:
    """How often drift is reported for a correct rate and for a doubled rate."""
    rows = []
    for rate in (0.1, 0.05):
        for training in TRAINING:
            kept = _reported(rate, rate, training, LONG)
            doubled = _reported(rate, 2 * rate, training, 500)
            soon = sum(each <= SHORT for each in doubled)
            known = "a guarantee" if training is None else f"{training:,} runs"
            rows.append((rate, known, len(kept), soon, len(doubled)))
    head = ("rate", "known from", "kept: in 1,000 runs", "doubled: in 200", "in 500")
    yield from markdown(head, rows)


def _reported(rate: float, share: float, training: int | None, most: int) -> list[int]:
    """Returns the number of runs until each report of drift."""
    found: list[int] = []
    for seed in range(1, DRAWN + 1):
        rng = np.random.default_rng(seed)
        reference = Reference(rate)
        if training is not None:
            counted = int(rng.binomial(training, rate))
            reference = Reference(None, counted, training)
        evidence = Rate(reference)
        for happened in (rng.random(most) < share).tolist():
            evidence.observe(happened)
            if evidence.exceeded:
                found.append(evidence.runs)
                break
    return found


def drift(
    scenarios: Sequence[str] = (),
    *,
    out: Path = Path("out/drift"),
    runs: int = 600,
    seed: int = DRIFT_SEED,
) -> Iterator[str]:
    """How often drift is reported for shipped models."""
    seeds = range(seed, seed + runs)
    head = (
        "model", "rate known from", "runs that violate the law",
        "ordinary: in 1,000 runs", "doubled: in 200", "reckless: in 200",
    )  # fmt: skip
    yield from markdown(head, (_deployed(name, seeds, out) for name in scenarios))


def _deployed(name: str, seeds: range, out: Path) -> tuple[str, ...]:
    """Returns a row of the table, for a shipped model on simulated runs."""
    scenario = load_scenario(name)
    policy = load_policy(Shipped.in_folder(FOLDER, name).policy)
    policy = replace(policy, shadow=True)
    driven = _driven(scenario, policy, seeds, out)
    broken = [run for run in driven if _violating(run)]
    clean = [run for run in driven if not _violating(run)]
    share = len(broken) / len(driven)

    def doubled(rng: np.random.Generator) -> Outcomes:
        return _one_of(broken if rng.random() < 2 * share else clean, rng)

    kept = _drifted(policy, lambda rng: _one_of(driven, rng), LONG)
    twice = _drifted(policy, doubled, SHORT)
    row = (name, f"{_known_from(policy):,} runs", f"{share:.2f}", str(kept), str(twice))
    pilot = scenario.pilot
    if pilot.name != "sumo-driver":
        return *row, "not measured"
    settings = {**pilot.settings, "profile": "reckless"}
    other = scenario.driven_by(NamedPlugin(name=pilot.name, settings=settings))
    reckless = _driven(other, policy, seeds[: len(seeds) // 4], out)
    found = _drifted(policy, lambda rng: _one_of(reckless, rng), SHORT)
    rate = sum(map(_violating, reckless)) / len(reckless)
    return *row, f"{found} ({rate:.2f} violate it)"


def _known_from(policy: Policy) -> int:
    """Returns the number of runs behind the rate of violations."""
    return max(
        each.by.reference.runs
        for each in Drift(policy, list(policy.rules)).examined
        if each.what == "violations" and isinstance(each.by, Rate)
    )


def _driven(
    scenario: Scenario, policy: Policy, seeds: range, out: Path
) -> list[Outcomes]:
    """Returns the outcomes of runs with the shipped guard in shadow mode."""
    planned = plan(scenario, Shipped.in_folder(FOLDER, scenario.name).model, policy)
    todo = jobs(planned, scenario, seeds, out / scenario.name)
    return [each.outcomes for each in by_seed(list(campaign(todo, pool(1))))]


def _drifted(policy: Policy, draw: Draw, most: int) -> int:
    """Returns the number of deployments for which drift is reported."""
    found = 0
    for seed in range(1, DEPLOYMENTS + 1):
        rng = np.random.default_rng(seed)
        test = Drift(policy, list(policy.rules))
        while test.runs < most and test.found_at is None:
            test.observe(draw(rng))
        found += test.found_at is not None
    return found


def _one_of(runs: Sequence[Outcomes], rng: np.random.Generator) -> Outcomes:
    return runs[int(rng.integers(len(runs)))]


def _violating(run: Outcomes) -> bool:
    return any(each.violating for each in run.values())


if __name__ == "__main__":
    command_line(__doc__, estimates, rates, drift)
