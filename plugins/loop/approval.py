"""Asks a person to approve, edit or reject an action, with a time limit."""

from __future__ import annotations

import json
import queue
import sys
import threading
from dataclasses import dataclass
from typing import Literal, Protocol, TextIO, runtime_checkable

from forewarn.abstractions.errors import InvalidInput, clean
from forewarn.abstractions.files import parse_json
from forewarn.monitors.guarding.decision import Action, Decision

Verdict = Literal["approve", "edit", "reject"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer to a proposal; with `edit`, `action` replaces the proposal."""

    verdict: Verdict
    action: Action | None = None

    def __post_init__(self) -> None:
        if (self.verdict == "edit") != (self.action is not None):
            raise InvalidInput(
                "an answer must have an action if its verdict is `edit`, and no action "
                "otherwise"
            )


@runtime_checkable
class Approver(Protocol):
    """Asks a person about a proposed action."""

    def ask(self, decision: Decision, proposal: Action | None) -> Answer:
        """Returns the answer; may block, because it runs in its own thread."""


class Desk:
    """Asks an approver, and waits for the answer up to a time limit.

    While a question is pending, further questions immediately count as unanswered.
    """

    def __init__(self, approver: Approver, timeout_s: float) -> None:
        self._approver, self._timeout_s = approver, timeout_s
        self._busy = threading.Lock()

    def ask(self, decision: Decision, proposal: Action | None) -> Answer | None:
        """Returns the answer, or None if it is late or if asking failed."""
        if not self._busy.acquire(blocking=False):
            return None
        answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()

        def put() -> None:
            try:
                answer: object = self._approver.ask(decision, proposal)
                answers.put(answer if isinstance(answer, Answer) else None)
            except Exception:
                answers.put(None)
            finally:
                self._busy.release()

        try:
            threading.Thread(target=put, name="forewarn-ask", daemon=True).start()
        except RuntimeError:
            self._busy.release()
            raise
        try:
            return answers.get(timeout=self._timeout_s)
        except queue.Empty:
            return None


class Console:
    """Asks on a terminal: `a` approves, `r` rejects, and JSON replaces the action."""

    def __init__(
        self, ask_on: TextIO | None = None, hear: TextIO | None = None
    ) -> None:
        self._out, self._in = ask_on or sys.stderr, hear or sys.stdin

    def ask(self, decision: Decision, proposal: Action | None) -> Answer:
        shown = "nothing"
        if proposal is not None:
            shown = f"{proposal.name} {json.dumps(dict(proposal.arguments))}"
        question = f"{decision.reason}\nProposed: {shown}".replace("\r", " ")
        self._out.write(
            f"{clean(question)}\n"
            '[a]pprove, [r]eject, or {"name": …, "arguments": {…}} instead: '
        )
        self._out.flush()
        return read_answer(self._in.readline())


class Deferred:
    """Returns a stored answer, for agent frameworks that ask people themselves.

    The framework asks the person, passes the answer to `hear`, and only then has the
    decision carried out. Each answer is used once. Without an answer, the proposal is
    rejected.
    """

    def __init__(self) -> None:
        self._heard = Answer("reject")

    def hear(self, answer: Answer) -> None:
        """Stores the answer to the next question."""
        self._heard = answer

    def ask(self, decision: Decision, proposal: Action | None) -> Answer:
        answer, self._heard = self._heard, Answer("reject")
        return answer


def read_answer(line: str) -> Answer:
    """Parses a line as an answer; any invalid answer counts as a rejection."""
    word = line.strip()
    if word.startswith("{"):
        try:
            return answer_of(parse_json(word, "the answer"))
        except InvalidInput:
            return Answer("reject")
    return Answer("approve") if word == "a" else answer_of(word)


def answer_of(said: object) -> Answer:
    """Parses `approve` or an action as a JSON object; anything else is a rejection."""
    if said == "approve":
        return Answer("approve")
    if isinstance(said, dict) and set(said) <= {"name", "arguments"}:
        name, arguments = said.get("name"), said.get("arguments", {})
        if isinstance(name, str) and name and isinstance(arguments, dict):
            return Answer("edit", Action(name, arguments))
    return Answer("reject")
