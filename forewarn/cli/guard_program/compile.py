"""`forewarn guard-program compile`: a request to a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from forewarn.cli.guard_program.asking import FILE, Asking, asking_options
from forewarn.cli.support import emit, json_option


@click.command("compile")
@click.argument("request", type=FILE)
@click.option(
    "--spec",
    type=FILE,
    required=True,
    help="What the guarded agent is and does, in words.",
)
@click.option("--out", type=FILE, required=True, help="The guard program's file.")
@click.option(
    "--functions",
    type=FILE,
    multiple=True,
    help="A Python file of functions that the program may call, which run apart from"
    " everything; may be repeated.",
)
@asking_options
@json_option
def compile_(
    request: Path,
    spec: Path,
    out: Path,
    functions: tuple[Path, ...],
    asking: Asking,
    as_json: bool,
) -> None:
    """Make a guard program of the request REQUEST.

    A request in known forms needs no model: tables of roles, databases and columns,
    and sentences such as "a child may not turn on the stove". For any other request
    name a --model, or --replies that were recorded with --how replay: it plans, writes
    the program, and repairs it at most three times.

    \b
    Examples:
      forewarn guard-program compile request.md --spec agent.md --out guard.yaml
      forewarn guard-program compile request.md --spec agent.md --out guard.yaml \\
        --model ollama:llama3.1 --replies kept --how record
    """
    from forewarn.abstractions.files import read_text
    from forewarn.monitors.programs.compiling import compile_request, notes_on
    from forewarn.monitors.programs.file import ProgramFile, write_program
    from forewarn.monitors.programs.request import read_request
    from forewarn.plugins.programs.judging import compiled, toolbox
    from forewarn.plugins.programs.writing import Writer

    asked, about = read_request(read_text(request), str(request)), read_text(spec)
    uploads = {path.name: read_text(path) for path in functions}
    notes: list[str] = []
    cost: dict[str, Any] = {}
    if asking.model or asking.replies is not None:
        chat, made_by = asking.chat()
        writer = Writer(chat, toolbox(uploads), asking.shown(), asking.timeout_s)
        written = writer.write(asked.text, about)
        text, plan = written.program.text, written.plan
        cost = {**writer.usage.as_dict(), "repairs": written.repairs}
    else:
        text, plan, made_by = compile_request(asked, str(request), about), "", "rules"
        notes = notes_on(asked)
    name = asked.title or request.stem
    made = ProgramFile(name, asked.text, about, made_by, text, uploads, plan)
    program = compiled(made, str(request))
    write_program(out, made)
    payload = {
        "program": str(out),
        "made_by": made_by,
        "digest": made.digest,
        "reads": list(program.reads),
        "uses": list(program.uses),
        "lines": len(text.splitlines()),
        "notes": notes,
        **cost,
    }
    lines = [
        f"{out}: {payload['lines']} lines, made by {made_by}",
        *(f"note: {note}" for note in notes),
        f"Next: forewarn guard-program review {out}",
    ]
    emit(as_json, payload, lines)
