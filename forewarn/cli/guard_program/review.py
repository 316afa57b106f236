"""`forewarn guard-program review`: what a program says, for whoever is to sign it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.support import emit, json_option

if TYPE_CHECKING:
    from forewarn.monitors.programs.file import ProgramFile


@click.command("review")
@click.argument("program", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def review_(program: Path, as_json: bool) -> None:
    """Show the guard program PROGRAM: what was asked, what it does, who signed it.

    Exit status 1 if nobody has signed it as it is.
    """
    from forewarn.monitors.programs.file import load_program
    from forewarn.plugins.programs.judging import compiled, toolbox

    file = load_program(program)
    ready = compiled(file, str(program))
    used = [each for each in toolbox(file.functions) if each.name in ready.uses]
    payload = file.as_dict() | {
        "digest": file.digest,
        "signed_by": list(file.signed_by),
        "reads": list(ready.reads),
        "uses": {each.signature: each.about for each in used},
    }
    about = [f"{each.signature}: {each.about}" for each in used]
    emit(as_json, payload, _lines(file, about, list(ready.reads)))
    if not file.signed_by:
        raise SystemExit(1)


def _lines(file: ProgramFile, about: list[str], reads: list[str]) -> Iterator[str]:
    yield f"{file.name}, made by {file.made_by}"
    yield ""
    yield "What was asked:"
    yield from (f"  {line}" for line in file.request.strip().split("\n"))
    if file.plan:
        yield ""
        yield "What the model thought before it wrote it:"
        yield from (f"  {line}" for line in file.plan.strip().split("\n"))
    yield ""
    yield f"The program, which is handed {', '.join(reads) or 'nothing'}:"
    for number, line in enumerate(file.program.rstrip().split("\n"), 1):
        yield f"{number:4}  {line}"
    if about:
        yield ""
        yield "What it calls:"
        yield from (f"  {line}" for line in about)
    yield ""
    yield f"digest {file.digest}"
    if file.signed_by:
        yield f"signed by {', '.join(file.signed_by)}"
    elif file.signatures:
        names = ", ".join(each.by for each in file.signatures)
        yield f"changed since {names} signed it"
    else:
        yield "nobody has signed it"
