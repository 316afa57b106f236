"""Tests whether certificates hold, and whether they are revoked exactly when they
should be.

    python benchmarks/warrants.py [--deployments 1000] [--runs 10000] [--data FOLDER]

It prints these results, each with its own seed:

- how many of 200 certificates on identically distributed runs are issued, and how many
  are violated on 2,000 held-out runs each; how often a threshold is looser than that of
  plain Clopper-Pearson over a grid, and than that of MAPIE's risk control if installed;
- how many certificates of unchanged deployments are revoked;
- how many certificates of deployments at twice the guaranteed false-alarm rate are
  revoked within 500 clean runs;
- how many certificates about guarded runs are revoked within 1,000 runs, without change
  and if the guarded runs break laws more often than guaranteed;
- with --data or $FOREWARN_DATA: in how many of 100 random splits of real recordings by
  group the guarantee holds for the held-out groups.

Each run is summarised by its maximum risk and whether the law was broken.
"""

from __future__ import annotations

import json
import lzma
import os
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from held_out import archived
from run import command_line

from forewarn.monitors.evaluation.certified import (
    Asked,
    Certified,
    Guarantee,
    alike,
    certified_at,
    certify,
)
from forewarn.monitors.evaluation.evidence import LEVEL
from forewarn.monitors.evaluation.figures import at_most
from forewarn.monitors.evaluation.foretold import climb_of
from forewarn.monitors.evaluation.guarantee import Guarantee as Acting
from forewarn.monitors.evaluation.warned import Broken, Climb
from forewarn.monitors.finding.choice import given
from forewarn.monitors.guarding.certificate import BaseRate, Certificate
from forewarn.monitors.trust.hindsight import Judge
from forewarn.plugins.loop.warrant import KEPT, fresh, named

DATA = Path(os.environ["FOREWARN_DATA"]) if "FOREWARN_DATA" in os.environ else None
ASKED = Asked(0.05, 0.3, 0.95)
LAW = "law"
BASE = 0.25
"""The fraction of synthetic runs that break the law."""

GRID = np.arange(1, 1001) / 1000


def climbs(tops: np.ndarray, broken: np.ndarray) -> list[Climb]:
    """Summarises runs by their maximum risk and whether they broke the law."""
    return [
        Climb(
            number, 10.0,
            ((1.0, float(top)), (8.5, 1.0)) if bad else ((1.0, float(top)),),
            Broken(LAW, 9.0, 8.0) if bad else None,
        )
        for number, (top, bad) in enumerate(zip(tops, broken, strict=True))
    ]  # fmt: skip


def drawn(
    dice: np.random.Generator, runs: int, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws identically distributed runs, with the risks of a chain with this many
    states.
    """
    broken = dice.random(runs) < BASE
    tops = np.where(broken, dice.beta(5, 2, runs), dice.beta(1, 8, runs))
    return np.ceil(tops * steps) / steps, broken


def kept(issued: int = 200) -> Iterator[str]:
    """Issues certificates on identically distributed runs, and tests each on new
    runs.
    """
    for steps in (1000, 20):
        dice = np.random.default_rng([1, steps])
        given = refused = broken = stricter = compared = over = 0
        while given < issued:
            some = climbs(*drawn(dice, 300, steps))
            found = certify(LAW, some, ASKED)
            if found.lacks or found.threshold is None:
                refused += 1
                continue
            given += 1
            tops, bad = drawn(dice, 2000, steps)
            alarms = (tops[~bad] >= found.threshold).mean()
            missed = (tops[bad] < found.threshold).mean()
            broken += alarms > ASKED.false_alarms or missed > ASKED.missed
            clean = [c.top for c in some if c.broken is None]
            stricter += found.threshold > plain_threshold(clean) + 1e-9
            other = mapie_threshold(clean)
            if other is not None:
                compared += 1
                over += found.threshold > other + 1e-9
        told = (
            f", than MAPIE's risk control in {over} of {compared}" if compared else ""
        )
        yield (
            f"risks in {steps} steps: {issued} certificates issued ({refused} refused),"
            f" {broken} violated on 2,000 held-out runs each; the threshold is stricter"
            f" than plain Clopper-Pearson's in {stricter}{told}"
        )


def mapie_threshold(tops: Sequence[float]) -> float | None:
    """Returns the lowest threshold that MAPIE's risk control allows; None if MAPIE is
    not installed.
    """
    try:
        from mapie.risk_control import BinaryClassificationController
    except ImportError:
        return None

    def proba(heights: np.ndarray) -> np.ndarray:
        return np.column_stack([1 - heights[:, 0], heights[:, 0]])

    control = BinaryClassificationController(
        proba, "fpr", ASKED.false_alarms, confidence_level=1 - ASKED.delta,
        list_predict_params=GRID[::-1], fwer_method="fixed_sequence",
    )  # fmt: skip
    values = np.array(tops)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        control.calibrate(values, np.zeros(len(values), int))
    valid = np.asarray(control.valid_predict_params, float)
    return float(valid.min()) if valid.size else float("inf")


def plain_threshold(tops: Sequence[float]) -> float:
    """Returns the lowest threshold of a grid at which Clopper-Pearson's bound keeps the
    rate.

    Thresholds are tested from the highest down without correction for multiple tests,
    so no valid method over the same grid is looser.
    """
    values, lowest = np.array(tops), float("inf")
    for at in GRID[::-1]:
        alarms = int((values >= at).sum())
        if at_most(alarms, len(values), ASKED.delta) > ASKED.false_alarms:
            break
        lowest = float(at)
    return lowest


def certificate(dice: np.random.Generator, rates: dict[str, float]) -> Certificate:
    """Returns a certificate from 300 runs with the same distribution as later runs."""
    violating = int(dice.binomial(300, rates["violating"]))
    alarmed = int(dice.binomial(300, rates["alarmed"]))
    return Certificate(
        format="forewarn.warrant/1", made_by="benchmark", laws={LAW: 0.5},
        over="frames", horizon_s=3.0, confidence=0.95,
        guarantees=[
            Guarantee(law=LAW, rate="false_alarms", most=0.05, runs=225, failures=5,
                       bound=0.05),
            Guarantee(law=LAW, rate="missed", most=0.3, runs=75, failures=10,
                       bound=0.3),
        ],
        assumption="", group="", over_groups=[], runs={}, guard={}, shadow=[],
        base_rates=[
            BaseRate(law=LAW, violating=violating, alarmed=alarmed, runs=300)
        ],
    )  # fmt: skip


def deployed(
    dice: np.random.Generator, runs: int, false_alarms: float, clean_only: bool = False
) -> int | None:
    """Returns the number of clean runs until a certificate is revoked; None if it is
    not.

    The certificate's own runs have exactly the guaranteed rates, which is the worst
    case.
    """
    was = {"violating": BASE, "alarmed": (1 - BASE) * 0.05 + BASE * 0.7}
    rates = fresh(certificate(dice, was))
    bad = dice.random(runs) < (0.0 if clean_only else BASE)
    right = dice.random(runs)
    clean = 0
    for number in range(runs):
        if bad[number]:
            missed = right[number] < 0.3
            outcome = {"missed": missed, "alarmed": not missed, "violating": True}
        else:
            clean += 1
            alarm = right[number] < false_alarms
            outcome = {"false_alarms": alarm, "alarmed": alarm, "violating": False}
        for what, against in outcome.items():
            rate = rates[named(what, LAW)]
            rate.observe(bool(against))
            if rate.exceeded:
                return clean
    return None


def revoked(deployments: int, runs: int) -> Iterator[str]:
    """Tests unchanged deployments, and deployments at twice the guaranteed rate."""
    dice = np.random.default_rng(3)
    several = [deployed(dice, 1200, 0.10) for _ in range(deployments)]
    soon = sum(each is not None and each <= 500 for each in several)
    when = sorted(each for each in several if each is not None)
    yield (
        f"at twice the guaranteed false-alarm rate: {soon} of {deployments} deployments"
        f" revoked within 500 clean runs (median {when[len(when) // 2]})"
    )
    each = (np.random.default_rng([2, number]) for number in range(deployments))
    false = sum(deployed(dice, runs, 0.05) is not None for dice in each)
    yield (
        f"without change, at the guaranteed rates: {false} of {deployments} deployments"
        f" revoked in {runs:,} runs (level {LEVEL:g})"
    )


def acting(deployments: int, runs: int = 1000) -> Iterator[str]:
    """Tests how soon the certificate of a guard that intervenes is revoked."""
    guaranteed = 0.02
    guarantee = Acting(
        violating=guaranteed, slowed=0.1, confidence=0.95, runs=628, broke=2,
        prolonged=0, seeds=(0, 0), scenario="", pilot="", drawn="", model="", policy="",
    )  # fmt: skip
    of = certificate(np.random.default_rng(5), {"violating": BASE, "alarmed": 0.2})
    of = of.model_copy(update={"guarantees": [], "base_rates": [], "kept": guarantee})
    for rate in (guaranteed, 2 * guaranteed, 4 * guaranteed):
        ended = []
        for number in range(deployments):
            bad = np.random.default_rng([5, number]).random(runs) < rate
            tested = fresh(of)[KEPT]
            for count, broke in enumerate(bad, 1):
                tested.observe(bool(broke))
                if tested.exceeded:
                    ended.append(count)
                    break
        median = sorted(ended)[len(ended) // 2] if ended else None
        yield (
            f"guaranteed {guaranteed:.0%} of guarded runs, true rate {rate:.0%}: in "
            f"{runs:,} runs, {len(ended)} of {deployments} revoked (median {median})"
        )


REAL = {
    "hundred_car": ("driver", lambda row: row["driver"], Asked(0.2, None, 0.95)),
    "deepscenario": ("road", lambda row: road_of(row["setup"]), Asked(0.2, None, 0.95)),
}


def road_of(setup: str) -> str:
    return next(part for part in setup.split("/") if part.startswith("road"))[:5]


def real(data: Path, splits: int = 100) -> Iterator[str]:
    """Tests whether guarantees hold for new groups, on random splits of recordings by
    group.
    """
    for name, (group, of, asked) in REAL.items():
        path = data / "real" / f"{name}.tar.xz"
        if path.exists():
            heights, groups = _recorded(path, of)
            yield _split(f"{name} by {group}", heights, groups, asked, splits)
    path = data / "agents" / "openagentsafety.jsonl.xz"
    if path.exists():
        heights, groups = _agents(path)
        asked = Asked(0.05, None, 0.95)
        what = "agents by model, one law without a chain"
        yield _split(
            what, heights, groups, asked, splits, partial(certified_at, at=1.0)
        )


DELETES = r'always not (tool == execute_bash and arg_command matches "rm -[a-z]*r")'


def _agents(path: Path) -> tuple[list[Climb], list[str]]:
    """Replays recorded agent calls through a guard with one law; a withheld call counts
    as risk 1.
    """
    from forewarn.abstractions.readers.calls import CallRun, ToolCall
    from forewarn.plugins.agents.guard import LawReplay

    law, heights, groups = LawReplay(DELETES), list[float](), list[str]()
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            said = json.loads(line)
            calls = tuple(
                ToolCall(each["tool"], each["arguments"], each["result"],
                         each["failed"])
                for each in said["steps"]
            )  # fmt: skip
            at = law.withheld(CallRun(str(number), calls, {}))
            heights.append(float(at is not None))
            groups.append(said["model"])
    return climbs(np.array(heights), np.zeros(len(heights), bool)), groups


def _split(
    what: str,
    heights: Sequence[Climb],
    groups: Sequence[str],
    asked: Asked,
    splits: int,
    test: Callable[[str, Sequence[Climb], Asked], Certified] = certify,
) -> str:
    """Issues certificates from half of the groups, and tests them on the other half."""
    names, holds, said, issued = sorted(set(groups)), 0, 0, 0
    dice = random.Random(4)
    for _ in range(splits):
        dice.shuffle(names)
        ours = set(names[: (len(names) + 1) // 2])
        mine = [c for c, g in zip(heights, groups, strict=True) if g in ours]
        tested = test(LAW, mine, asked)
        if tested.lacks or tested.threshold is None:
            continue
        at = tested.threshold
        issued += 1
        rest = [c for c, g in zip(heights, groups, strict=True) if g not in ours]
        clean = [c for c in rest if c.broken is None]
        rate = sum(c.top >= at for c in clean) / len(clean)
        pairs = []
        for name in ours:
            own = [c for c, g in zip(heights, groups, strict=True)
                   if g == name and c.broken is None]  # fmt: skip
            pairs.append((sum(c.top >= at for c in own), len(own)))
        kept = rate <= asked.false_alarms
        holds += kept
        said += not kept and alike(pairs) < 0.05
    return (
        f"{what}: {len(names)} groups; guaranteed at most {asked.false_alarms:g} false"
        f" alarms with {asked.confidence:.0%} confidence; {issued} of {splits} splits"
        f" certified; the guarantee holds in {holds}; in {said} of the other splits,"
        " the test shows that groups differ"
    )


def _recorded(
    path: Path, of: Callable[[dict[str, str]], str]
) -> tuple[list[Climb], list[str]]:
    """Returns the maximum risk in each run, of a chain over hand-written predicates
    that was not learned from the run.
    """
    told = archived(path, of)
    scenario, groups = told.scenario, list(told.group)
    hand, horizon_s = given(scenario.abstraction).abstraction, scenario.horizon_s
    found: list[Climb] = []
    for fold in range(2):  # each half is evaluated with a chain from the other half
        ours = set(sorted(set(groups))[fold::2])
        taught = [r for r, g in zip(told.runs, groups, strict=True) if g not in ours]
        judge = Judge.learn(taught, hand, scenario.laws, [horizon_s])
        for number, (run, own) in enumerate(zip(told.runs, groups, strict=True)):
            if own in ours:
                ((_, seen),) = judge.look(number, run)
                found.append(climb_of(seen, horizon_s, number, False))
    found.sort(key=lambda climb: climb.seed)
    return [replace(climb, seed=n) for n, climb in enumerate(found)], groups


def results(
    *, deployments: int = 1000, runs: int = 10_000, data: Path | None = DATA
) -> Iterator[str]:
    yield from kept()
    if data:
        yield from real(data)
    yield from acting(deployments)
    yield from revoked(deployments, runs)


if __name__ == "__main__":
    command_line(__doc__, results)
