"""Lets a model write guard programs: a plan, a program, and at most three repairs.

For any reply of the model, the result is either a program in the guard language that
uses only the toolbox, or no program. An agent's input and output enter a prompt as one
line of JSON between markers that the JSON cannot contain.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import ForewarnError, InvalidInput
from forewarn.abstractions.files import read_yaml
from forewarn.monitors.programs.cases import Case, Judge, same_details
from forewarn.monitors.programs.expressions import INPUTS
from forewarn.monitors.programs.functions import Toolbox
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.running import Outcome
from forewarn.monitors.programs.tools import Tool, check_program
from forewarn.monitors.programs.values import Value
from forewarn.plugins.chat import Chat, Message, ModelError, Reply, Usage
from forewarn.plugins.programs.judging import Holds, described
from forewarn.plugins.programs.memory import Memory, Remembered

BEGIN, END = "<<<DATA", "DATA>>>"
LONGEST_DATA = 20_000


@cache
def prompts() -> Mapping[str, Any]:
    """Returns the texts of the prompts."""
    content: Mapping[str, Any] = read_yaml(Path(__file__).with_name("prompts.yaml"))
    return content


def prompt(name: str, **values: str) -> str:
    """Returns a prompt with these values filled in."""
    return str(prompts()[name]).format(**values)


def data(content: Mapping[str, Value]) -> str:
    """Encodes data as one line of ASCII that cannot contain the end marker."""
    text = json.dumps(content, ensure_ascii=True, default=str)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e")
    if len(text) > LONGEST_DATA:
        text = f"{text[:LONGEST_DATA]} (cut off)"
    return f"{BEGIN}\n{text}\n{END}"


def planning(
    specification: str,
    request: str,
    case: Mapping[str, Value] | None,
    examples: Iterable[Remembered],
) -> str:
    """Returns the first prompt, which asks for the facts to compare."""
    parts = [f"The agent:\n{specification.strip()}", f"The rules:\n{request.strip()}"]
    parts += map(demonstration, examples)
    parts.append(prompt("general") if case is None else f"The case:\n{data(case)}")
    parts.append(prompt("plan"))
    return "\n\n".join(parts)


def demonstration(each: Remembered) -> str:
    """Formats a past case for a prompt."""
    shown = data({"request": each.input, "log": each.log})
    return (
        f"An example.\n{shown}\nPlan:\n{each.plan.strip()}\n"
        f"Program:\n```python\n{each.program.strip()}\n```"
    )


def coding(toolbox: Toolbox, inputs: Iterable[str], predicates: Iterable[str]) -> str:
    """Returns the second prompt, which asks for the program."""
    functions = "\n".join([*toolbox.described(), *predicates]) or "(none)"
    return prompt("language", inputs=", ".join(inputs), functions=functions)


REPAIRS = 3
LONGEST_REPLY = 50_000
PATIENCE_S = 120.0

_BLOCK = re.compile(r"```(?:python)?[ \t]*\n(?P<text>.*?)```", re.DOTALL)


class NotWritten(ForewarnError):
    """The model did not write a working program."""


@dataclass(frozen=True, slots=True)
class Written:
    """A program that a model wrote after a plan in four steps, with the number of
    repairs, and its verdict if it was written for a case.
    """

    plan: str
    program: Program
    outcome: Outcome | None
    repairs: int


@dataclass(frozen=True, slots=True)
class Shown:
    """Selects the past cases that a model is shown; with `farthest`, the least similar
    ones, to measure the value of similarity.
    """

    memory: Memory | None = None
    count: int = 3
    farthest: bool = False

    def of(self, case: Mapping[str, Value]) -> list[Remembered]:
        """Returns the past cases for the prompt about this case."""
        if self.memory is None:
            return []
        input_, log = (str(case.get(name, "")) for name in ("request", "log"))
        return self.memory.nearest(input_, log, self.count, farthest=self.farthest)


class Writer:
    """Writes programs with a model.

    If the toolbox has no functions, the program makes the comparisons itself. A program
    that fails is sent back for repair.
    """

    def __init__(
        self,
        chat: Chat,
        toolbox: Toolbox,
        shown: Shown = Shown(),
        patience_s: float = PATIENCE_S,
        repairs: int = REPAIRS,
        tools: Sequence[Tool] = (),
    ) -> None:
        self._chat, self._toolbox, self._shown = chat, toolbox, shown
        self._patience_s, self._repairs, self._tools = patience_s, repairs, tools
        self.usage = Usage()

    def write(
        self, request: str, specification: str, case: Mapping[str, Value] | None = None
    ) -> Written:
        """Writes a program for a request; if a case is given, also judges this case."""
        if self._tools:
            listed = data({"tools": [tool._asdict() for tool in self._tools]})
            specification = f"{specification.strip()}\nIts tools:\n{listed}"
        examples = self._shown.of(case or {"request": request})
        system = prompt("task", begin=BEGIN, end=END)
        asked = planning(specification, request, case, examples)
        messages = [Message("system", system), Message("user", asked)]
        plan = self._ask(messages)
        inputs = INPUTS if case is None else tuple(case)
        predicates = described() if "holds" in inputs else ()
        messages.append(Message("user", coding(self._toolbox, inputs, predicates)))
        problem = ""
        for repairs in range(self._repairs + 1):
            try:
                program = self._program(self._ask(messages))
                outcome = None if case is None else program.run(case)
            except InvalidInput as error:
                problem = str(error)
            else:
                if outcome is None or not outcome.fault:
                    return Written(plan, program, outcome, repairs)
                problem = outcome.fault
            messages.append(Message("user", prompt("repair", problem=problem)))
        raise NotWritten(
            f"the model wrote no working program after {self._repairs} repairs: "
            f"{problem}"
        )

    def _ask(self, messages: list[Message]) -> str:
        reply = timely(self._chat, messages, self._patience_s)
        self.usage.add(reply)
        text = reply.text[:LONGEST_REPLY]
        messages.append(Message("assistant", text))
        return text

    def _program(self, text: str) -> Program:
        """Returns the program in a reply: the last code block, or the whole text."""
        blocks = _BLOCK.findall(text)
        program = Program((blocks or [text])[-1].strip() + "\n", self._toolbox)
        Holds(program.predicates)
        if self._tools:
            given = {tool.name: tool.arguments for tool in self._tools}
            check_program(program.text, "of the model", given)
        return program


class GuardAgent:
    """Judges each case with a program that a model writes for it, as in the paper."""

    def __init__(self, writer: Writer, request: str, specification: str) -> None:
        self._writer, self._request, self._about = writer, request, specification
        self.usage = writer.usage

    def __call__(self, case: Case) -> Outcome:
        return self.judge(case)[0]

    def judge(self, case: Case) -> tuple[Outcome, Written | None]:
        """Returns the verdict on a case and its program; without a program, the case is
        denied.
        """
        try:
            written = self._writer.write(self._request, self._about, case.shown)
        except (NotWritten, ModelError) as error:
            return Outcome("deny", fault=str(error)), None
        return written.outcome or Outcome("deny", fault="nothing was judged"), written


def timely(chat: Chat, messages: Sequence[Message], patience_s: float) -> Reply:
    """Returns a timely reply; raises ModelError if the call hangs."""
    found: list[Reply | Exception] = []
    kept = list(messages)

    def ask() -> None:
        try:
            found.append(chat.reply(kept))
        except Exception as error:
            found.append(error)

    asking = threading.Thread(target=ask, name="asking a model", daemon=True)
    asking.start()
    asking.join(patience_s)
    if not found:
        raise ModelError(f"the model did not answer within {patience_s:g} s")
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


class Confirmed:
    """A guard agent that stores cases if a rule confirms both its answer and the
    details; labels are not used.
    """

    def __init__(
        self, agent: GuardAgent, memory: Memory, rule: Judge, name: str
    ) -> None:
        self._agent, self._memory = agent, memory
        self._rule, self._name = rule, name

    def __call__(self, case: Case) -> Outcome:
        outcome, written = self._agent.judge(case)
        expected = self._rule(case)
        faulty = outcome.fault or expected.fault
        same = outcome.label == expected.label and same_details(outcome, expected)
        if written is not None and same and not faulty:
            self._memory.add(
                input=str(case.inputs.get("request", "")),
                log=str(case.inputs.get("log", "")),
                plan=written.plan,
                program=written.program.text,
                confirmed_by=f"rule: {self._name}",
            )
        return outcome
