"""`forewarn guard-program check`: what a program says of recorded actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import emit, json_option, progress

if TYPE_CHECKING:
    from forewarn.monitors.programs.language import Program

shadow_option = click.option(
    "--shadow", is_flag=True, help="Also run a program that nobody has signed."
)


@click.command("check")
@click.argument("logs", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--program",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The guard program.",
)
@shadow_option
@json_option
def check_(logs: Path, program: Path, shadow: bool, as_json: bool) -> None:
    """What a guard program says of the recorded actions LOGS, JSON Lines.

    Each line holds what the program is handed: user, action, frame, request, log,
    needed, place, each if it is there, and an id. Exit status 1 if any does not pass.
    """
    from forewarn.monitors.programs.cases import read_cases

    ready = loaded(program, shadow)
    counts: Counter[str] = Counter()
    found: list[dict[str, Any]] = []
    for case in progress(read_cases(logs, "rules"), "checking actions"):
        outcome = ready.run(case.inputs)
        counts[outcome.answer] += 1
        if outcome.label:
            found.append({"id": case.name} | outcome.as_dict())
    payload = {
        "actions": sum(counts.values()),
        "decisions": dict(counts),
        "found": found,
    }
    emit(as_json, payload, _lines(payload))
    if found:
        raise SystemExit(1)


def loaded(path: Path, shadow: bool) -> Program:
    """The program of a file, which is enforced only if it is signed."""
    from forewarn.monitors.programs.file import load_program, require_signature
    from forewarn.plugins.programs.judging import compiled

    file = load_program(path)
    if not shadow:
        require_signature(file, str(path))
    return compiled(file, str(path))


def _lines(payload: dict[str, Any]) -> Iterator[str]:
    said = ", ".join(f"{n} {kind}" for kind, n in payload["decisions"].items())
    yield f"{payload['actions']} actions: {said or 'none'}"
    for each in payload["found"]:
        yield f"{each['id']}: {each['decision']}: {each['reason']}"
        for verdict in each.get("verdicts", ()):
            yield from (f"  {fact}" for fact in verdict["because"])
