"""Runs guard programs in a guard, with their toolbox and predicates, on every frame.

A package registers functions for programs in its metadata, for instance

    [project.entry-points."forewarn.toolbox"]
    clinic = "my_package.guarding:FUNCTIONS"

where the value refers to a sequence of functions that have docstrings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import (
    InvalidInput,
    MissingDependency,
    naming,
    suggest,
)
from forewarn.abstractions.expression.tree import signals_of
from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Judge, Judgement
from forewarn.monitors.guarding.decision import Kind as Intervention
from forewarn.monitors.programs.asking import activities
from forewarn.monitors.programs.columns import columns_of, logged
from forewarn.monitors.programs.columns_found import UnreadLog
from forewarn.monitors.programs.file import (
    FORMAT,
    ProgramFile,
    load_program,
    program_of,
    require_signature,
)
from forewarn.monitors.programs.functions import (
    ACTIONS,
    STANDARD,
    Toolbox,
    function,
)
from forewarn.monitors.programs.grammar import NAME
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.running import Answer
from forewarn.monitors.programs.tools import check_facts, check_program
from forewarn.monitors.programs.values import Value
from forewarn.monitors.rules.condition import Condition, parse_condition
from forewarn.monitors.rules.judging import RuleJudge, outcome
from forewarn.monitors.rules.libraries import library, offered
from forewarn.monitors.rules.predicates import (
    Domain,
    Event,
    Library,
    Predicate,
    Situation,
)
from forewarn.plugins.programs.apart import uploaded
from forewarn.plugins.programs.rules import rule_judge

GROUP = "forewarn.toolbox"

ARGUMENT = "arg_"
"""The prefix of signals for a call's arguments."""


def toolbox(uploads: Mapping[str, str] = {}) -> Toolbox:
    """Returns all functions that a program may call on this machine.

    Args:
        uploads: Uploaded Python sources by file name, which run in a separate process.
    """
    apart = uploaded(uploads) if uploads else ()
    ours = map(function, chain.from_iterable(offered(GROUP).values()))
    return Toolbox([*STANDARD, *ACTIONS, *ours, *apart])


def compiled(file: ProgramFile, source: str) -> Program:
    """Compiles the program in a file."""
    with naming(source, "program"):
        program = Program(file.program, toolbox(file.functions))
        Holds(program.predicates)
        return program


@cache
def domains_of() -> Mapping[str, Domain]:
    """Returns the domain of each shipped predicate; if there are several, the first."""
    found: dict[str, Domain] = {}
    for domain in get_args(Domain):
        for name in library(domain).names:
            found.setdefault(name, domain)
    return found


def described() -> Iterator[str]:
    """Yields one line per predicate, for authors of programs."""
    for name, domain in domains_of().items():
        yield f'holds["{name}"]: {library(domain).predicates[name].doc}'


_CALLS = Library("code", {})
"""Conditions on calls read the signals `tool` and `arg_NAME`, and those of the
frame.
"""


class Holds(Mapping[str, bool]):
    """The values at the current event of predicates and of conditions on calls.

    Each value is computed when it is read.
    """

    def __init__(self, names: Sequence[str]) -> None:
        known = domains_of()
        conditions: dict[str, Predicate] = {}
        self._arguments: dict[str, None] = {"tool": None}
        for name in names:
            if name in known:
                continue
            if NAME.fullmatch(name):
                raise InvalidInput(
                    f"there is no predicate {name!r:.60}", mend=suggest(name, known)
                )
            with naming("", f"holds[{name!r:.60}]"):
                formula = parse_condition(name)
            made = partial(Condition, formula, _CALLS)
            conditions[name] = Predicate(name, "", written=made)
            for signal in signals_of(formula):
                if signal.startswith(ARGUMENT):
                    self._arguments[signal] = None
        self._calls = replace(_CALLS, predicates=conditions)
        # The domain of each predicate; None for conditions on calls.
        self._domains = {name: known.get(name) for name in names}
        self.reset()

    def reset(self) -> None:
        """Begins a new run."""
        self._situations = {
            domain: Situation(library(domain) if domain else self._calls)
            for domain in dict.fromkeys(self._domains.values())
        }
        self._proposed: Action | None = None

    def enter(self, frame: Frame, proposal: Action | None) -> None:
        """Sets the current frame and the proposed action."""
        past = list(outcome(frame, self._proposed))
        self._proposed = proposal
        moment = Event("tick", values=frame.values, time_s=frame.time_s)
        if proposal is not None:
            name, arguments = proposal.name, proposal.arguments
            moment = replace(moment, moment="before", action=name, arguments=arguments)
        call = replace(moment, values=self._signals(frame, proposal))
        for domain, situation in self._situations.items():
            for event in (*past, moment) if domain else (call,):
                situation.enter(event)

    def _signals(self, frame: Frame, proposal: Action | None) -> dict[str, Any]:
        """Returns the signals of the frame and the call; a missing argument is None."""
        called: dict[str, Any] = {}
        if proposal is not None:
            called = {ARGUMENT + name: v for name, v in proposal.arguments.items()}
            called["tool"] = proposal.name
        return {**frame.values, **self._arguments, **called}

    def __getitem__(self, name: str) -> bool:
        return self._situations[self._domains[name]].so(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._domains)

    def __len__(self) -> int:
        return len(self._domains)


REQUEST = "request"
"""The name of the signal with the agent's task as text."""

HANDED = "handed"
"""The key in a record for the inputs of the program about the episode."""

INTERVENTIONS: Mapping[Answer, Intervention] = {
    "deny": "skip",
    "ask": "ask",
    "reflect": "reflect",
    "slow": "slow",
}


class ProgramJudge(Judge):
    """Runs a guard program as a judge in a guard.

    In addition to each frame and action, the program receives the person for whom the
    agent acts (`user`), the place (`place`), and the task (`request`).
    """

    def __init__(
        self, file: ProgramFile, handed: Mapping[str, Value], source: str = ""
    ) -> None:
        self._file, self._handed = file, dict(handed)
        self._program = compiled(file, source or file.name)
        self.rules = {text: text for text in self._program.reasons}
        self.rules[file.name] = file.name
        self._holds = Holds(self._program.predicates)
        # Load now what would exceed the time limit of the first review.
        activities()
        if "needed" in self._program.reads:
            with suppress(UnreadLog, MissingDependency):
                columns_of(["SELECT 1"], self._program.tables, complete=False)

    def as_dict(self) -> Mapping[str, Any]:
        return {**self._file.model_dump(), HANDED: self._handed}

    def reset(self) -> None:
        self._holds.reset()

    def check_tools(self, tools: Mapping[str, Collection[str]]) -> None:
        check_program(self._file.program, self._file.name, tools)

    def judge(self, frame: Frame, proposal: Action | None) -> Judgement | None:
        action = {"name": "", "arguments": {}}
        if proposal is not None:
            action = {"name": proposal.name, "arguments": proposal.arguments}
        self._holds.enter(frame, proposal)
        found = self._program.run(
            {
                **self._read(frame, proposal),
                **self._handed,
                "frame": frame.values,
                "action": action,
                "holds": self._holds,
            }
        )
        if found.answer == "allow":
            return None
        verdict = found.deciding
        return Judgement(
            INTERVENTIONS[found.answer],
            self._file.name if verdict is None else verdict.reason,
            found.reason,
            () if verdict is None else tuple(map(str, verdict.because)),
            found.cap_kmh,
        )

    def _read(self, frame: Frame, proposal: Action | None) -> Mapping[str, Value]:
        """Returns the inputs that the program uses, such as the agent's request, and
        the columns that the proposed code reads.

        If the columns cannot be determined, `needed` is missing, so the action is
        denied.
        """
        found: dict[str, Value] = {}
        if isinstance(request := frame.values.get(REQUEST), str):
            found[REQUEST] = request
        if not {"needed", "log"} & set(self._program.reads):
            return found
        tables = self._program.tables
        call = proposal or Action("")
        log, unread = logged(call.name, call.arguments, tables)
        found["log"] = "\n".join(log)
        if not unread and "needed" in self._program.reads:
            with suppress(UnreadLog):
                needed = columns_of(log, tables, complete=False) if log else {}
                found["needed"] = needed
        return found


def judge_of(content: Mapping[str, Any]) -> ProgramJudge:
    """Creates the judge that is stored in a record."""
    given = dict(content)
    handed = given.pop(HANDED, {})
    return ProgramJudge(program_of(given, "the guard program"), handed)


@checked
def read_judge(
    path: Path | str,
    predicates: Sequence[Path | str] = (),
    *,
    facts: Mapping[str, Value] | None = None,
    enforced: bool = True,
) -> RuleJudge | ProgramJudge:
    """Reads a judge from a file of rules or of a guard program.

    Args:
        predicates: The files of predicates that the rules use.
        facts: Facts for a guard program, such as `{"user": {"role": "child"}}`.
        enforced: Whether the judge's decisions are carried out; a guard program must
            then be signed.

    Raises:
        InvalidInput: An argument does not apply to this kind of file.
        NotSigned: The program is to be enforced, but its content is not signed.
    """
    path = Path(path)
    content = read_yaml(path)
    kind = content.get("format") if isinstance(content, dict) else None
    if kind != FORMAT and not facts:
        return rule_judge(path, predicates)
    if str(kind).startswith("forewarn.rules/"):
        raise InvalidInput(
            "this file contains rules, not a guard program",
            source=str(path),
            mend="give rules with --rules; in Python, leave out the facts",
        )
    if predicates:
        raise InvalidInput(
            "predicates are for rules, but this file contains a guard program",
            source=str(path),
            mend="pass the program's facts as facts=…",
        )
    file = load_program(path)
    if enforced:
        require_signature(file, str(path))
    judge = ProgramJudge(file, facts or {}, str(path))
    check_facts(file.program, facts or {}, str(path))
    return judge
