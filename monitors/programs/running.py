"""The state of a run of a guard program: its steps, its facts and its verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from forewarn.monitors.programs.values import ProgramFault, Value, kind, weigh

Demand = Literal["slow", "reflect", "ask", "deny"]

DEMANDS: tuple[Demand, ...] = get_args(Demand)
"""The verdicts that a program can give, the mildest first."""

Answer = Literal["allow", "slow", "reflect", "ask", "deny"]

MOST_STEPS = 20_000
MOST_VERDICTS = 100
MOST_FACTS = 40
"""The maximum number of facts that are stored to explain a verdict."""

LARGEST_DETAILS = 4_000
_SHOWN = 60


class Fact(NamedTuple):
    """The result of a test in the program; for a comparison, with both sides."""

    line: int
    text: str
    values: tuple[Value, ...]
    truth: Value

    def __str__(self) -> str:
        sides = ", ".join(shown(value) for value in self.values)
        was = f" ({sides})" if sides else ""
        return f"line {self.line}: {self.text}{was} is {shown(self.truth)}"


def shown(value: Value) -> str:
    """Formats a value as text on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return f"a mapping of {len(value)}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    text = repr(value) if isinstance(value, str) else str(value)
    text = "nothing" if value is None else text
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict of a program on an action.

    Args:
        reason: The reason as written in the program, never text from the world.
        details: The denied columns, or the violated rules.
        because: The results of the tests that led to the verdict, the nearest last.
    """

    kind: Demand
    reason: str
    details: Value = None
    because: tuple[Fact, ...] = ()
    cap_kmh: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the answer, all verdicts, and the fault if it failed; the
    answer is then `deny`.
    """

    answer: Answer
    verdicts: tuple[Verdict, ...] = ()
    fault: str = ""
    steps: int = 0

    @property
    def label(self) -> int:
        """The label as in the paper: 0 if the action passes, 1 if not."""
        return int(self.answer != "allow")

    @property
    def deciding(self) -> Verdict | None:
        """The decisive verdict; None if there is none."""
        if self.fault:
            return None
        return next((v for v in self.verdicts if v.kind == self.answer), None)

    @property
    def reason(self) -> str:
        """The reason for the answer in one sentence."""
        if self.fault:
            return f"the guard program cannot judge this action: {self.fault}"
        verdict = self.deciding
        return "" if verdict is None else verdict.reason

    @property
    def cap_kmh(self) -> float | None:
        """The lowest maximum speed among the `slow` verdicts."""
        return min((v.cap_kmh for v in self.verdicts if v.cap_kmh), default=None)

    def explained(self) -> list[str]:
        """Returns the verdicts with their reasons as lines."""
        lines = [self.reason] if self.fault else []
        for verdict in self.verdicts:
            lines.append(f"{verdict.kind}: {verdict.reason}")
            lines += [f"  {fact}" for fact in verdict.because]
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Returns the outcome as JSON, without empty fields."""
        verdicts = [
            _present(
                decision=each.kind,
                reason=each.reason,
                details=each.details,
                cap_kmh=each.cap_kmh,
                because=[str(fact) for fact in each.because],
            )
            for each in self.verdicts
        ]
        return _present(
            label=self.label,
            decision=self.answer,
            reason=self.reason or None,
            fault=self.fault or None,
            verdicts=verdicts or None,
            steps=self.steps,
        )


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(slots=True)
class Execution:
    """The state of a run that closures can access."""

    names: dict[str, Value]
    weights: Mapping[int, int]
    left: int = MOST_STEPS
    facts: list[Fact] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def spend(self, steps: int) -> None:
        """Takes steps from the budget; raises a fault if too few are left."""
        self.left -= steps
        if self.left < 0:
            raise ProgramFault(f"the program takes more than {MOST_STEPS} steps")

    def look_at(self, value: Value) -> None:
        """Takes the steps for inspecting a whole value."""
        known = self.weights.get(id(value))
        self.spend(weigh(value, max(self.left, 0)) if known is None else known)

    def say(
        self, kind_: Demand, reason: str, details: Value, cap_kmh: float | None
    ) -> None:
        """Records a verdict."""
        if len(self.verdicts) >= MOST_VERDICTS:
            raise ProgramFault(f"the program gives more than {MOST_VERDICTS} verdicts")
        weigh(details, LARGEST_DETAILS)
        because = tuple(self.facts[-MOST_FACTS:])
        self.verdicts.append(Verdict(kind_, reason, details, because, cap_kmh))

    def outcome(self, fault: str = "") -> Outcome:
        """Returns the outcome of the run."""
        answer: Answer = "allow"
        for each in DEMANDS:
            if any(verdict.kind == each for verdict in self.verdicts):
                answer = each
        if fault:
            answer = "deny"
        return Outcome(answer, tuple(self.verdicts), fault, MOST_STEPS - self.left)


def truth_of(value: Value, line: int) -> bool:
    """Returns a test's result; raises a fault if it is not true or false."""
    if isinstance(value, bool):
        return value
    raise ProgramFault(
        f"line {line} uses {kind(value)} as a condition; it must be true or false"
    )
