"""`forewarn learn`: learns a model from traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from forewarn.abstractions.errors import naming
from forewarn.cli.command import (
    File,
    Place,
    command,
)
from forewarn.cli.episodes import (
    facts_about,
    with_recordings,
)
from forewarn.cli.groups import (
    Working,
)
from forewarn.cli.printing import (
    left_out,
    progress,
    say_each,
    several,
)
from forewarn.scenarios.training.wish import Wish

if TYPE_CHECKING:
    from forewarn.abstractions.readers.stored import Stored
    from forewarn.monitors.chains.model import Model
    from forewarn.monitors.finding.choice import Choice
    from forewarn.scenarios.running.pools import (
        Pool,
    )
    from forewarn.scenarios.training.learner import GroupOf, Learner


@dataclass(frozen=True, slots=True)
class Learning:
    """The output files and the grouping of runs.

    Args:
        out: Write the model to this file.
        update: Add the traces to this model, with its abstraction (not with
            --abstraction auto).
        group: With --abstraction auto: column of --facts that says which runs belong
            together, such as driver. With three or more groups, an abstraction is never
            tested on runs of a group that was used to find it.
        facts: With --group: CSV file with one row of data about each run. The column
            run, file or seed identifies the run; any other column can be the --group
            (default: runs.csv next to the traces).
    """

    out: File
    update: File | None = None
    group: Annotated[str | None, "driver|road"] = None
    facts: File | None = None

    def group_of(self, traces: Sequence[Path]) -> GroupOf | None:
        """Returns a function from a run to its group; None without --group."""
        from forewarn.scenarios.warrant.runs import grouped

        if self.group is None:
            return None
        facts = facts_about(traces, self.facts)

        def of(name: str, number: int) -> str:
            return grouped(facts.of(name, number), self.group, name, facts.source)

        return of


@command()
def learn(
    files: tuple[Place, ...], /, *, to: Learning, wish: Wish, working: Working
) -> None:
    """Learn a Markov chain from traces: files, or folders that contain only traces.

    For a scenario file with `world: log`, all recordings of the scenario are used.

    The output says whether the risks agree with held-out traces; the figures are in
    training.fairness, both in the model and in the --json output.

    \b
    Examples:
      forewarn learn traces --scenario tiny-road --out model.json
      forewarn learn traces --scenario s3 --abstraction auto --out s3.json
      forewarn learn fleet.yaml --out fleet.json
    """
    from forewarn.abstractions.files import write_json
    from forewarn.abstractions.readers.stored import files_in, stored_runs
    from forewarn.monitors.chains.formats.own import models_as_dict
    from forewarn.monitors.chains.model import load_models
    from forewarn.scenarios.training.learner import Learner

    group_of = to.group_of(files)
    logs, scenario = with_recordings(files, working)
    if scenario and wish.file is None and not wish.law:
        wish = replace(wish, scenario=wish.scenario or str(scenario))
    pending = left_out(logs)
    files = tuple(file for path in logs for file in files_in(path))
    learners: list[tuple[Learner, Choice | None]] = [
        (Learner(wish, each, str(to.update), files[0]), None)
        for each in (load_models(to.update) if to.update else (None,))
    ]
    if wish.auto:
        learners = [*learners[0][0].find(files, progress, group_of)]
    runs = stored_runs(files)
    pool = working.pool() if working.on is not None or working.jobs > 1 else None
    models: list[Model] = []
    results: list[tuple[dict[str, Any], list[str]]] = []
    for number, (learner, choice) in enumerate(learners, start=1):
        beside = Path(f"{_stem(to.out)}.abstraction.yaml")
        if len(learners) > 1:
            beside = beside.with_stem(f"{beside.stem}.{number}")
        model, payload, told = _learned(learner, choice, runs, files, pool, to, beside)
        models.append(model)
        results.append((payload, told))
    first, _ = results[0]
    first["warnings"] = [*pending, *first["warnings"]]
    write_json(to.out, models_as_dict(models))
    several_of = [f"{to.out}: {len(models)} models, for one guard"]
    last = several_of if len(models) > 1 else []
    say_each(results, also={"out": str(to.out)}, last=last)


def _learned(
    learner: Learner,
    choice: Choice | None,
    runs: Sequence[Stored],
    files: Sequence[Path],
    pool: Pool | None,
    to: Learning,
    beside: Path,
) -> tuple[Model, dict[str, Any], list[str]]:
    """Learns one model; returns it with its summary as JSON and as text."""
    from forewarn.abstractions.files import atomic_text

    for _ in progress(learner.add(runs, pool), "runs learned", len(runs)):
        pass
    with naming(files[0] if len(files) == 1 else f"{files[0]} and others"):
        model = learner.model()
    with naming("--law"):
        monitors = learner.monitors(model)
    fairness = learner.fairness(model, monitors)
    training = {**model.training, "fairness": fairness.as_dict()}
    if choice is not None:
        training["abstraction"] = choice.as_dict()
        with atomic_text(beside) as file:
            file.write(choice.text(f"Found in {len(runs)} runs by forewarn learn."))
    model = replace(model, training=training)
    plain = [*model.chain.warnings(), *learner.warnings()]
    if choice is not None:
        plain += choice.warnings()
    verdict = fairness.verdict()
    payload = {
        "laws": list(model.laws),
        "states": model.chain.n,
        "transitions": model.chain.transitions,
        "unvisited": [model.chain.states[i] for i in model.unvisited],
        "training": dict(model.training),
        "verdict": verdict,
        "warnings": [*plain, *fairness.warnings()],
    }
    told = str if learner.abstraction is None else learner.told
    lines = [*_lines(model, to.out, plain, told), verdict]
    if not fairness.fair:
        lines.append(_NEXT)
    if choice is not None:
        payload["abstraction"] = {**choice.as_dict(), "out": str(beside)}
        lines = [*choice.sentences(), f"{beside}: the abstraction used", *lines]
    return model, payload, lines


_NEXT = (
    "Next: measure its warnings with `forewarn measure`; they may still be useful. "
    "More traces or --abstraction auto may give a better model."
)


def _stem(model: Path) -> str:
    """Returns the path of a model without its suffixes."""
    name = str(model)
    for ending in (".gz", ".json", ".model"):
        name = name.removesuffix(ending)
    return name


def _lines(
    model: Model,
    out: Path,
    warnings: Sequence[str],
    told: Callable[[str], str],
) -> Iterator[str]:
    facts, chain = model.training, model.chain
    yield (
        f"{out}: {chain.n} states and {chain.transitions} transitions, from "
        f"{several(facts['traces'], 'trace')} with {facts['frames']} frames"
    )
    if model.unvisited:
        names = "; ".join(told(chain.states[i]) for i in model.unvisited[:5])
        more = "; …" if len(model.unvisited) > 5 else ""
        yield (
            "no trace leaves these states, so all their successors are assumed "
            f"equally likely: {names}{more}"
        )
    for warning in warnings:
        yield f"warning: {warning}"
