"""`forewarn learn`: traces to a model, by counting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.models.learning import Learner, Wish
from forewarn.cli.runs.episodes import jobs_option, on_option, recorded_by
from forewarn.cli.support import (
    Number,
    Place,
    emit,
    json_option,
    left_out,
    naming,
    progress,
)

if TYPE_CHECKING:
    from forewarn.abstractions.readers.stored import Stored
    from forewarn.monitors.chains.model import Model
    from forewarn.monitors.finding.choice import Choice
    from forewarn.monitors.trust.pac import PacReport
    from forewarn.scenarios.running.pools import Pool

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("files", nargs=-1, required=True, type=Place())
@click.option("--out", type=_FILE, required=True, help="Where the model goes.")
@click.option(
    "--format",
    type=click.Choice(["auto", "states", "trace"]),
    default="auto",
    show_default=True,
    help="states: one sequence of state names a line; trace: frames with signals.",
)
@click.option(
    "--scenario",
    metavar="NAME_OR_FILE",
    help="The scenario that the traces come from: its abstraction and its laws.",
)
@click.option(
    "--abstraction",
    metavar="FILE|auto",
    help="The predicates, as YAML; for traces of frames. auto: find some too, and take"
    " those by which risks come truest in traces left out (needs scikit-learn).",
)
@click.option(
    "--abstraction-out",
    type=_FILE,
    help="Where the abstraction that was found goes; by default beside the model.",
)
@click.option(
    "--horizon",
    type=Number(min=0, min_open=True),
    help="How far ahead, in seconds, the risk is to look that --abstraction auto"
    " compares by; the scenario's, or 3.",
)
@click.option(
    "--law",
    "laws",
    multiple=True,
    metavar="NAME_OR_FORMULA",
    help="A law that the model is for; may be given again. Without --abstraction the "
    "predicates are the laws' own atoms.",
)
@click.option("--vocabulary", help="A shipped vocabulary, or the path of a YAML file.")
@click.option(
    "--period",
    type=Number(min=0, min_open=True),
    help="Seconds between two states, where the predicates come from laws; also "
    "between the rows of a table without times.",
)
@click.option(
    "--alpha",
    metavar="NUMBER",
    help="Pseudo-count of every allowed transition; 0 for the observed support and "
    "0.1 for the others, unless given.",
)
@click.option(
    "--support",
    "--smoothing",
    "support",
    metavar="observed|valid|all|FILE",
    help="Allowed transitions: those seen (default), those the abstraction holds "
    'valid, all pairs of seen states, or a JSON file {"state": ["successor", …]}.',
)
@click.option(
    "--end",
    type=click.Choice(["absorb", "ignore"]),
    help="Whether a trace's end is a step into an absorbing END (default) or nothing.",
)
@click.option("--update", type=_FILE, help="Continue this model with more traces.")
@click.option(
    "--mix-guarded",
    is_flag=True,
    help="Accept traces of guarded runs beside unguarded ones.",
)
@click.option(
    "--candidate",
    "candidates",
    multiple=True,
    metavar="PREDICATE",
    help="A predicate that the abstraction does not use: how much would it tell? May "
    "be given again.",
)
@click.option(
    "--epsilon", type=Number(), help="The error that the guarantee may leave a risk."
)
@click.option("--delta", type=Number(), help="The probability of a larger error.")
@jobs_option
@on_option
@json_option
def learn(
    files: tuple[Path, ...],
    out: Path,
    update: Path | None,
    abstraction: str | None,
    abstraction_out: Path | None,
    epsilon: float | None,
    delta: float | None,
    jobs: int,
    on: str | None,
    as_json: bool,
    **wish: Any,
) -> None:
    """Learn a Markov chain from traces: files, or folders of nothing but traces.

    A scenario file stands for all that its logs recorded (`world: log`).

    It says whether the chain is a fair picture of the traces; the model's
    training.fairness, and --json, have each finding. With --epsilon and --delta it
    also says for each state how many visits it has and how many the guarantee needs.

    \b
    Examples:
      forewarn learn traces --scenario tiny-road --out model.json
      forewarn learn traces --scenario s3 --abstraction auto --out s3.json
      forewarn learn fleet.yaml --out fleet.json
    """
    from forewarn.abstractions.files import write_json
    from forewarn.abstractions.readers.stored import files_in, stored_runs
    from forewarn.abstractions.vocabularies.vocabulary import YAML
    from forewarn.cli.models import finding
    from forewarn.monitors.chains.formats.own import models_as_dict
    from forewarn.monitors.chains.model import load_models
    from forewarn.scenarios.running.campaign import pool

    if (epsilon is None) != (delta is None):
        raise click.UsageError("--epsilon and --delta come together")
    if any(path.suffix in YAML for path in files):
        if len(files) > 1:
            raise click.UsageError("a scenario of logs stands by itself")
        if abstraction in (None, finding.AUTO) and not wish["laws"]:
            wish["scenario"] = wish["scenario"] or str(files[0])
        files = (recorded_by(files[0], jobs, on),)
    pending = left_out(files)
    files = tuple(file for path in files for file in files_in(path))
    auto = abstraction == finding.AUTO
    if abstraction_out is not None and not auto:
        raise click.UsageError("--abstraction-out goes with --abstraction auto")
    if wish["horizon"] is not None and not auto:
        raise click.UsageError("--horizon goes with --abstraction auto")
    if auto and update is not None:
        raise click.UsageError("--update keeps the abstraction that the model has")
    given = Path(abstraction) if abstraction is not None and not auto else None
    asked = Wish(abstraction=given, auto=auto, **wish)
    learners: list[tuple[Learner, Choice | None]] = [
        (Learner(asked, each, str(update), files[0]), None)
        for each in (load_models(update) if update else (None,))
    ]
    if auto:
        learners = [*learners[0][0].find(files)]
    runs = stored_runs(files)
    where = pool(jobs, on) if on is not None or jobs > 1 else None
    guarantee = None if epsilon is None or delta is None else (epsilon, delta)
    models: list[Model] = []
    payloads: list[dict[str, Any]] = []
    lines: list[str] = []
    for number, (learner, choice) in enumerate(learners, start=1):
        beside = abstraction_out or Path(f"{_stem(out)}.abstraction.yaml")
        if len(learners) > 1:
            beside = beside.with_stem(f"{beside.stem}.{number}")
        model, payload, told = _learned(
            learner, choice, runs, files, where, guarantee, out, beside
        )
        models.append(model)
        payloads.append(payload)
        lines += [*([""] if lines else []), *told]
    payloads[0]["warnings"] = [*pending, *payloads[0]["warnings"]]
    write_json(out, models_as_dict(models))
    if len(models) > 1:
        lines.append(f"{out}: {len(models)} models, for one guard")
    payload = payloads[0] if len(models) == 1 else {"models": payloads}
    emit(as_json, payload | {"out": str(out)}, lines)


def _learned(
    learner: Learner,
    choice: Choice | None,
    runs: Sequence[Stored],
    files: Sequence[Path],
    where: Pool | None,
    guarantee: tuple[float, float] | None,
    out: Path,
    beside: Path,
) -> tuple[Model, dict[str, Any], list[str]]:
    """One model, and what there is to say of it, as JSON and for people."""
    from forewarn.cli.models import finding
    from forewarn.monitors.trust.fairness import NAMED
    from forewarn.monitors.trust.pac import pac_reports

    for _ in progress(learner.add(runs, where), "runs learned", len(runs)):
        pass
    with naming(files[0] if len(files) == 1 else f"{files[0]} and others"):
        model = learner.model()
    with naming("--law"):
        monitors = learner.monitors(model)
    fairness = learner.fairness(model, monitors)
    training = {**model.training, "fairness": fairness.as_dict()}
    if choice is not None:
        training["abstraction"] = choice.as_dict()
        finding.write(choice, beside, len(runs))
    reports: list[PacReport] = []
    if guarantee is not None:
        reports = pac_reports(model, *guarantee, learner.abstraction, monitors)
        training["pac"] = [_kept_facts(report) for report in reports]
    model = replace(model, training=training)
    plain = [*model.chain.warnings(), *learner.warnings()]
    if choice is not None:
        plain += choice.warnings()
    verdict = fairness.verdict(learner.told)
    payload = {
        "laws": list(model.laws),
        "states": model.chain.n,
        "transitions": model.chain.transitions,
        "unvisited": [model.chain.states[i] for i in model.unvisited],
        "training": dict(model.training),
        "pac": [report.as_dict() for report in reports],
        "verdict": verdict,
        "warnings": [*plain, *fairness.warnings()],
    }
    told = str if learner.abstraction is None else learner.told
    lines = [*_lines(model, out, reports, plain, told), verdict]
    if not fairness.fair:
        lines.append(_NEXT)
    lines += (helpful.sentence() for helpful in fairness.helpful[:NAMED])
    if choice is not None:
        payload["abstraction"] = {**choice.as_dict(), "out": str(beside)}
        lines = [*choice.sentences(), f"{beside}: the abstraction taken", *lines]
    return model, payload, lines


_NEXT = (
    "Next: `forewarn measure` says what its warnings are worth all the same; more"
    " traces, --abstraction auto or a --candidate may make a better one."
)


def _stem(model: Path) -> str:
    """A model's path without what says that it is one."""
    name = str(model)
    for ending in (".gz", ".json", ".model"):
        name = name.removesuffix(ending)
    return name


def _kept_facts(report: PacReport) -> dict[str, Any]:
    return {
        "epsilon": report.epsilon,
        "delta": report.delta,
        "target": report.target,
        "holds": report.holds,
        "error": report.error,
    }


def _lines(
    model: Model,
    out: Path,
    reports: Sequence[PacReport],
    warnings: Sequence[str],
    told: Callable[[str], str],
) -> Iterator[str]:
    facts, chain = model.training, model.chain
    yield (
        f"{out}: {chain.n} states and {chain.transitions} transitions, from "
        f"{facts['traces']} traces with {facts['frames']} frames"
    )
    if model.unvisited:
        names = "; ".join(told(chain.states[i]) for i in model.unvisited[:5])
        more = "; …" if len(model.unvisited) > 5 else ""
        yield f"never left in any trace, so made uniform: {names}{more}"
    for warning in warnings:
        yield f"warning: {warning}"
    for report in reports:
        yield from report.sentences()
