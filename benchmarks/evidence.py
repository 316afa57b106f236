"""Figures of docs/evidence.md: thresholds on new runs, and widths of intervals.

For each scenario, runs are simulated and split as in `forewarn train`, with the shipped
abstraction; further runs are held out. The benchmark prints

- how many of 100 tunings, on 150 runs each sampled from held-out runs of s1 and s3,
  keep the guaranteed false-alarm rate on all other held-out runs;
- the width of the likely interval, compared with the confidence bounds.

    python benchmarks/evidence.py --out out/evidence [SCENARIO ...]

Scenarios already in --out are not measured again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from driving import drive
from numpy.typing import NDArray
from run import arguments, markdown, show, stored

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.trace import Kept
from forewarn.monitors.chains.learning import Tally, learn
from forewarn.monitors.chains.model import Model, load_model
from forewarn.monitors.evaluation.foretold import Foretold
from forewarn.monitors.guarding.chain import LawWatch
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import load_watch
from forewarn.monitors.risk.evidence import needed_abstraction
from forewarn.monitors.trust.encoding import encode_trace
from forewarn.monitors.trust.hindsight import Counting, Judge
from forewarn.monitors.trust.resampling import likely_risks
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped
from forewarn.scenarios.training.train import FALSE_ALARMS, dealt
from forewarn.scenarios.training.tune import settle

FIRST_SEED = 7_000_000
SCENARIOS = ("s1", "s2", "s3", "s4", "s5", "s6")
TUNED = ("s1", "s3")
TUNINGS, RUNS = 100, 150


def measure(name: str, episodes: int, fresh: int, seed: int) -> dict[str, Any]:
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
    told: dict[str, list[Foretold]] = {law.name: [] for law in scenario.laws}
    for number, run in enumerate(runs[episodes:]):
        for law, each in judge.look(number, run):
            told[law].append(each)
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
    tally, counting = Tally(), Counting()
    for run in runs:
        tally.add_codes(encode_trace(run, abstraction), abstraction.state_name)
    return learn(
        tally, counting.support, counting.alpha, counting.end,
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
                    "detected": settled.warned[law].detection_rate,
                }
            found.append(entry)
    return found


def lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the tables in Markdown."""
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


def main() -> None:
    options = arguments(
        __doc__, scenarios=SCENARIOS, out=Path, episodes=1000, fresh=1000,
        seed=FIRST_SEED,
    )  # fmt: skip
    found = stored(
        options.out,
        options.scenarios,
        lambda name: measure(name, options.episodes, options.fresh, options.seed),
    )
    show(lines(found))


if __name__ == "__main__":
    main()
