"""`forewarn tune`: finds thresholds and a horizon for alerts or interventions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click

from forewarn.abstractions.errors import InvalidInput
from forewarn.cli.command import (
    Chance,
    Count,
    File,
    Folder,
    FolderPlace,
    Formerly,
    LawNames,
    Many,
    Numbers,
    Seed,
    Share,
    command,
)
from forewarn.cli.episodes import (
    counted,
    unknown_to,
)
from forewarn.cli.groups import (
    Working,
    kind,
)
from forewarn.cli.printing import (
    figure,
    left_out,
    part_of,
    printed,
    progress,
    say,
    shown,
    table,
    tabled,
)

if TYPE_CHECKING:
    from forewarn.monitors.evaluation.guarantee import Guarantee
    from forewarn.monitors.guarding.policy import Policy
    from forewarn.scenarios.running.pools import Pool
    from forewarn.scenarios.schema import Scenario
    from forewarn.scenarios.training.acting import Acted, Trial
    from forewarn.scenarios.training.certifying import Wanted
    from forewarn.scenarios.training.tune import (
        Settled,
    )

MOST_S = 3600
Seconds = Annotated[tuple[float, ...], Numbers(MOST_S), "S,S,…"]


@dataclass(frozen=True, slots=True)
class Alerting:
    """Options for alerts.

    Args:
        confidence: With --preset alert or --at-most: confidence level of the guarantee.
            A lower level needs fewer runs and gives lower thresholds.
        intervene: With --preset alert: intervention that begins at the thresholds.
    """

    confidence: Chance = 0.95
    intervene: Literal["alert", "reflect", "ask", "slow", "stop"] = "alert"


@dataclass(frozen=True, slots=True)
class Acting:
    """Options for slowing and stopping.

    Args:
        cost: With --preset slow or stop: cost of an intervention in a clean run,
            relative to a violation. Slowing a clean run by more than 10 % costs
            the same, and so does each minute at a standstill.
        acting: With --preset slow or stop: number of guarded runs for each threshold;
            up to five times as many if too few of them break a law.
        violations: With --preset slow or stop: add runs until this many of them break a
            law without a guard.
        max_slowed: With --preset slow or stop: maximum fraction of clean runs that are
            slowed by more than 10 %.
        release_after: With --preset slow or stop: seconds of low risk after which an
            intervention ends. Each of these values, and the policy's own value, is
            tried with each threshold.
        at_most: With --preset slow or stop: certify on held-out runs that at most this
            fraction of guarded runs breaks a law, and that --max-slowed is not
            exceeded.
        held_out: With --at-most: number of held-out runs (default: enough to certify
            the policy even if two of them break a law).
        warrant: With --at-most: also write the guard with a certificate to this folder.
            Each run with this guard then tests the guarantee, and enough evidence
            against it revokes the certificate permanently.
    """

    cost: Share = 0.05
    acting: Annotated[int, Count(min=10)] = 40
    violations: Many = 20
    max_slowed: Annotated[Share, "--max-slowed", "--slowed", Formerly("--longer")] = 1
    release_after: Annotated[Seconds, Formerly("--holds")] = (0.5, 3, 10)
    at_most: Chance | None = None
    held_out: Many | None = None
    warrant: Folder | None = None


@dataclass(frozen=True, slots=True)
class Wished:
    """What to tune, and on which runs.

    Args:
        model: Model that computes the risks.
        preset: alert: guarantee a maximum false-alarm rate. slow, stop: prevent as many
            violations as possible, measured by letting the guard intervene in
            calibration runs.
        runs: Folder of traces of held-out runs, to use instead of new runs.
        episodes: Number of new runs, with consecutive seeds.
        seed: Seed of the first run. Runs that were used to learn the model are
            rejected. For logs, the default is all other recordings.
        false_alarm_rate: Maximum false-alarm rate for each law.
        horizons: Prediction horizons to try, in seconds.
        policy: Policy that provides all other settings.
        law: Law to tune for instead of the scenario's laws: a name or a formula; may be
            repeated.
        out: Write the policy to this file.
    """

    model: File
    out: File
    preset: Annotated[Literal["alert", "slow", "stop"], Formerly("--for")] = "alert"
    runs: FolderPlace | None = None
    episodes: Annotated[int, Count(min=10)] = 300
    seed: Seed = 2_000_000
    false_alarm_rate: Share = 0.1
    horizons: Seconds = (1, 2, 3, 4, 5)
    policy: File | None = None
    law: LawNames = ()


@command()
def tune(
    scenario: str | None = None,
    /,
    *,
    wished: Wished,
    alerting: Alerting,
    stepping: Acting,
    working: Working,
) -> None:
    """Find thresholds that guarantee a false-alarm rate or prevent the most violations.

    The runs must not be those that were used to learn the model. The first half of the
    runs is used to calibrate the risks and to choose the horizon. All runs are used to
    set the thresholds and to compute the guarantee: with --confidence, at most
    --false-alarm-rate of future clean runs have an alarm, even if the chain is wrong.
    An upper bound on the rate of missed violations is also printed. Every further
    horizon may raise the thresholds, so a single one (--horizons S) gives the lowest
    thresholds.

    If no threshold achieves the guarantee for a law, the law gets no threshold, the
    output says why and how many runs would suffice, and the exit status is 1. If no law
    gets a threshold, no policy is written.

    A threshold that is suitable for a warning may be too late for a stop. --preset stop
    (or slow) first chooses the horizon and calibrates the risks. Then runs of the first
    half are repeated with the guard intervening, at each threshold (including those for
    alerts) and with each time in --release-after. If the guard intervenes for several
    laws, the threshold of each law is then varied separately. More runs are added until
    --violations of them break a law. The command chooses the policy that prevents the
    most violations, given --cost, and that respects --max-slowed. With --at-most, the
    chosen policy is then certified on held-out runs. If the certification fails, the
    exit status is 1, and the policy is written without the guarantee.

    With --runs, SCENARIO is optional; without it, the laws of the model are used.

    \b
    Examples:
      forewarn tune tiny-road --model model.json --out policy.yaml
      forewarn tune tiny-road --model model.json --preset stop --out stop.policy.yaml
      forewarn tune tiny-road --model model.json --preset stop --at-most 0.02 \\
        --max-slowed 0.1 --out stop.policy.yaml
      forewarn tune --runs traces --model model.json --out policy.yaml
      forewarn measure tiny-road --model model.json --policy policy.yaml
    """
    from forewarn.monitors.guarding.certificate import deciding
    from forewarn.monitors.guarding.policy import Policy, load_policy, write_policy
    from forewarn.monitors.risk.evidence import (
        laws_of,
        refuse_undecided_by,
    )
    from forewarn.scenarios.measuring.recorded import recorded_runs
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.training import tune as tuning
    from forewarn.scenarios.training.train import collected

    model, purpose = wished.model, wished.preset
    acts = purpose != "alert"
    _check(scenario, wished)
    if wished.law and scenario is None:
        raise click.UsageError(
            "--law requires SCENARIO: without one, the laws of the model are used"
        )
    wanted = None if scenario is None else load_scenario(scenario)
    models = tuning.tunable(model)
    step_s = max(each.period_s or 0.0 for each in models)
    if min(wished.horizons) < step_s:
        raise InvalidInput(
            f"{min(wished.horizons):g} s is shorter than a step of the model",
            source="--horizons",
            mend=f"use horizons of at least {step_s:g} s",
        )
    if wanted is not None and wished.law:
        wanted = wanted.under(wished.law)
    if wanted is not None:
        refuse_undecided_by(models, wanted.laws)
    laws = (
        [law for each in models for law in laws_of(each)]
        if wanted is None
        else list(wanted.laws)
    )
    of = wanted.name if wanted else model.name
    name = f"{of}, false-alarm rate at most {wished.false_alarm_rate:g}"
    if acts:
        name = f"{of}, to {purpose} at {stepping.cost:g} violations if needless"
    base = load_policy(wished.policy) if wished.policy else Policy()
    base = replace(base, name=name, tuned_for=deciding(model, base))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pool = working.pool()
        if wished.runs is not None:
            left_out([wished.runs])
            paths = recorded_runs(wished.runs)
        else:
            assert wanted is not None  # noqa: S101
            seeds = unknown_to(model, wanted, wished.seed, wished.episodes)
            paths = collected(wanted, seeds, pool, folder, counted)
        found = tuning.tune(
            laws, model, paths, wished.false_alarm_rate, wished.horizons, base,
            progress, alerting.confidence,
        )  # fmt: skip
        if acts:
            assert wanted is not None  # noqa: S101
            settings = wished, stepping, alerting.confidence
            _act(wanted, found, base, settings, pool, folder)
            return
    if found.thresholds:
        policy = tuning.tuned_policy(found, base, kind(alerting.intervene))
        write_policy(wished.out, policy)
    payload = {
        "scenario": of,
        "policy": str(wished.out) if found.thresholds else None,
        "false_alarm_rate": wished.false_alarm_rate,
        **found.as_dict(),
        "thresholds": dict(found.thresholds),
    }
    say(payload, _lines(found, wished.out), found=found.without)


def _check(scenario: str | None, wished: Wished) -> None:
    """Rejects options that cannot be combined."""
    if 0 in wished.horizons:
        raise click.UsageError("--horizons: a horizon must be greater than 0")
    acts = wished.preset != "alert"
    if acts and scenario is None:
        raise click.UsageError(f"--preset {wished.preset} requires SCENARIO")
    if scenario is None and wished.runs is None:
        raise click.UsageError("give SCENARIO, or traces with --runs")


def _act(
    scenario: Scenario,
    found: Settled,
    base: Policy,
    settings: tuple[Wished, Acting, float],
    on: Pool,
    folder: Path,
) -> None:
    """Finds the best policy for slowing or stopping, and certifies it if requested."""
    from forewarn.monitors.guarding.policy import write_policy
    from forewarn.scenarios.training.acting import Trial
    from forewarn.scenarios.training.certifying import certify
    from forewarn.scenarios.warrant.folder import refuse_other, write_acting

    wished, stepping, confidence = settings
    if stepping.warrant is not None:
        refuse_other(stepping.warrant)
        if base.revoked == "alert":  # fewer interventions would cause more violations
            base = replace(base, revoked="continue")
    trial = Trial(scenario, wished.model, stepping.cost, on, folder, counted)
    beyond = max(map(max, found.seeds)) + 1
    trial.begin(found.seeds[0][: stepping.acting], beyond, stepping.violations)
    policy, tried, taken = trial.settle(
        found.best, base, kind(wished.preset), stepping.release_after,
        stepping.max_slowed, found.thresholds,
    )  # fmt: skip
    told = [*_acted_lines(trial, tried, taken, wished, stepping.violations)]
    kept = None
    if stepping.at_most is not None:
        known = [each.seed for each in trial.before]
        known += [seed for some in found.seeds for seed in some]
        held = _wanted(stepping, confidence, wished.model, scenario, known)
        kept = certify(scenario, wished.model, policy, held, on, folder, counted)
        policy = replace(policy, kept=kept if kept.certified else None)
        told += _kept_lines(kept)
    write_policy(wished.out, policy)
    if stepping.warrant is not None and policy.kept is not None:
        write_acting(stepping.warrant, wished.model, policy)
        told.append(f"{stepping.warrant}: the guard, with its certificate")
    payload = {
        "scenario": scenario.name,
        "policy": str(wished.out),
        "for": wished.preset,
        "cost": taken.cost,
        "horizon_s": policy.horizon_s,
        "threshold": taken.threshold,
        "thresholds": dict(taken.thresholds),
        "hold_s": taken.hold_s,
        "seeds": [each.seed for each in trial.before],
        "violating": trial.violating,
        "tried": [each.as_dict() for each in tried],
        "kept": None if kept is None else kept.model_dump(mode="json"),
        "certified": None if kept is None else kept.certified,
    }
    say(payload, told, found=kept is not None and not kept.certified)


HELD_OUT_SEED = 7_000_000
"""The first seed of held-out runs, far from all other seeds."""


def _wanted(
    stepping: Acting,
    confidence: float,
    model: Path,
    scenario: Scenario,
    used: list[int],
) -> Wanted:
    """Returns the claim to certify, with runs that were used neither for the model nor
    the policy.
    """
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.evaluation.figures import runs_for
    from forewarn.scenarios.measuring.seeds import trained_seeds
    from forewarn.scenarios.training.certifying import Wanted

    assert stepping.at_most is not None  # noqa: S101
    trained = [trained_seeds(each, scenario.name) for each in load_models(model)]
    first = max(HELD_OUT_SEED, *(seed + 1 for seed in set(used).union(*trained)))
    runs = stepping.held_out or runs_for(2, stepping.at_most, 1 - confidence)
    seeds = range(first, first + runs)
    return Wanted(stepping.at_most, stepping.max_slowed, confidence, seeds)


def _kept_lines(kept: Guarantee) -> Iterator[str]:
    """Yields the certified claim, or the reasons why it was not certified."""
    if kept.certified:
        yield kept.sentence()
    for why in kept.lacking():
        yield f"Not certified: {why}."


_TRIED: dict[str, Callable[[Acted], object]] = {
    "threshold": lambda each: _thresholds(each),
    "hold": lambda each: f"{each.hold_s:g} s",
    "left": lambda each: part_of(each.left, each.violating),
    "caused": lambda each: each.caused,
    "clean runs affected": lambda each: each.clean_stopped,
    "slowed > 10 %": lambda each: part_of(each.prolonged, each.clean),
    "longer": lambda each: figure(each.duration_ratio),
    "standing": lambda each: f"{each.stationary_s:.0f} s",
    "value": lambda each: f"{each.worth:.2f}",
}


def _thresholds(acted: Acted) -> str:
    """Formats the threshold that all laws share, or that of each law."""
    if len(set(acted.thresholds.values())) == 1:
        return f"{acted.threshold:g}"
    return ", ".join(f"{at:g} for {law}" for law, at in acted.thresholds.items())


def _acted_lines(
    trial: Trial, tried: Sequence[Acted], taken: Acted, wished: Wished, wanted: int
) -> Iterator[str]:
    what = wished.preset
    yield (
        f"{len(trial.before)} training runs with the guard intervening ({what}) at "
        f"each threshold; an unnecessary intervention costs {taken.cost:g} violations:"
    )
    yield from tabled(_TRIED, tried)
    if trial.violating < wanted:
        yield (
            f"Only {trial.violating} of these runs break a law without a guard, "
            f"fewer than the {wanted} requested, so the best threshold is "
            "uncertain."
        )
    yield (
        f"{wished.out}: {what} at a risk of {_thresholds(taken)} or more, until "
        f"the risk has stayed low for {taken.hold_s:g} s"
    )


def _lines(found: Settled, out: Path) -> Iterator[str]:
    from forewarn.scenarios.measuring.shown import BRIEFLY, early, statistics

    calibration = found.seeds[0]
    every = sorted({seed for some in found.seeds for seed in some})
    yield (
        f"{len(calibration)} runs, seeds {calibration[0]} to {calibration[-1]}, "
        "calibrate the risks. Of these runs:"
    )
    tried = [
        {**row, "horizon_s": each.horizon_s}
        for each in found.tried
        for row in each.as_dict()["laws"]
    ]
    yield from printed([statistics(("horizon", "law", *BRIEFLY), tried)])
    yield from early(tried)
    yield ""
    horizon = f"horizon {found.best.horizon_s:g} s"
    yield (
        f"Thresholds from {len(every)} runs, seeds {every[0]} to {every[-1]}, at the "
        f"{horizon}:"
    )
    yield from promised(found)
    if found.thresholds:
        yield f"{out}: {horizon}, and these thresholds"
    else:
        yield "No policy was written, because no threshold achieves its guarantee."


def _without(found: Settled) -> Iterator[str]:
    for law, why in found.without.items():
        yield f"{shown(law)} has no threshold: {why}."


def promised(found: Settled) -> Iterator[str]:
    """Yields the thresholds with their guarantees, and the laws without a threshold."""
    if found.thresholds:
        rows = [
            (
                shown(row["law"]),
                f"{row['threshold']:g}",
                part_of(row["false_alarms"], row["clean"]),
                f"at most {row['promise']['false_alarms']:.2f}",
                part_of(row["missed"], row["violating"]),
                "none" if missed is None else f"at most {missed:.2f}",
            )
            for row in found.as_dict()["laws"]
            for missed in (row["promise"]["missed"],)
        ]
        head = ["law", "threshold", "false alarms", "guarantee", "missed", "guarantee"]
        yield from table(head, rows)
        confidence = next(iter(found.promises.values())).confidence
        percent = f"{confidence * 100:.3g}"
        yield f"Each guarantee holds on its own with {percent} % confidence."
    yield from _without(found)
