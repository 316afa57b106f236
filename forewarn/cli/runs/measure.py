"""`forewarn measure`: what a model's warnings are worth on held-out runs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.options.models import accept_option, model_option
from forewarn.cli.options.policies import (
    chosen_policy,
    horizon_option,
    intervene_option,
    policy_option,
    tell_gaps,
)
from forewarn.cli.runs.episodes import (
    counted,
    jobs_option,
    on_option,
    purpose_option,
    recordings,
    scenario_named,
    unknown_to,
    unless_given,
    world_option,
)
from forewarn.cli.support import (
    FILE,
    FOLDER,
    Count,
    Place,
    emit,
    given_options,
    json_option,
    left_out,
    numbers,
    progress,
)

if TYPE_CHECKING:
    from forewarn.abstractions.readers.stored import Stored
    from forewarn.scenarios.measuring.measure import Measurement, Wish
    from forewarn.scenarios.running.pools import Pool
    from forewarn.scenarios.schema import Scenario

FIRST_SEED = 1_000_000


@click.command()
@click.argument("scenario")
@model_option()
@accept_option
@policy_option
@purpose_option
@click.option(
    "--thresholds",
    callback=numbers(most=1),
    default="",
    metavar="RISK,RISK,…",
    help="What to compare; by default the policy's thresholds.",
)
@horizon_option
@intervene_option
@click.option(
    "--episodes",
    type=Count(min=1),
    default=100,
    show_default=True,
    help="How many; each has the next seed.",
)
@click.option(
    "--seed",
    type=Count(min=0),
    default=FIRST_SEED,
    show_default=True,
    help="The first seed: far from those that collect begins with. Unless it is given,"
    " none that the model knows; of logs all that it does not know.",
)
@world_option
@jobs_option
@on_option
@click.option(
    "--runs",
    type=Place(file_okay=False),
    help="Judge the traces and run records in this folder, instead of new episodes.",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="NAME",
    help="Another method to be judged beside the guard; may be given again.",
)
@click.option(
    "--training",
    type=Place(file_okay=False),
    help="The traces that the model was learned from, for baselines that learn; "
    "without it they are run once more.",
)
@click.option(
    "--sweep",
    is_flag=True,
    help="Also compare all ways to warn over all thresholds: the trade-off.",
)
@click.option(
    "--paper-table",
    is_flag=True,
    help="Also print the paper's table in its own form, and what it hides.",
)
@click.option("--csv", "csv_path", type=FILE, help="Write every row there too.")
@click.option(
    "--guarded/--no-guarded",
    default=True,
    help="Whether to run the same seeds again with the guard acting, which on logs it"
    " cannot.",
)
@click.option(
    "--out", type=FOLDER, help="Keep the episodes here, to go on or to measure again."
)
@click.option(
    "--compliance",
    "compliances",
    callback=numbers(most=1),
    default="",
    metavar="SHARE,SHARE,…",
    help="For a family of household tasks: how often the robot heeds a warning.",
)
@click.option(
    "--allow-training-seeds",
    is_flag=True,
    help="Accept runs that the model was learned from. Its figures flatter it then.",
)
@json_option
def measure(
    scenario: str,
    model: Path | None,
    accept: bool,
    policy_path: Path | None,
    purpose: str,
    thresholds: tuple[float, ...],
    horizon: float | None,
    intervene: str | None,
    episodes: int,
    seed: int,
    world: str | None,
    jobs: int,
    on: str | None,
    runs: Path | None,
    baselines: tuple[str, ...],
    training: Path | None,
    sweep: bool,
    paper_table: bool,
    csv_path: Path | None,
    guarded: bool,
    out: Path | None,
    compliances: tuple[float, ...],
    allow_training_seeds: bool,
    as_json: bool,
) -> None:
    """Judge the warnings of a model on episodes of SCENARIO that it does not know.

    Detected is a violation whose first alarm came strictly before its trigger, the
    moment at which the obligation arose (for an invariant: before the violation). The
    advance warning times are over detected violations, to the violation and to the
    trigger; the false-alarm rate is the share of clean runs with any alarm.

    A family of household tasks is judged by how many runs stay safe and are completed
    under each way to guard: it learns a chain for each task and needs no --model.

    \b
    Examples:
      forewarn measure household --jobs 2
      forewarn measure tiny-road --model model.json --episodes 200 --jobs 2 \\
        --thresholds 0.3,0.5,0.7 --baseline deadline
      forewarn measure s3 --model s3.json --episodes 400 --jobs 2 --sweep \\
        --baseline ttc --baseline rss --baseline logistic --csv s3.csv
    """
    from forewarn.abstractions.files import write_json
    from forewarn.cli.runs.measured import lines, write_csv
    from forewarn.monitors.chains.model import load_models
    from forewarn.scenarios.measuring.measure import BASELINES, Wish, refuse_trained
    from forewarn.scenarios.measuring.measure import measure as measured
    from forewarn.scenarios.report.sources import MEASUREMENT
    from forewarn.scenarios.running import campaign
    from forewarn.scenarios.schema import is_family

    if is_family(scenario):
        _measure_family(scenario, seed, jobs, compliances, as_json)
        return
    if compliances:
        raise click.UsageError("--compliance is for a family of household tasks")
    wanted = scenario_named(scenario, world)
    model, policy_path, said = unless_given(wanted, model, policy_path, accept, purpose)
    if model is None:
        raise click.UsageError(
            f"no model ships with {wanted.name}: give one with --model"
        )
    policy = chosen_policy(
        policy_path, horizon, wanted.horizon_s, intervene, (), laws=wanted.laws
    )
    tell_gaps(policy, policy_path, [law.name for law in wanted.laws])
    if paper_table:
        baselines = tuple(dict.fromkeys([*baselines, *BASELINES]))
    wish = Wish(
        wanted,
        model,
        replace(policy, shadow=False),
        unknown_to(model, wanted, seed, episodes),
        thresholds,
        baselines,
        sweep=sweep,
        paper_table=paper_table,
        guarded=guarded and not policy.shadow and not _is_recorded(wanted),
    )
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        where = campaign.pool(jobs, on)
        wish = replace(wish, training=_training(wish, training, where, folder))
        if runs is not None:
            found = _on_file(wish, runs, folder, allow_training_seeds)
        else:
            if not allow_training_seeds:
                for each in load_models(model):
                    refuse_trained(each, wanted.name, wish.seeds, _OR_ELSE)
            found = measured(wish, where, folder, counted)
    if csv_path is not None:
        write_csv(csv_path, found)
    if out is not None:
        write_json(out / MEASUREMENT, found.as_dict())
    told = [said] if said else []
    payload = {**found.as_dict(), "model": str(model)}
    emit(as_json, payload, [*told, *lines(found, out)])


def _is_recorded(scenario: Scenario) -> bool:
    """Whether it is recorded, so that a guard cannot act; unless it was asked to."""
    given = given_options(click.get_current_context())
    return "guarded" not in given and recordings(scenario) is not None


_OR_ELSE = (
    ", or say --allow-training-seeds: also if they are other recordings, and only the"
    " scenario's name is the same"
)
_OF_FAMILIES = frozenset(
    ("scenario", "episodes", "seed", "jobs", "compliances", "as_json")
)


def _measure_family(
    name: str, seed: int, jobs: int, compliances: Sequence[float], as_json: bool
) -> None:
    """The embodied table; options that say nothing of it are refused."""
    from forewarn.cli.runs.embodied import RUNS, measure_family

    ctx = click.get_current_context()
    given = given_options(ctx)
    for option in sorted(given.keys() - _OF_FAMILIES):
        raise click.UsageError(f"{given[option]} is not for a family of tasks")
    runs = ctx.params["episodes"] if "episodes" in given else RUNS
    measure_family(name, runs, seed, jobs, compliances, as_json)


def _training(
    wish: Wish, given: Path | None, on: Pool, folder: Path
) -> Sequence[Stored]:
    """The training runs for the baselines that learn; none if none of them does."""
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.monitors.chains.model import load_models
    from forewarn.scenarios.measuring.recorded import recorded_runs, training_runs
    from forewarn.scenarios.running.series import learns

    learners = [name for name in wish.baselines if learns(name)]
    if not learners:
        return ()
    if given is not None:
        return recorded_runs(given)
    runs = load_models(wish.model)[0].training.get("traces", 0)
    click.echo(
        f"{' and '.join(learners)} learns from the {runs} runs that the model"
        " was learned from, which are run once more: --training FOLDER with their"
        " traces saves that.",
        err=True,
    )
    again = folder / "training"
    try:
        return training_runs(wish.scenario, wish.model, on, again, counted)
    except InvalidInput as error:
        raise InvalidInput(
            error.problem, source=error.source, mend="give its traces with --training"
        ) from error


def _on_file(
    wish: Wish, runs: Path, folder: Path, allow_training_seeds: bool
) -> Measurement:
    from forewarn.monitors.chains.model import load_models
    from forewarn.plugins.loop.guarding import Guarding
    from forewarn.scenarios.measuring.measure import Watched, judge_runs, refuse_trained
    from forewarn.scenarios.measuring.recorded import (
        Spectator,
        look_at_all,
        recorded_runs,
    )

    models = load_models(wish.model)
    policy = replace(wish.policy, shadow=True)
    laws = wish.scenario.references
    guarding = Guarding(models, policy, str(wish.model), laws=laws)
    spectator = Spectator(guarding, wish.scenario.laws, wish.rivals(folder))
    left_out([runs])
    paths = recorded_runs(runs)
    looked = progress(look_at_all(paths, spectator), "runs", len(paths))
    watched: list[Watched] = [Watched(episode, series) for episode, series in looked]
    if not allow_training_seeds:
        held = [each.episode.seed for each in watched]
        for model in models:
            refuse_trained(model, wish.scenario.name, held, _OR_ELSE)
    return judge_runs(replace(wish, guarded=False), watched)
