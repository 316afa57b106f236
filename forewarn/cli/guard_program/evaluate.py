"""`forewarn guard-program evaluate`: how right a guard is on labelled cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import emit, json_option, progress, table

if TYPE_CHECKING:
    from forewarn.monitors.programs.scoring import Judge

_FIGURES = {
    "label_accuracy": "labels",
    "precision": "precision",
    "recall": "recall",
    "explanation_accuracy": "explained",
    "final_response_accuracy": "answers",
}


@click.command("evaluate")
@click.option(
    "--cases",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Labelled cases, JSON Lines.",
)
@click.option(
    "--kind",
    type=click.Choice(["access", "rules"]),
    required=True,
    help="What the cases are about: columns of databases, or rules of conduct.",
)
@click.option(
    "--roles",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A role table (JSON): judge by the program compiled from it.",
)
@click.option(
    "--program",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Judge by this guard program.",
)
@json_option
def evaluate_(
    cases: Path, kind: Any, roles: Path | None, program: Path | None, as_json: bool
) -> None:
    """How right a guard is on labelled cases.

    Label accuracy, precision and recall are of the label (1: denied); explained is
    the share of cases to deny that are denied for exactly what is right; answers is
    the share of cases to let pass that pass and were then answered right, where the
    cases say so. Exit status 1 if any case is wrong.

    \b
    Example:
      forewarn guard-program evaluate --cases access.jsonl --kind access \\
        --roles roles.json
    """
    from forewarn.monitors.programs.cases import read_cases
    from forewarn.monitors.programs.scoring import score

    if roles is not None and program is None:
        judge = _of_roles(roles)
    elif program is not None and roles is None:
        judge = _of_program(program)
    else:
        raise click.UsageError("give either --roles or --program")
    found = score(progress(read_cases(cases, kind), "judging cases"), judge).as_dict()
    emit(as_json, found, _lines(found))
    if found["wrong"]:
        raise SystemExit(1)


def _of_roles(path: Path) -> Judge:
    from forewarn.abstractions.files import read_json
    from forewarn.monitors.programs.language import Program
    from forewarn.monitors.programs.requests.access import (
        access_of_file,
        access_program,
    )
    from forewarn.plugins.programs.toolbox import toolbox

    text = access_program(access_of_file(read_json(path), str(path)))
    program = Program(text, toolbox())
    return lambda case: program.run(case.inputs)


def _of_program(path: Path) -> Judge:
    from forewarn.monitors.programs.file import load_program
    from forewarn.plugins.programs.toolbox import compiled

    program = compiled(load_program(path), str(path))
    return lambda case: program.run(case.inputs)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    rows = [("all", *_row(found))]
    rows += [(name or "-", *_row(each)) for name, each in found["groups"].items()]
    yield from table(["", "cases", *_FIGURES.values()], rows)
    for wrong in found["wrong"]:
        yield f"wrong: {wrong['id']}: label {wrong['label']}, said {wrong['said']}"


def _row(found: dict[str, Any]) -> list[str]:
    shares = ["-" if found[k] is None else f"{found[k]:.3f}" for k in _FIGURES]
    return [str(found["cases"]), *shares]
