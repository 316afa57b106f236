"""`forewarn guard-program`: compiles written requests into guard programs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from forewarn.cli.command import (
    File,
    Folder,
    Positive,
    Seed,
    command,
    one_of,
)
from forewarn.cli.printing import (
    note,
    progress,
    say,
    table,
)

if TYPE_CHECKING:
    from forewarn.monitors.programs.cases import Judge
    from forewarn.monitors.programs.file import ProgramFile
    from forewarn.monitors.programs.language import Program
    from forewarn.monitors.programs.request import RoleTable
    from forewarn.plugins.chat import Chat
    from forewarn.plugins.programs.writing import Shown


@click.group("guard-program")
def guard_program() -> None:
    """Compile written requests into signed programs that guard an agent.

    \b
    A request is compiled once into a program. A person reviews and signs the
    program, which then judges every action without a model:
      forewarn guard-program compile request.md --spec agent.md --out guard.yaml
      forewarn guard-program review guard.yaml
      forewarn guard-program sign guard.yaml --name "Ada"
      forewarn guard-program check actions.jsonl --program guard.yaml

    Each command has --help and --json.
    """


@dataclass(frozen=True, slots=True)
class Asking:
    """The language model, and the past cases in its prompt.

    Args:
        model: Language model, such as ollama:llama3.1.
        base_url: URL of the model (default: that of the provider).
        timeout_s: Time limit of each reply in seconds.
        replies: Folder of recorded replies.
        how: With --replies: ask the model (live), also record its replies (record), or
            use recorded replies instead of the model (replay).
        memory: Folder of past cases with correct verdicts.
        count: Number of past cases to show the model; the most similar ones are used.
    """

    model: Annotated[str, "PROVIDER:NAME"] = ""
    base_url: str = ""
    timeout_s: Positive = 120.0
    replies: Folder | None = None
    how: Literal["live", "record", "replay"] = "live"
    memory: Folder | None = None
    count: Annotated[Seed, "-k", "COUNT"] = 3

    def chat(self) -> tuple[Chat, str]:
        """Returns the chat with the model, and a description of the model for the
        output.
        """
        from forewarn.plugins.chat import Partner

        partner = Partner(
            self.model,
            base_url=self.base_url,
            temperature=0.0,
            timeout_s=self.timeout_s,
            replies=self.replies,
            how=self.how,
        )
        recorded = f"replies recorded in {self.replies}"
        who = recorded if self.how == "replay" else f"model {self.model}"
        return partner.chat(0), who

    def shown(self, nothing: bool = False, farthest: bool = False) -> Shown:
        """Returns the past cases to show a model."""
        from forewarn.plugins.programs.memory import Memory
        from forewarn.plugins.programs.writing import Shown

        kept = None if nothing or self.memory is None else Memory(self.memory)
        return Shown(kept, self.count, farthest)


@command(of=guard_program)
def check_(
    logs: File,
    /,
    *,
    program: File,
    shadow: bool = False,
) -> None:
    """Apply a guard program to the recorded actions in LOGS.

    LOGS is a JSON Lines file. Each line contains an id and any of these inputs: user,
    action, frame, request, log, needed, place. The exit status is 1 if an action does
    not pass.

    Args:
        program: File of the guard program.
        shadow: Accept an unsigned program.
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
    say(payload, _checked(payload), found=found)


def loaded(path: Path, shadow: bool) -> Program:
    """Loads a guard program; rejects an unsigned program unless `shadow` is true."""
    from forewarn.monitors.programs.file import load_program, require_signature
    from forewarn.plugins.programs.judging import compiled

    file = load_program(path)
    if not shadow:
        require_signature(file, str(path))
    return compiled(file, str(path))


def _checked(payload: dict[str, Any]) -> Iterator[str]:
    said = ", ".join(f"{n} {kind}" for kind, n in payload["decisions"].items())
    yield f"{payload['actions']} actions: {said or 'none'}"
    for each in payload["found"]:
        yield f"{each['id']}: {each['decision']}: {each['reason']}"
        for verdict in each.get("verdicts", ()):
            yield from (f"  {fact}" for fact in verdict["because"])


@command(of=guard_program)
def compile_(
    request: File,
    /,
    *,
    spec: File,
    out: File,
    functions: tuple[File, ...] = (),
    tools: File | None = None,
    asking: Asking,
) -> None:
    """Compile REQUEST into a guard program.

    Some requests need no model: tables of roles, databases and columns, and sentences
    such as "a child may not turn on the stove". For any other request, give a --model,
    or recorded --replies with --how replay. The model makes a plan, writes the program
    and repairs it up to three times.

    \b
    Examples:
      forewarn guard-program compile request.md --spec agent.md --out guard.yaml
      forewarn guard-program compile request.md --spec agent.md --out guard.yaml \\
        --model ollama:llama3.1 --replies kept --how record

    Args:
        spec: File that describes the guarded agent.
        out: Write the guard program to this file.
        functions: Python file with functions that the program may call; they run in a
            separate process. May be repeated.
        tools: JSON file with the agent's tools, in the format of MCP servers and model
            providers. The request is then compiled for these tools.
    """
    from forewarn.abstractions.files import read_json, read_text
    from forewarn.monitors.programs.compiling import compile_request, notes_on
    from forewarn.monitors.programs.file import ProgramFile, write_program
    from forewarn.monitors.programs.request import read_request
    from forewarn.monitors.programs.tools import tools_of
    from forewarn.plugins.programs.judging import compiled, toolbox
    from forewarn.plugins.programs.writing import Writer

    asked, about = read_request(read_text(request), str(request)), read_text(spec)
    uploads = {path.name: read_text(path) for path in functions}
    notes: list[str] = []
    cost: dict[str, Any] = {}
    known = tools_of(read_json(tools), str(tools)) if tools else ()
    if asking.model or asking.replies is not None:
        chat, made_by = asking.chat()
        writer = Writer(
            chat, toolbox(uploads), asking.shown(), asking.timeout_s, tools=known
        )
        written = writer.write(asked.text, about)
        text, plan = written.program.text, written.plan
        cost = {**writer.usage.as_dict(), "repairs": written.repairs}
    else:
        text, plan = compile_request(asked, str(request), about, known), ""
        made_by, notes = "rules", [] if known else notes_on(asked)
    name = asked.title or request.stem
    made = ProgramFile(
        name=name,
        request=asked.text,
        specification=about,
        made_by=made_by,
        program=text,
        functions=uploads,
        plan=plan,
    )
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
    say(payload, lines)


_FIGURES = {
    "label_accuracy": "labels",
    "precision": "precision",
    "recall": "recall",
    "explanation_accuracy": "explained",
    "final_response_accuracy": "answers",
    "executable_rate": "executable",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """The guard to evaluate.

    Args:
        roles: With --kind access: evaluate the program compiled from this role table
            (JSON).
        program: Evaluate this guard program.
        judge: Evaluate a model that is asked about every case: guard-agent (writes a
            program for the case), rules-in-prompt (the agent itself, with the rules in
            its prompt), model-guard, or content-filter.
        request: With --judge: file that contains the rules as text.
        spec: With --judge: file that describes the agent.
        no_toolbox: Do not offer functions to the model.
        no_memory: Do not show past cases to the model (not with --confirm-by).
        no_repairs: Use the model's first program, without repairs.
        least_similar: Show the least similar past cases to the model.
        confirm_by: With --memory: add each program that agrees with this signed program
            to the past cases.
    """

    roles: File | None = None
    program: File | None = None
    judge: (
        Literal["guard-agent", "rules-in-prompt", "model-guard", "content-filter"]
        | None
    ) = None
    request: File | None = None
    spec: File | None = None
    no_toolbox: bool = False
    no_memory: bool = False
    no_repairs: bool = False
    least_similar: bool = False
    confirm_by: File | None = None

    def made(self, asking: Asking) -> tuple[Judge, Any, dict[str, Any]]:
        """Returns the guard to evaluate, its model usage, and its description."""
        from forewarn.abstractions.files import read_text
        from forewarn.monitors.programs.file import load_program
        from forewarn.monitors.programs.functions import Toolbox
        from forewarn.monitors.programs.language import Program
        from forewarn.monitors.programs.request import access_program
        from forewarn.plugins.programs.baselines import ModelBaseline, baselines
        from forewarn.plugins.programs.judging import compiled, toolbox
        from forewarn.plugins.programs.writing import (
            REPAIRS,
            Confirmed,
            GuardAgent,
            Writer,
        )

        one_of("--roles", "--program", "--judge")
        if roles := self.table():
            return _by(Program(access_program(roles.roles), toolbox())), None, {}
        if self.program is not None:
            made = compiled(load_program(self.program), str(self.program))
            return _by(made), None, {}
        if self.request is None or self.spec is None:
            raise click.UsageError("--judge requires --request and --spec")
        chat, who = asking.chat()
        facts = {"judge": self.judge, "from": who}
        words = read_text(self.request), read_text(self.spec)
        shown = asking.shown(self.no_memory, self.least_similar)
        if (prompt := baselines().get(str(self.judge))) is not None:
            model = ModelBaseline(chat, prompt, *words, asking.timeout_s, shown)
            return model, model.usage, facts
        tools = Toolbox([]) if self.no_toolbox else toolbox()
        repairs = 0 if self.no_repairs else REPAIRS
        writer = Writer(chat, tools, shown, asking.timeout_s, repairs)
        agent = GuardAgent(writer, *words)
        if self.confirm_by is None:
            return agent, agent.usage, facts
        assert shown.memory is not None  # noqa: S101
        rule, name = _by(loaded(self.confirm_by, shadow=False)), self.confirm_by.name
        return Confirmed(agent, shown.memory, rule, name), agent.usage, facts

    def table(self) -> RoleTable | None:
        """Returns the role table, if there is one."""
        from forewarn.abstractions.files import read_json
        from forewarn.monitors.programs.request import role_table

        return (
            role_table(read_json(self.roles), str(self.roles)) if self.roles else None
        )


def _by(program: Program) -> Judge:
    return lambda case: program.run(case.inputs)


@command(of=guard_program)
def evaluate_(
    *,
    cases: File,
    kind: Literal["access", "rules"],
    by: Judged,
    asking: Asking,
) -> None:
    """Measure the accuracy of a guard on labelled cases.

    Accuracy, precision and recall refer to the label (1: denied). explained: fraction
    of the cases labelled 1 that are denied for the right reason. answers: fraction of
    the cases labelled 0 that pass and are answered correctly, if the cases have
    answers. executable: fraction of the cases in which the program ran to completion. A
    program that fails counts as denying nothing. The exit status is 1 if any case is
    judged incorrectly.

    With --judge, a model is asked about every case; the output then names the model or
    the file of recorded replies, and gives the cost.

    \b
    Examples:
      forewarn guard-program evaluate --cases access.jsonl --kind access \\
        --roles roles.json
      forewarn guard-program evaluate --cases web.jsonl --kind rules \\
        --judge guard-agent --request web.md --spec agent.md \\
        --model ollama:llama3.1 --replies kept --how record

    Args:
        cases: Labelled cases: JSON Lines, or EICU-AC or Mind2Web-SC in the published
            format.
        kind: Kind of cases: `access` (access to database columns) or `rules` (rules of
            conduct).
    """
    from forewarn.monitors.programs.cases import read_cases, score

    judge, usage, facts = by.made(asking)
    began_s = time.perf_counter()
    roles = by.table()
    labelled = read_cases(cases, kind, roles.tables if roles else {})
    found = score(progress(labelled, "judging cases"), judge).as_dict()
    if usage is not None:
        facts |= {**usage.as_dict(), "seconds": time.perf_counter() - began_s}
    payload = found | facts
    if found["executable_rate"] == 0:
        mend = " (choose the program that was compiled for these cases)"
        note(
            f"the guard could judge none of the cases: {found['wrong'][0]['why']}"
            f"{mend if by.program else ''}"
        )
    say(payload, _evaluated(payload), found=found["wrong"])


def _evaluated(found: dict[str, Any]) -> Iterator[str]:
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
        why = f": {wrong['why']}" if "why" in wrong else ""
        verdict = f"label {wrong['label']}, verdict {wrong['said']}"
        yield f"wrong: {wrong['id']}: {verdict}{why}"


def _row(found: dict[str, Any]) -> list[str]:
    shares = ["-" if found[k] is None else f"{found[k]:.3f}" for k in _FIGURES]
    return [str(found["cases"]), *shares]


@command(of=guard_program)
def review_(
    program: File,
    /,
) -> None:
    """Show a guard program's request, code and signatures.

    The exit status is 1 if the current content is not signed.
    """
    from forewarn.monitors.programs.file import load_program
    from forewarn.plugins.programs.judging import compiled, toolbox

    file = load_program(program)
    ready = compiled(file, str(program))
    used = [each for each in toolbox(file.functions) if each.name in ready.uses]
    payload = file.model_dump() | {
        "digest": file.digest,
        "signed_by": list(file.signed_by),
        "reads": list(ready.reads),
        "uses": {each.signature: each.about for each in used},
    }
    about = [f"{each.signature}: {each.about}" for each in used]
    lines = _lines(file, about, list(ready.reads))
    say(payload, lines, found=not file.signed_by)


def _lines(file: ProgramFile, about: list[str], reads: list[str]) -> Iterator[str]:
    yield f"{file.name}, made by {file.made_by}"
    yield ""
    yield "Request:"
    yield from (f"  {line}" for line in file.request.strip().split("\n"))
    if file.plan:
        yield ""
        yield "The model's reasoning before it wrote the program:"
        yield from (f"  {line}" for line in file.plan.strip().split("\n"))
    yield ""
    yield f"Program (input: {', '.join(reads) or 'none'}):"
    for number, line in enumerate(file.program.rstrip().split("\n"), 1):
        yield f"{number:4}  {line}"
    if about:
        yield ""
        yield "Functions that the program calls:"
        yield from (f"  {line}" for line in about)
    yield ""
    yield f"digest {file.digest}"
    if file.signed_by:
        yield f"signed by {', '.join(file.signed_by)}"
    elif file.signatures:
        names = ", ".join(each.by for each in file.signatures)
        yield f"changed after {names} signed it"
    else:
        yield "nobody has signed the program"


@command(of=guard_program)
def run_(
    program: File,
    action: File,
    /,
    *,
    shadow: bool = False,
) -> None:
    """Apply a guard program to a single action.

    ACTION is a JSON file with any of these inputs: user, action, frame, request, log,
    needed, place. The exit status is 1 if the action does not pass.

    \b
    Example:
      {"user": {"role": "child"},
       "action": {"name": "turn_on", "arguments": {"object": "StoveBurner"}}}

    Args:
        shadow: Accept an unsigned program.
    """
    from forewarn.abstractions.files import read_text
    from forewarn.monitors.programs.cases import parse_case

    case = parse_case(read_text(action), str(action))
    outcome = loaded(program, shadow).run(case.inputs)
    lines = outcome.explained() or ["allow"]
    say(outcome.as_dict(), lines, found=outcome.label)


@command(of=guard_program)
def sign_(
    program: File,
    /,
    *,
    name: str,
    memory: Folder | None = None,
) -> None:
    """Sign a guard program, so that it can be enforced.

    The signature consists of the name and the digest of the program. A changed program
    must be signed again.

    Args:
        name: Name of the signer.
        memory: Also store the program in this folder, as an example for models that
            write programs.
    """
    from forewarn.monitors.programs.file import load_program, write_program
    from forewarn.plugins.programs.judging import compiled
    from forewarn.plugins.programs.memory import Memory

    file = load_program(program)
    compiled(file, str(program))
    signed = file.signed(name)
    write_program(program, signed)
    if memory is not None:
        Memory(memory).add(
            input=signed.request,
            log="",
            plan=signed.plan,
            program=signed.program,
            confirmed_by=f"person: {name}",
        )
    payload = {
        "program": str(program),
        "digest": signed.digest,
        "signed_by": list(signed.signed_by),
    }
    say(payload, [f"{program}: signed by {', '.join(signed.signed_by)}"])
