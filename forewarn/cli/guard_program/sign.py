"""`forewarn guard-program sign`: put your name to a program as it is."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.support import emit, json_option


@click.command("sign")
@click.argument("program", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--name", required=True, help="Who signs.")
@json_option
def sign_(program: Path, name: str, as_json: bool) -> None:
    """Sign the guard program PROGRAM: it may then be enforced as it is.

    The signature is the name with the digest of the file's content. Whatever is
    changed afterwards needs another one.
    """
    from forewarn.monitors.programs.file import load_program, write_program
    from forewarn.plugins.programs.toolbox import compiled

    file = load_program(program)
    compiled(file, str(program))
    signed = file.signed(name)
    write_program(program, signed)
    payload = {
        "program": str(program),
        "digest": signed.digest,
        "signed_by": list(signed.signed_by),
    }
    emit(as_json, payload, [f"{program}: signed by {', '.join(signed.signed_by)}"])
