"""`forewarn measure`: measures the quality of a model's warnings on held-out runs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from forewarn.cli.command import (
    File,
    Folder,
    FolderPlace,
    Many,
    Numbers,
    Seed,
    command,
    given_options,
)
from forewarn.cli.episodes import (
    counted,
    unknown_to,
)
from forewarn.cli.groups import (
    Warned,
    Where,
    Working,
    chosen_policy,
    tell_gaps,
)
from forewarn.cli.printing import (
    left_out,
    note,
    progress,
    say,
)

if TYPE_CHECKING:
    from forewarn.abstractions.readers.stored import Stored
    from forewarn.monitors.guarding.policy import Policy
    from forewarn.scenarios.measuring.measure import Measurement, Wish
    from forewarn.scenarios.running.pools import (
        Pool,
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """The runs on which warnings are evaluated.

    Args:
        episodes: Number of runs, with consecutive seeds.
        seed: Seed of the first run. Runs that were used to learn the model are
            rejected. For logs, the default is all other recordings.
        runs: Evaluate on the traces and run records in this folder instead of new runs.
        allow_training_seeds: Also accept runs that were used to learn the model. The
            results are then too optimistic.
        guarded: Whether to repeat the runs with the guard intervening (not possible for
            logs).
        compliance: For a family of household tasks: probabilities that the robot heeds
            a warning.
    """

    episodes: Many = 100
    seed: Seed = 1_000_000
    runs: FolderPlace | None = None
    allow_training_seeds: bool = False
    guarded: bool = True
    compliance: Annotated[tuple[float, ...], Numbers(1), "SHARE,SHARE,…"] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """Methods and thresholds to compare, and output files.

    Args:
        thresholds: Thresholds to compare (default: those of the policy).
        baseline: Baseline to compare with the guard; may be repeated.
        training: Folder of the model's training traces, for baselines that learn
            (default: repeat the training runs).
        sweep: Also compare all methods at all thresholds, to show the trade-off.
        last_moment: Also repeat the violating runs with the intervention at different
            times, to find the last time at which it prevents the violation (not with
            --runs).
        if_acted: Also repeat runs from the time at which they first reach each risk
            band, once with the car slowed and once with it stopped. Write the policy
            with the resulting numbers of violations to this file; the guard quotes
            these numbers with each intervention (not with --runs).
        paper_table: Also print the table of the ProbGuard paper, and the figures that
            it omits.
        csv: Write all rows of the tables to this CSV file.
        out: Keep the runs in this folder, so that the command does not repeat them
            when it is started again.
    """

    thresholds: Annotated[tuple[float, ...], Numbers(1), "RISK,RISK,…"] = ()
    baseline: tuple[Annotated[str, "NAME"], ...] = ()
    training: FolderPlace | None = None
    sweep: bool = False
    last_moment: bool = False
    if_acted: File | None = None
    paper_table: bool = False
    csv: File | None = None
    out: Folder | None = None


@command()
def measure(
    scenario: str,
    /,
    *,
    warned: Warned,
    judged: Judged,
    where: Where,
    working: Working,
    compared: Compared,
) -> None:
    """Measure the quality of a model's warnings on held-out runs of SCENARIO.

    A violation is detected if the first alarm comes strictly before its trigger, which
    is the time at which the obligation arises (for an invariant, the time of the
    violation). Lead times to the trigger and to the violation are averaged over
    detected violations. The false-alarm rate is the fraction of clean runs with an
    alarm.

    For a family of household tasks, the command counts the runs that are safe and the
    runs that are completed with each kind of guard. A chain is learned for each task,
    so no --model is needed.

    \b
    Examples:
      forewarn measure household --jobs 2
      forewarn measure tiny-road --model model.json --episodes 200 --jobs 2 \\
        --thresholds 0.3,0.5,0.7 --baseline deadline
      forewarn measure s3 --model s3.json --episodes 400 --jobs 2 --sweep \\
        --baseline ttc --baseline rss --baseline logistic --csv s3.csv
    """
    from forewarn.abstractions.files import write_json
    from forewarn.cli.measured import lines, write_csv
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.guarding.policy import write_policy
    from forewarn.scenarios.measuring.branching import branched
    from forewarn.scenarios.measuring.late import refuse_unrepeatable
    from forewarn.scenarios.measuring.measure import Wish
    from forewarn.scenarios.measuring.measure import measure as measured
    from forewarn.scenarios.measuring.paper_table import BASELINES
    from forewarn.scenarios.measuring.seeds import refuse_trained
    from forewarn.scenarios.report.sources import MEASUREMENT
    from forewarn.scenarios.running.campaign import recorded_files, recordings
    from forewarn.scenarios.schema import is_family

    if is_family(scenario):
        _measure_family(scenario, judged, working)
        return
    if judged.compliance:
        raise click.UsageError(
            "--compliance applies only to a family of household tasks"
        )
    wanted, out = where.scenario(scenario), compared.out
    model, path, said = warned.files(wanted)
    if model is None:
        raise click.UsageError(
            f"no model is shipped with {wanted.name}: give one with --model"
        )
    policy = chosen_policy(
        path, warned.horizon, wanted.horizon_s, warned.intervene, laws=wanted.laws,
        model=model,
    )  # fmt: skip
    tell_gaps(policy, path, wanted)
    table_of = BASELINES if compared.paper_table else ()
    # A guard cannot act on recordings; --guarded overrides this.
    acts = judged.guarded and not policy.shadow
    acts = acts and ("guarded" in given_options() or recordings(wanted) is None)
    wish = Wish(
        wanted,
        model,
        replace(policy, shadow=False),
        unknown_to(model, wanted, judged.seed, judged.episodes),
        compared.thresholds,
        tuple(dict.fromkeys([*compared.baseline, *table_of])),
        sweep=compared.sweep,
        paper_table=compared.paper_table,
        guarded=acts,
        last_moment=compared.last_moment,
    )
    if compared.if_acted is not None:
        _keep_other_policy(compared.if_acted, policy)
        refuse_unrepeatable(wanted, wish.seeds[0], "--if-acted")
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pool = working.pool()
        training = _training(wish, compared.training, pool, folder)
        wish = replace(wish, training=training)
        if judged.runs is not None:
            found = _on_file(wish, judged.runs, folder, judged.allow_training_seeds)
        else:
            if not judged.allow_training_seeds:
                names = recorded_files(wanted)
                for each in load_models(model):
                    refuse_trained(each, wanted.name, wish.seeds, _OR_ELSE, names)
            found = measured(wish, pool, folder, counted)
        if compared.if_acted is not None:
            bands = branched(wanted, model, policy, wish.seeds, pool)
            write_policy(compared.if_acted, replace(policy, if_acted=bands))
            found = replace(found, if_acted=bands)
    if compared.csv is not None:
        write_csv(compared.csv, found)
    if out is not None:
        write_json(out / MEASUREMENT, found.as_dict())
    told = [said] if said else []
    if found.guarantee is not None:
        told.append(found.guarantee.sentence())
    payload = {**found.as_dict(), "model": str(model)}
    say(payload, [*told, *lines(found, out)])


_OR_ELSE = (
    ", or add --allow-training-seeds, which is also needed for different recordings "
    "of a scenario with the same name"
)
_OF_FAMILIES = {"scenario", "episodes", "seed", "jobs", "compliance", "as_json"}


def _measure_family(name: str, judged: Judged, working: Working) -> None:
    """Measures a family of household tasks; rejects options that do not apply."""
    from forewarn.cli.measured import family_lines
    from forewarn.scenarios.measuring.embodied_table import (
        measure_family,
    )

    given = given_options()
    for option in sorted(given.keys() - _OF_FAMILIES):
        raise click.UsageError(f"{given[option]} does not apply to a family of tasks")
    runs = judged.episodes if "episodes" in given else None
    found = measure_family(
        name, runs, judged.seed, working.pool(), judged.compliance, progress
    )
    say(found, family_lines(found))


def _training(
    wish: Wish, given: Path | None, on: Pool, folder: Path
) -> Sequence[Stored]:
    """Returns the training runs for baselines that learn; empty if there are none."""
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.monitors.chains.model import load_models
    from forewarn.scenarios.measuring.recorded import recorded_runs, training_runs
    from forewarn.scenarios.running.series import (
        learns,
    )

    learners = [name for name in wish.baselines if learns(name)]
    if not learners:
        return ()
    if given is not None:
        return recorded_runs(given)
    runs = load_models(wish.model)[0].training.get("traces", 0)
    note(
        f"To train {' and '.join(learners)}, the {runs} training runs of the "
        "model are repeated; to avoid this, give their traces with --training "
        "FOLDER."
    )
    again = folder / "training"
    try:
        return training_runs(wish.scenario, wish.model, on, again, counted)
    except InvalidInput as error:
        raise InvalidInput(
            error.problem,
            source=error.source,
            mend="give the training traces with --training",
        ) from error


def _keep_other_policy(path: Path, policy: Policy) -> None:
    """Raises an error if --if-acted would replace a different policy."""
    from forewarn.monitors.guarding.policy import load_policy

    if path.exists() and load_policy(path).digest != policy.digest:
        raise click.UsageError(
            f"--if-acted would replace {path}, which is a different policy: measure "
            f"with --policy {path}, or give the name of a new file"
        )


def _on_file(
    wish: Wish, runs: Path, folder: Path, allow_training_seeds: bool
) -> Measurement:
    from forewarn.monitors.chains.model import load_models
    from forewarn.plugins.loop.guarding import Guarding
    from forewarn.scenarios.measuring.measure import EpisodeRisks, judge_runs
    from forewarn.scenarios.measuring.recorded import (
        Spectator,
        look_at_all,
        recorded_runs,
    )
    from forewarn.scenarios.measuring.seeds import refuse_trained

    models = load_models(wish.model)
    policy = replace(wish.policy, shadow=True)
    laws = wish.scenario.references
    guarding = Guarding(models, policy, str(wish.model), laws=laws)
    spectator = Spectator(guarding, wish.scenario.laws, wish.rivals(folder))
    left_out([runs])
    paths = recorded_runs(runs)
    looked = progress(look_at_all(paths, spectator), "runs", len(paths))
    watched: list[EpisodeRisks] = [
        EpisodeRisks(episode, series) for episode, series in looked
    ]
    if not allow_training_seeds:
        held = [each.episode.seed for each in watched]
        for model in models:
            refuse_trained(model, wish.scenario.name, held, _OR_ELSE)
    return judge_runs(replace(wish, guarded=False), watched)
