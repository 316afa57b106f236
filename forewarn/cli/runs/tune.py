"""`forewarn tune`: thresholds and horizon that keep a promise about false alarms."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.options.models import model_option
from forewarn.cli.options.policies import kind, policy_option
from forewarn.cli.runs.acting import act
from forewarn.cli.runs.episodes import (
    counted,
    jobs_option,
    on_option,
    shown,
    unknown_to,
)
from forewarn.cli.support import (
    FILE,
    Count,
    Number,
    Place,
    emit,
    given_options,
    in_seconds,
    json_option,
    left_out,
    numbers,
    progress,
    table,
)

if TYPE_CHECKING:
    from forewarn.scenarios.training.tune import Settled

MOST_S = 3600
_ACTING = frozenset(("cost", "acting", "violations", "longer", "holds"))
_ALERTING = frozenset(("lead_s", "confidence", "intervene"))
FIRST_SEED = 2_000_000


@click.command()
@click.argument("scenario", required=False)
@model_option(required=True)
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["alert", "slow", "stop"]),
    default="alert",
    show_default=True,
    help="alert: keep a promise about false alarms. slow, stop: prevent most, with the"
    " guard acting on the runs that calibrate.",
)
@click.option(
    "--cost",
    type=Number(0, 1),
    default=0.05,
    show_default=True,
    help="With --for slow or stop: what a run costs in which the guard steps in, in"
    " violations.",
)
@click.option(
    "--acting",
    type=Count(min=10),
    default=40,
    show_default=True,
    help="With --for slow or stop: how many runs it acts in, at each threshold; up to"
    " five times as many where too few of them break a law.",
)
@click.option(
    "--violations",
    type=Count(min=1),
    default=20,
    show_default=True,
    help="With --for slow or stop: how many of these runs are to break a law.",
)
@click.option(
    "--longer",
    type=Number(0, 1),
    default=1,
    show_default=True,
    help="With --for slow or stop: how many clean runs in one may take longer by more"
    " than a tenth.",
)
@click.option(
    "--holds",
    callback=numbers(most=MOST_S),
    default="0.5",
    show_default=True,
    metavar="S,S,…",
    help="With --for slow or stop: how long the risk stays low before the guard lets"
    " go, in seconds; tried beside the policy's own.",
)
@click.option(
    "--lead",
    "lead_s",
    type=Number(min=0, min_open=True),
    help="With --for alert: instead of a promise, the highest threshold that warns of"
    " half of the violations so many seconds ahead.",
)
@click.option(
    "--runs",
    type=Place(file_okay=False),
    help="Traces of runs that the model was not learned from, instead of new ones.",
)
@click.option(
    "--episodes",
    type=Count(min=10),
    default=300,
    show_default=True,
    help="How many new runs; each has the next seed.",
)
@click.option(
    "--seed",
    type=Count(min=0),
    default=FIRST_SEED,
    show_default=True,
    help="The first seed: far from those that collect and measure begin with. Unless it"
    " is given, none that the model knows; of logs all that it does not know.",
)
@click.option(
    "--false-alarm-rate",
    "allowed",
    type=Number(0, 1),
    default=0.1,
    show_default=True,
    help="What is promised for each law: at most so many clean runs in one have an"
    " alarm.",
)
@click.option(
    "--confidence",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="With --for alert: how probable it shall be that the promise is kept. With"
    " less, fewer runs will do, and thresholds are lower.",
)
@click.option(
    "--horizons",
    callback=numbers(most=MOST_S),
    default="1,2,3,4,5",
    show_default=True,
    metavar="S,S,…",
    help="The horizons to try, in seconds.",
)
@click.option(
    "--intervene",
    type=click.Choice(["alert", "reflect", "ask", "slow", "stop"]),
    default="alert",
    show_default=True,
    help="With --for alert: what the policy does from the thresholds on.",
)
@policy_option
@jobs_option
@on_option
@click.option("--out", type=FILE, required=True, help="Where the policy goes.")
@json_option
@click.pass_context
def tune(
    ctx: click.Context,
    scenario: str | None,
    model: Path,
    purpose: str,
    cost: float,
    acting: int,
    violations: int,
    longer: float,
    holds: tuple[float, ...],
    lead_s: float | None,
    runs: Path | None,
    episodes: int,
    seed: int,
    allowed: float,
    confidence: float,
    horizons: tuple[float, ...],
    intervene: str,
    policy_path: Path | None,
    jobs: int,
    on: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Find the thresholds and the horizon that keep a promise about false alarms.

    It takes runs that the model was not learned from. By the first half it calibrates
    the risks and finds the horizon; the other half is set aside, and gives the
    thresholds: whatever the chain is worth, at most --false-alarm-rate of the clean
    runs to come have an alarm, with --confidence. Beside it stands how many violations
    are missed at most. The policy keeps all else of --policy.

    Where no threshold keeps the promise, the law gets none, the reason is said, and
    the exit status is 1; where no law has one, no policy is written.

    A threshold that is right for a warning may be too late for a stop. With --for stop
    (or slow) the horizon and the calibration are found alike; then runs of the first
    half, and more until enough --violations are among them, are run again with the
    guard acting, at one threshold after the other, and the one is taken that prevents
    most for the stated --cost while no more clean runs take --longer than are allowed.

    With --runs no SCENARIO is needed: the laws are those of the model.

    \b
    Examples:
      forewarn tune tiny-road --model model.json --out policy.yaml
      forewarn tune tiny-road --model model.json --for stop --out stop.policy.yaml
      forewarn tune --runs traces --model model.json --lead 1 --out policy.yaml
      forewarn measure tiny-road --model model.json --policy policy.yaml
    """
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.guarding.policy import Policy, load_policy, write_policy
    from forewarn.monitors.risk.evidence import laws_of
    from forewarn.scenarios.measuring.recorded import recorded_runs
    from forewarn.scenarios.running.campaign import pool
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.training import tune as tuning
    from forewarn.scenarios.training.acting import Trial
    from forewarn.scenarios.training.train import collected

    if 0 in horizons:
        raise click.UsageError("--horizons: a horizon is above zero")
    acts = purpose != "alert"
    given = given_options(ctx)
    for option in sorted(given.keys() & (_ALERTING if acts else _ACTING)):
        what = "alert" if acts else "slow or stop"
        raise click.UsageError(f"{given[option]} is for --for {what}")
    if acts and scenario is None:
        raise click.UsageError(f"--for {purpose} needs SCENARIO")
    wanted = None if scenario is None else load_scenario(scenario)
    if wanted is None and runs is None:
        raise click.UsageError("give SCENARIO, or traces with --runs")
    if wanted is not None:
        laws = list(wanted.laws)
    else:
        laws = [law for each in load_models(model) for law in laws_of(each)]
    of = wanted.name if wanted else model.name
    base = load_policy(policy_path) if policy_path else Policy()
    name = f"{of}, at most {allowed:g} false alarms a clean run"
    if acts:
        name = f"{of}, to {purpose} at {cost:g} violations an intervention"
    elif lead_s is not None:
        name = f"{of}, {lead_s:g} s ahead"
    base = replace(base, name=name)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if runs is not None:
            left_out([runs])
            paths = recorded_runs(runs)
        else:
            assert wanted is not None  # noqa: S101
            wished = unknown_to(model, wanted, seed, episodes)
            paths = collected(wanted, wished, pool(jobs, on), folder, counted)
        found = tuning.tune(
            laws, model, paths, allowed, horizons, base, progress, confidence
        )
        if acts:
            assert wanted is not None  # noqa: S101
            trial = Trial(wanted, model, cost, pool(jobs, on), folder, counted)
            beyond = max(map(max, found.seeds)) + 1
            trial.begin(found.seeds[0][:acting], beyond, violations)
            act(
                trial, found, base, kind(purpose), holds, longer, violations,
                out, as_json,
            )  # fmt: skip
            return
    if lead_s is not None:
        found = tuning.ahead(found, lead_s, base)
    if found.thresholds:
        write_policy(out, tuning.tuned_policy(found, base, kind(intervene)))
    payload = {
        "scenario": of,
        "policy": str(out) if found.thresholds else None,
        "false_alarm_rate": allowed,
        **found.as_dict(),
        "thresholds": dict(found.thresholds),
    }
    emit(as_json, payload, _lines(found, out))
    if found.without:
        ctx.exit(1)


def _lines(found: Settled, out: Path) -> Iterator[str]:
    calibration, aside = found.seeds
    yield (
        f"{len(calibration)} runs, seeds {calibration[0]} to {calibration[-1]}, say"
        " what the risks have meant. Of these runs:"
    )
    from forewarn.monitors.evaluation.warned import warned_early

    tried = [
        (each.horizon_s, row) for each in found.tried for row in each.as_dict()["laws"]
    ]
    rows = [
        (
            f"{horizon_s:g} s",
            shown(row["law"]),
            "-" if row["threshold"] is None else f"{row['threshold']:g}",
            f"{row['detected']} of {row['violating']}",
            in_seconds(row["awt_trigger_s"]["mean"]),
            f"{row['false_alarms']} of {row['clean']}",
        )
        for horizon_s, row in tried
    ]
    head = ["horizon", "law", "threshold", "detected", "to trigger", "false alarms"]
    yield from table(head, rows)
    for horizon_s, row in tried:
        if words := warned_early(row, horizon_s):
            yield f"{shown(row['law'])} at {horizon_s:g} s: {words}."
    yield ""
    if found.thresholds and not found.promises:
        for law, at in found.thresholds.items():
            yield f"{shown(law)}: {at:g}; nothing is promised of false alarms."
        for law, why in found.without.items():
            yield f"{shown(law)} has no threshold: {why}."
        yield f"{out}: horizon {found.best.horizon_s:g} s, and these thresholds"
        return
    yield (
        f"{len(aside)} runs, seeds {aside[0]} to {aside[-1]}, were set aside for the"
        f" thresholds, at the horizon {found.best.horizon_s:g} s:"
    )
    yield from promised(found)
    if found.thresholds:
        yield (
            f"{out}: horizon {found.best.horizon_s:g} s, and the thresholds beside it"
        )
    else:
        yield "No policy was written: it could not alarm and keep its promise."


def promised(found: Settled) -> Iterator[str]:
    """The thresholds, what each promises, and the laws that have none."""
    facts = found.as_dict()
    if found.thresholds:
        rows = [
            (
                shown(row["law"]),
                f"{row['threshold']:g}",
                f"{row['false_alarms']} of {row['clean']}",
                f"at most {row['promise']['false_alarms']:.2f}",
                f"{row['missed']} of {row['violating']}",
                _missed(row["promise"]["missed"]),
            )
            for row in facts["laws"]
        ]
        head = [
            "law", "threshold", "false alarms", "promised", "missed", "promised",
        ]  # fmt: skip
        yield from table(head, rows)
        confidence = next(iter(found.promises.values())).confidence
        percent = f"{confidence * 100:.3g}"
        yield f"A promise is made with {percent} % confidence, each by itself."
    for law, why in found.without.items():
        yield f"{shown(law)} has no threshold: {why}."


def _missed(share: float | None) -> str:
    return "nothing" if share is None else f"at most {share:.2f}"
