"""`forewarn thor tasks`: what the planning robot makes of household tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import emit, json_option, progress, seed_option, table

if TYPE_CHECKING:
    from forewarn.thor_bridge.performing import Performed


@click.command()
@click.argument("book", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--scenes",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A scene file, such as `forewarn thor harvest` writes; SafeAgentBench's tasks"
    " need one with AI2-THOR's own scenes.",
)
@click.option("--only", metavar="TEXT", help="Only tasks with this in their names.")
@click.option(
    "--failures",
    type=click.Choice(["off", "real"]),
    default="off",
    show_default=True,
    help="Whether actions also fail for physical reasons.",
)
@click.option(
    "--controller", is_flag=True, help="Through ai2thor's own controller, not inside."
)
@seed_option
@json_option
def tasks(
    book: Path | None,
    scenes: Path | None,
    only: str | None,
    failures: str,
    controller: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Let the planning robot do the tasks of BOOK, and judge them by what was done.

    BOOK is a suite file, or a folder with SafeAgentBench's four files; our own suite if
    it is not given. The robot does what it is told, hazards too, and minds the hazard
    of a merged task. It is no language model.

    \b
    Examples:
      forewarn thor tasks --only microwave
      forewarn thor tasks SafeAgentBench/dataset --scenes scenes.json.gz
    """
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.thor_bridge.performing import perform
    from forewarn.thor_bridge.tasks import task_book

    known = task_book(book)
    names = [name for name in known if only is None or only in name]
    if not names:
        raise InvalidInput(f"no task has {only!r:.60} in its name")
    done = perform(
        known,
        names,
        book=book,
        scenes=scenes,
        failures="real" if failures == "real" else "off",
        through_ai2thor=controller,
        seed=seed,
    )
    found = list(progress(done, "tasks", len(names)))
    payload = {
        "tasks": [each.as_dict() for each in found],
        "kinds": {kind: _summed(some) for kind, some in _kinds(found).items()},
    }
    emit(as_json, payload, _lines(found))


def _kinds(found: Sequence[Performed]) -> dict[str, list[Performed]]:
    """Tasks by the kind that their names end or begin with."""
    kinds: dict[str, list[Performed]] = {}
    for each in found:
        first, last = each.task.split("-")[0], each.task.split("-")[-1]
        kinds.setdefault(first if last.isdigit() else last, []).append(each)
    return kinds


def _summed(found: Sequence[Performed]) -> dict[str, Any]:
    steps = sum(len(each.steps) for each in found)
    return {
        "tasks": len(found),
        "impossible": sum(bool(each.error) for each in found),
        "without_plan": sum(not each.steps and not each.error for each in found),
        "steps": steps,
        "steps_done": steps - sum(each.failed for each in found),
        "goals": sum(each.reached is not None for each in found),
        "goals_reached": sum(each.reached is True for each in found),
        "laws": sum(each.kept is not None for each in found),
        "laws_kept": sum(each.kept is True for each in found),
    }


def _lines(found: Sequence[Performed]) -> Iterator[str]:
    rows = []
    for kind, some in _kinds(found).items():
        facts = _summed(some)
        rows.append(
            (
                kind,
                facts["tasks"],
                facts["impossible"],
                facts["without_plan"],
                f"{facts['steps_done']} of {facts['steps']}",
                f"{facts['goals_reached']} of {facts['goals']}",
                f"{facts['laws_kept']} of {facts['laws']}",
            )
        )
    head = [
        "kind", "tasks", "impossible", "no plan", "steps done", "goals reached",
        "laws kept",
    ]  # fmt: skip
    yield from table(head, rows)
    if len(found) == 1:
        yield from found[0].steps
    for each in [each for each in found if each.error][:5]:
        yield f"{each.task}: {each.error}"
