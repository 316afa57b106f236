"""`forewarn guard-program compile`: a request to a program."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.support import emit, json_option


@click.command("compile")
@click.argument("request", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--spec",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="What the guarded agent is and does, in words.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The guard program's file.",
)
@json_option
def compile_(request: Path, spec: Path, out: Path, as_json: bool) -> None:
    """Make a guard program of the request REQUEST.

    A request in known forms needs no model: tables of roles, databases and columns,
    and sentences such as "a child may not turn on the stove".

    \b
    Example:
      forewarn guard-program compile request.md --spec agent.md --out guard.yaml
    """
    from forewarn.abstractions.files import read_text
    from forewarn.monitors.programs.file import ProgramFile, write_program
    from forewarn.monitors.programs.requests.compiling import compile_request
    from forewarn.monitors.programs.requests.document import read_request
    from forewarn.plugins.programs.toolbox import compiled

    asked = read_request(read_text(request), str(request))
    text = compile_request(asked, str(request))
    made = ProgramFile(
        asked.title or request.stem, asked.text, read_text(spec), "rules", text, {}
    )
    program = compiled(made, str(request))
    write_program(out, made)
    payload = {
        "program": str(out),
        "made_by": made.made_by,
        "digest": made.digest,
        "reads": list(program.reads),
        "uses": list(program.uses),
        "lines": len(text.splitlines()),
    }
    emit(
        as_json,
        payload,
        [
            f"{out}: {payload['lines']} lines, made by {made.made_by}",
            f"Next: forewarn guard-program review {out}",
        ],
    )
