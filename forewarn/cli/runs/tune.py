"""`forewarn tune`: thresholds and horizon for a given rate of false alarms."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from forewarn.cli.runs.episodes import (
    FILE,
    FOLDER,
    counted,
    jobs_option,
    kind,
    model_option,
    numbers,
    policy_option,
    shown,
)
from forewarn.cli.support import emit, json_option, progress, table

MOST_S = 3600


@click.command()
@click.argument("scenario")
@model_option(required=True)
@click.option(
    "--runs",
    type=FOLDER,
    help="The traces that the model was learned from; by default its training seeds"
    " are run again.",
)
@click.option(
    "--false-alarm-rate",
    "allowed",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="How many clean runs in one may have an alarm, for each law.",
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
@click.option(
    "--folds",
    type=click.IntRange(min=2),
    default=5,
    show_default=True,
    help="How many shares the runs are dealt into.",
)
@policy_option
@jobs_option
@click.option("--out", type=FILE, required=True, help="Where the policy goes.")
@json_option
def tune(
    scenario: str,
    model: Path,
    runs: Path | None,
    allowed: float,
    horizons: tuple[float, ...],
    intervene: str,
    folds: int,
    policy_path: Path | None,
    jobs: int,
    out: Path,
    as_json: bool,
) -> None:
    """Find the thresholds and the horizon that give few enough false alarms.

    It uses training runs only. Each is judged by a model learned from the others, so
    that the rates found hold for runs to come; `forewarn measure` checks them on such.
    The policy keeps all else of --policy.

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

    if 0 in horizons:
        raise click.UsageError("--horizons: a horizon is above zero")
    wanted = load_scenario(scenario)
    base = load_policy(policy_path) if policy_path else Policy()
    on = pool(jobs)
    with ExitStack() as stack:
        if runs is not None:
            paths = recorded_runs(runs)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            paths = tuning.training_runs(wanted, model, on, folder, counted)
        found = tuning.tune(
            wanted, model, paths, allowed, horizons, base, folds, progress
        )
    best = found[0]
    name = f"{wanted.name}, at most {allowed:g} false alarms a clean run"
    policy = tuning.tuned_policy(best, base, kind(intervene), name)
    write_policy(out, policy)
    payload = {
        "scenario": wanted.name,
        "policy": str(out),
        "false_alarm_rate": allowed,
        "folds": folds,
        "seeds": list(best.seeds),
        **best.as_dict(),
        "tried": [each.as_dict() for each in found],
    }
    emit(as_json, payload, _lines(payload, out))


def _lines(payload: dict[str, Any], out: Path) -> Iterator[str]:
    seeds = payload["seeds"]
    yield (
        f"{len(seeds)} training runs, seeds {seeds[0]} to {seeds[-1]}, each judged by a"
        " model learned without it:"
    )
    rows = [
        (
            f"{each['horizon_s']:g} s",
            shown(row["law"]),
            f"{row['threshold']:g}",
            f"{row['detected']} of {row['violating']}",
            _time(row["awt_trigger_s"]["mean"]),
            f"{row['false_alarms']} of {row['clean']}",
        )
        for each in payload["tried"]
        for row in each["laws"]
    ]
    head = ["horizon", "law", "threshold", "detected", "to trigger", "false alarms"]
    yield from table(head, rows)
    for row in payload["laws"]:
        rate = row["false_alarm_rate"]
        if rate is not None and rate > payload["false_alarm_rate"]:
            yield (
                f"{shown(row['law'])}: even a threshold of 1 gives {rate:.2f} false"
                " alarms a clean run"
            )
    yield f"{out}: horizon {payload['horizon_s']:g} s, and the thresholds beside it"


def _time(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s:.1f} s"
