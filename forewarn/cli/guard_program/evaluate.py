"""`forewarn guard-program evaluate`: how right a guard is on labelled cases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.guard_program.asking import FILE, Asking, asking_options
from forewarn.cli.support import emit, json_option, progress, table

if TYPE_CHECKING:
    from forewarn.monitors.programs.cases import Judge
    from forewarn.plugins.chat import Chat
    from forewarn.plugins.programs.writing import Shown

_FIGURES = {
    "label_accuracy": "labels",
    "precision": "precision",
    "recall": "recall",
    "explanation_accuracy": "explained",
    "final_response_accuracy": "answers",
}
_JUDGES = ("guard-agent", "rules-in-prompt", "model-guard", "content-filter")


@click.command("evaluate")
@click.option("--cases", type=FILE, required=True, help="Labelled cases, JSON Lines.")
@click.option(
    "--kind",
    type=click.Choice(["access", "rules"]),
    required=True,
    help="What the cases are about: columns of databases, or rules of conduct.",
)
@click.option(
    "--roles",
    type=FILE,
    help="A role table (JSON): judge by the program compiled from it.",
)
@click.option("--program", type=FILE, help="Judge by this guard program.")
@click.option(
    "--judge",
    "asked",
    type=click.Choice(_JUDGES),
    help="Judge by asking a model about every case: a program written for it, the"
    " agent with the rules in its prompt, a model that guards, a filter of content.",
)
@click.option("--request", type=FILE, help="With --judge: the rules, in words.")
@click.option("--spec", type=FILE, help="With --judge: the agent, in words.")
@click.option("--no-toolbox", is_flag=True, help="Give a model no functions.")
@click.option("--no-memory", is_flag=True, help="Show a model no past cases.")
@click.option(
    "--least-similar", is_flag=True, help="Show it those that are least alike."
)
@click.option(
    "--confirm-by",
    type=FILE,
    help="Remember in --memory each program that says what this signed one says.",
)
@asking_options
@json_option
def evaluate_(
    cases: Path,
    kind: Any,
    roles: Path | None,
    program: Path | None,
    asked: str | None,
    request: Path | None,
    spec: Path | None,
    no_toolbox: bool,
    no_memory: bool,
    least_similar: bool,
    confirm_by: Path | None,
    asking: Asking,
    as_json: bool,
) -> None:
    """How right a guard is on labelled cases.

    Label accuracy, precision and recall are of the label (1: denied); explained is
    the share of cases to deny that are denied for exactly what is right; answers is
    the share of cases to let pass that pass and were then answered right, where the
    cases say so. Exit status 1 if any case is wrong.

    With --judge a model is asked about every case; the figures then say which model
    it was, or whose recorded replies, and what it took.

    \b
    Examples:
      forewarn guard-program evaluate --cases access.jsonl --kind access \\
        --roles roles.json
      forewarn guard-program evaluate --cases web.jsonl --kind rules \\
        --judge guard-agent --request web.md --spec agent.md \\
        --model ollama:llama3.1 --replies kept --how record
    """
    from forewarn.abstractions.files import read_text
    from forewarn.monitors.programs.cases import read_cases, score

    if sum(each is not None for each in (roles, program, asked)) != 1:
        raise click.UsageError("give one of --roles, --program and --judge")
    usage: Any = None
    facts: dict[str, Any] = {}
    if roles is not None:
        judge = _of_roles(roles)
    elif program is not None:
        judge = _of_program(program)
    else:
        if request is None or spec is None:
            raise click.UsageError("--judge needs --request and --spec")
        chat, who = asking.chat()
        shown = asking.shown(no_memory, least_similar)
        words = read_text(request), read_text(spec)
        judge, usage = _asking(
            str(asked), chat, words, shown, no_toolbox, asking.timeout_s, confirm_by
        )
        facts = {"judge": asked, "from": who}
    began_s = time.perf_counter()
    found = score(progress(read_cases(cases, kind), "judging cases"), judge).as_dict()
    if usage is not None:
        facts |= {**usage.as_dict(), "seconds": time.perf_counter() - began_s}
    payload = found | facts
    emit(as_json, payload, _lines(payload))
    if found["wrong"]:
        raise SystemExit(1)


def _of_roles(path: Path) -> Judge:
    from forewarn.abstractions.files import read_json
    from forewarn.monitors.programs.language import Program
    from forewarn.monitors.programs.request import (
        access_of_file,
        access_program,
    )
    from forewarn.plugins.programs.judging import toolbox

    text = access_program(access_of_file(read_json(path), str(path)))
    program = Program(text, toolbox())
    return lambda case: program.run(case.inputs)


def _of_program(path: Path) -> Judge:
    from forewarn.monitors.programs.file import load_program
    from forewarn.plugins.programs.judging import compiled

    program = compiled(load_program(path), str(path))
    return lambda case: program.run(case.inputs)


def _asking(
    judge: str,
    chat: Chat,
    words: tuple[str, str],
    shown: Shown,
    no_toolbox: bool,
    timeout_s: float,
    confirm_by: Path | None,
) -> tuple[Judge, Any]:
    """Whoever asks a model about each case, and what that takes."""
    from forewarn.monitors.programs.functions import Toolbox
    from forewarn.plugins.programs.baselines import BASELINES, Asked
    from forewarn.plugins.programs.judging import toolbox
    from forewarn.plugins.programs.writing import GuardAgent, Writer

    if judge in BASELINES:
        asking = Asked(chat, BASELINES[judge], *words, timeout_s)
        return asking, asking.usage
    tools = Toolbox([]) if no_toolbox else toolbox()
    agent = GuardAgent(Writer(chat, tools, shown, timeout_s), *words)
    if confirm_by is None:
        return agent, agent.usage
    if shown.memory is None:
        raise click.UsageError("--confirm-by needs --memory")
    from forewarn.plugins.programs.writing import Confirmed

    rule = _signed(confirm_by)
    return Confirmed(agent, shown.memory, rule, confirm_by.name), agent.usage


def _signed(path: Path) -> Judge:
    from forewarn.cli.guard_program.check import loaded

    program = loaded(path, shadow=False)
    return lambda case: program.run(case.inputs)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    if "from" in found:
        yield f"{found['judge']}, {found['from']}"
        yield (
            f"{found['model_calls']} calls, {found['tokens_in']} tokens in,"
            f" {found['tokens_out']} out, {found['seconds']:.1f} s"
        )
    rows = [("all", *_row(found))]
    rows += [(name or "-", *_row(each)) for name, each in found["groups"].items()]
    yield from table(["", "cases", *_FIGURES.values()], rows)
    for wrong in found["wrong"]:
        yield f"wrong: {wrong['id']}: label {wrong['label']}, said {wrong['said']}"


def _row(found: dict[str, Any]) -> list[str]:
    shares = ["-" if found[k] is None else f"{found[k]:.3f}" for k in _FIGURES]
    return [str(found["cases"]), *shares]
