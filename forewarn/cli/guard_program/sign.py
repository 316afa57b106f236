"""`forewarn guard-program sign`: put your name to a program as it is."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.guard_program.asking import FOLDER
from forewarn.cli.support import emit, json_option


@click.command("sign")
@click.argument("program", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--name", required=True, help="Who signs.")
@click.option(
    "--memory",
    type=FOLDER,
    help="Remember it in this folder, as an example for the models that write.",
)
@json_option
def sign_(program: Path, name: str, memory: Path | None, as_json: bool) -> None:
    """Sign the guard program PROGRAM: it may then be enforced as it is.

    The signature is the name with the digest of the file's content. Whatever is
    changed afterwards needs another one.
    """
    from forewarn.monitors.programs.file import load_program, write_program
    from forewarn.plugins.programs.judging import compiled
    from forewarn.plugins.programs.memory import Memory, Remembered

    file = load_program(program)
    compiled(file, str(program))
    signed = file.signed(name)
    write_program(program, signed)
    if memory is not None:
        item = Remembered(
            signed.request, "", signed.plan, signed.program, f"person: {name}"
        )
        Memory(memory).add(item)
    payload = {
        "program": str(program),
        "digest": signed.digest,
        "signed_by": list(signed.signed_by),
    }
    emit(as_json, payload, [f"{program}: signed by {', '.join(signed.signed_by)}"])
