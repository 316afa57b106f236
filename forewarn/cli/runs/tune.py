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
from forewarn.cli.runs.episodes import counted, jobs_option, on_option, seeds, shown
from forewarn.cli.support import (
    FILE,
    FOLDER,
    Count,
    Number,
    emit,
    json_option,
    numbers,
    progress,
    table,
)

if TYPE_CHECKING:
    from forewarn.scenarios.training.tune import Settled

MOST_S = 3600
FIRST_SEED = 2_000_000


@click.command()
@click.argument("scenario")
@model_option(required=True)
@click.option(
    "--runs",
    type=FOLDER,
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
    help="The first seed: far from those that collect and measure begin with.",
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
    help="What the policy does from the thresholds on.",
)
@policy_option
@jobs_option
@on_option
@click.option("--out", type=FILE, required=True, help="Where the policy goes.")
@json_option
@click.pass_context
def tune(
    ctx: click.Context,
    scenario: str,
    model: Path,
    runs: Path | None,
    episodes: int,
    seed: int,
    allowed: float,
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
    runs to come have an alarm, with 95 % confidence. Beside it stands how many
    violations are missed at most. The policy keeps all else of --policy.

    Where no threshold keeps the promise, the law gets none, the reason is said, and
    the exit status is 1; where no law has one, no policy is written.

    \b
    Example:
      forewarn tune tiny-road --model model.json --out policy.yaml
      forewarn measure tiny-road --model model.json --policy policy.yaml
    """
    from forewarn.monitors.guarding.policy import Policy, load_policy, write_policy
    from forewarn.scenarios.measuring.recorded import recorded_runs
    from forewarn.scenarios.running.campaign import pool
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.training import tune as tuning
    from forewarn.scenarios.training.train import collected

    if 0 in horizons:
        raise click.UsageError("--horizons: a horizon is above zero")
    wanted = load_scenario(scenario)
    base = load_policy(policy_path) if policy_path else Policy()
    name = f"{wanted.name}, at most {allowed:g} false alarms a clean run"
    base = replace(base, name=name)
    with ExitStack() as stack:
        if runs is not None:
            paths = recorded_runs(runs)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            wished = seeds(seed, episodes)
            paths = collected(wanted, wished, pool(jobs, on), folder, counted)
        found = tuning.tune(wanted, model, paths, allowed, horizons, base, progress)
    if found.thresholds:
        write_policy(out, tuning.tuned_policy(found, base, kind(intervene)))
    payload = {
        "scenario": wanted.name,
        "policy": str(out) if found.thresholds else None,
        "false_alarm_rate": allowed,
        **found.as_dict(),
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
    rows = [
        (
            f"{each['horizon_s']:g} s",
            shown(row["law"]),
            "-" if row["threshold"] is None else f"{row['threshold']:g}",
            f"{row['detected']} of {row['violating']}",
            _time(row["awt_trigger_s"]["mean"]),
            f"{row['false_alarms']} of {row['clean']}",
        )
        for each in (tuned.as_dict() for tuned in found.tried)
        for row in each["laws"]
    ]
    head = ["horizon", "law", "threshold", "detected", "to trigger", "false alarms"]
    yield from table(head, rows)
    yield ""
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
        yield "A promise is made with 95 % confidence, each by itself."
    for law, why in found.without.items():
        yield f"{shown(law)} has no threshold: {why}."


def _missed(share: float | None) -> str:
    return "nothing" if share is None else f"at most {share:.2f}"


def _time(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s:.1f} s"
