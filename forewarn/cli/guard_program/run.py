"""`forewarn guard-program run`: what a program says of one action."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.guard_program.check import loaded, shadow_option
from forewarn.cli.support import emit, json_option


@click.command("run")
@click.argument("program", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("action", type=click.Path(dir_okay=False, path_type=Path))
@shadow_option
@json_option
def run_(program: Path, action: Path, shadow: bool, as_json: bool) -> None:
    """What the guard program PROGRAM says of the action in the JSON file ACTION.

    The file holds what the program is handed: user, action, frame, request, log,
    needed, place, each if it is there. Exit status 1 if the action does not pass.

    \b
    Example:
      {"user": {"role": "child"},
       "action": {"name": "turn_on", "arguments": {"object": "StoveBurner"}}}
    """
    from forewarn.abstractions.files import read_text
    from forewarn.monitors.programs.cases import parse_case

    case = parse_case(read_text(action), str(action))
    outcome = loaded(program, shadow).run(case.inputs)
    lines = outcome.explained() or ["allow"]
    emit(as_json, outcome.as_dict(), lines)
    if outcome.label:
        raise SystemExit(1)
