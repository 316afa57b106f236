"""Converts an agent's calls to signals, for laws over sequences of calls.

A call has these signals:

- `tool`: the name of the tool;
- `failed`: whether the call failed;
- `arg_NAME`: an argument, if it is a number, a string or a Boolean;
- `from_NAME`: the source of an argument;
- `result_FIELD`: a field of the result;
- `request`: the request to the agent.

Two examples of laws:

    always (tool == delete -> once (tool == backup and not failed))
    always (tool == send -> from_to in [request, "contacts.email"])

No model is learned from data, so no risk is estimated ahead of a call. The guard
withholds a call only if this call would violate a law.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.expression.tree import (
    EQUALITIES,
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Curve,
    Expression,
    LookBack,
    Name,
    Negative,
    Number,
    Text,
    atoms,
)
from forewarn.abstractions.frame import Frame, Value
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.laws.formula import TEMPORAL, Temporal, is_momentary
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.laws.monitor import FollowedLaw
from forewarn.monitors.trust.training import law_abstraction
from forewarn.plugins.agents.sources import NEW, REQUEST, Sources, fields_of
from forewarn.plugins.agents.turns import MAX_OPEN
from forewarn.plugins.loop.alerts import tell

if TYPE_CHECKING:
    from forewarn.monitors.guarding.decision import Action

A_CALL_S = 1.0
"""The duration of a call in laws over calls.

In these laws, `2 steps` and `2 s` both mean two calls.
"""

POLICY = Policy(
    name="laws over calls",
    rules={"*": (Step("reflect", 0.5),)},
    horizon_s=A_CALL_S,
    when="before",
    unknown_state="continue-with-warning",
    max_reflections=10,
)
"""The default policy, which withholds a call that would violate a law and says why."""

UNNAMED = 'unnamed := always not tool == ""'
"""A law that no call violates, for guards that have only rules or guard programs."""

_ARGUMENT, _FROM, _RESULT = "arg_", "from_", "result_"
_PREFIXES = (_ARGUMENT, _FROM, _RESULT)

Kinds = Mapping[str, str]
"""The kind of value with which laws compare a signal, by signal."""


class Trajectory:
    """Tracks the calls of an agent, and returns them as frames of signals.

    Args:
        laws: The laws over calls, which define the signals. A signal that does not
            apply to a call is `none`.
    """

    def __init__(self, laws: Sequence[Law]) -> None:
        self._laws, self._told = tuple(laws), set[str]()
        self.kinds = compared(laws)
        self._nothing: dict[str, Value] = dict.fromkeys(self.kinds)
        for law in laws:
            followed = FollowedLaw(law, A_CALL_S)
            followed.frame(Frame(0.0, 0, self._nothing))
            if followed.monitor.violations:
                raise InvalidInput(
                    "the law is broken before the first call, when each signal is "
                    "none, so every call would be withheld",
                    source=f"{law.name:.60}",
                    mend="write always (tool is none or …), or not tool == x instead "
                    "of tool != x",
                )
        self._results = [name for name in self.kinds if name.startswith(_RESULT)]
        self._reads_outcome = "failed" in self.kinds or bool(self._results)
        self._copied = [name for name in self.kinds if name.startswith(_FROM)]
        self._sources = Sources()
        self.begin()

    def begin(self) -> None:
        """Clears all calls."""
        self._due: deque[dict[str, Value]] = deque()
        self._late: deque[dict[str, Value]] = deque(maxlen=MAX_OPEN)
        self._open: dict[int, dict[str, Value]] = {}
        self._told_results = False
        self._sources.begin()

    @property
    def lacks_results(self) -> bool:
        """Whether a law reads results, but no result of any call has been reported."""
        return self._reads_outcome and bool(self._open) and not self._told_results

    def asked(self, request: str) -> None:
        """Stores the user's request to the agent."""
        self._sources.request = request

    def observe(self) -> Frame:
        """Returns the frame of the next call; without a call, all signals are none."""
        seen = self._due.popleft() if self._due else self._nothing
        return Frame(0.0, 0, dict(seen))

    def foresee(self, action: Action) -> Frame:
        """Predicts the frame of a call that is made and succeeds."""
        return Frame(0.0, 0, self._values(action, failed=False))

    def made(self, call: int, action: Action) -> None:
        """Adds a call, which counts as failed until its success is reported."""
        step = self._values(action, failed=True)
        self._due.append(step)
        self._open[call] = step
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]

    def ended(self, call: int, failed: bool, result: object = None) -> bool:
        """Reports the result of a call; only the first report of a call counts.

        Returns:
            Whether the call belongs to this run.
        """
        self._told_results = True
        step = self._open.pop(call, None)
        if step is None:
            return False
        if self._copied:
            self._sources.hear(str(step["tool"]), result)
        if failed:
            return True
        outcome: dict[str, Value] = {"failed": False, **self._came_back(result)}
        if any(step is due for due in self._due):
            step.update(outcome)
        elif self._reads_outcome:
            self._late.append({**step, **outcome})
        return True

    def _came_back(self, result: object) -> dict[str, Value]:
        """Returns the fields of a result that laws use. If the result is plain text,
        its only field is `text`.
        """
        found = fields_of(result) if self._results else None
        given: Mapping[str, Any] = (
            found if isinstance(found, Mapping) else {"text": found}
        )
        values = {name: given.get(name.removeprefix(_RESULT)) for name in self._results}
        return {n: v for n, v in values.items() if _is(self.kinds[n], v)}

    @property
    def is_late(self) -> bool:
        """Whether the success of a call was reported after its review."""
        return bool(self._late)

    def late(self, breaks: Callable[[Mapping[str, Value]], bool]) -> Iterator[Frame]:
        """Yields the last call, and then the calls whose success was reported late.

        Each late success is a step of its own. If this step would violate a law, it is
        kept until a later review.
        """
        if self._due:
            yield self.observe()
        for _ in range(len(self._late)):
            step = self._late.popleft()
            if breaks(step):
                self._late.append(step)
            else:
                yield Frame(0.0, 0, step)

    def wrong(self, action: Action) -> str:
        """Returns the reason why laws cannot compare an argument; empty if they can."""
        for signal, kind in self.kinds.items():
            if not signal.startswith(_ARGUMENT):
                continue
            value = action.arguments.get(signal.removeprefix(_ARGUMENT))
            if value is not None and not _is(kind, value):
                argument, kind = signal.removeprefix(_ARGUMENT), kind or "plain value"
                return f"a law uses the argument {argument} as a {kind}"
        return ""

    def check(
        self, tools: Mapping[str, Collection[str]], *, alone: bool = True
    ) -> None:
        """Checks that the laws use only arguments that some tool has.

        A law may be about a tool that does not exist here; a name that resembles that
        of a tool is logged as a warning.

        Args:
            tools: The arguments of each tool.
            alone: Whether no other agent shares the guard; otherwise, an unknown
                argument is only logged as a warning.

        Raises:
            InvalidInput: A law uses an argument that no tool has.
        """
        warnings: list[str] = []
        names = {each for given in tools.values() for each in given}
        known = [prefix + each for each in names for prefix in (_ARGUMENT, _FROM)]
        mend = f"the tools have the arguments {', '.join(sorted(names))}"
        for signal in self.kinds:
            if signal.startswith((_ARGUMENT, _FROM)) and signal not in known:
                suggested = ["tool", "failed", *known]
                error = _unknown(signal, suggested, mend if names else "")
                if alone:
                    raise error
                warnings.append(str(error))
        for warning in (*warnings, *misspelt(self._laws, tools)):
            if warning not in self._told:
                self._told.add(warning)
                tell(logging.WARNING, "%s", warning)

    def _values(self, action: Action, failed: bool) -> dict[str, Value]:
        given: dict[str, Value] = {"tool": action.name, "failed": failed}
        for name, value in action.arguments.items():
            signal = f"{_ARGUMENT}{name}"
            if _is(self.kinds.get(signal, ""), value):
                given[signal] = value
        for signal in self._copied:
            value = action.arguments.get(signal.removeprefix(_FROM))
            given[signal] = self._sources.of(value)
        return {**self._nothing, **given}


def _is(kind: str, value: object) -> bool:
    """Whether a value has the given kind; an empty kind means any plain value."""
    match value:
        case bool():
            return kind in ("truth value", "")
        case str():
            return kind in ("text", "")
        case int() | float():
            return kind in ("number", "") and _finite(value)
        case _:
            return False


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def compared(laws: Iterable[Law]) -> Kinds:
    """Returns the signals that laws use, with the kind of value each is compared with.

    Raises:
        InvalidInput: A law uses a signal that no call has, or laws compare a signal
            with values of two kinds.
    """
    kinds: dict[str, str] = {"tool": "text", "failed": "truth value", "request": "text"}
    read: dict[str, None] = {}
    for law in laws:
        for signal in law.signals:
            read[signal] = None
            if signal.startswith(_FROM):
                kinds[signal] = "text"
            if signal not in kinds and not signal.startswith(_PREFIXES):
                if name := _with_hyphen(law.formula, signal):
                    raise InvalidInput(
                        f"{name} is read as a subtraction",
                        mend=f'write "{name}" in quotes',
                    )
                known = ["tool", "failed", "request", *_near(signal), *TEMPORAL]
                raise _unknown(signal, known)
        for atom in _atoms(law.formula):
            for signal, kind in _kinds(atom):
                if kind and kinds.setdefault(signal, kind) != kind:
                    raise InvalidInput(
                        f"{signal} is compared with both a {kind} and a "
                        f"{kinds[signal]}",
                        mend="compare it with values of one type",
                    )
    return {signal: kinds.get(signal, "") for signal in read}


def misspelt(
    laws: Iterable[Law], tools: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """Yields a warning for each tool or argument in a law that does not exist but
    resembles an existing one.

    Args:
        laws: The laws.
        tools: The names of the arguments of each tool.
    """
    known = {
        "tool": tools,
        _ARGUMENT: (arguments := {each for given in tools.values() for each in given}),
        _FROM: arguments,
    }
    for law in laws:
        named = [("tool", name) for name in _compared_with("tool", law.formula)]
        for signal in law.signals:
            for prefix in (_ARGUMENT, _FROM):
                if signal.startswith(prefix):
                    named.append((prefix, signal.removeprefix(prefix)))
        for of, name in dict.fromkeys(named):
            if name not in known[of] and (hint := near_miss(name, known[of])):
                what = "tool" if of == "tool" else "argument"
                yield f"{law.name}: there is no {what} {name!r:.60} ({hint})"
        for signal in law.signals:
            texts = [*_compared_with(signal, law.formula)]
            if not signal.startswith(_FROM) or any(_is_source(t, tools) for t in texts):
                continue
            sources = [REQUEST, NEW, *tools]
            for text in texts:
                hint = near_miss(text, sources)
                hint = hint or f"the sources are {', '.join(sources)}"
                yield f"{law.name}: {signal}: no value has the source {text!r} ({hint})"


def _is_source(text: str, tools: Collection[str]) -> bool:
    """Whether a value can have the source with this name."""
    fields = [tool + mark for tool in tools for mark in ".:"]
    return text in (REQUEST, NEW, *tools) or text.startswith(tuple(fields))


def _compared_with(signal: str, formula: Expression) -> Iterator[str]:
    """Yields the texts with which a formula compares a signal."""
    for atom in _atoms(formula):
        for node in atom.walk():
            if isinstance(node, Compare) and node.operator in EQUALITIES:
                sides = node.left, node.right
                if any(isinstance(s, Name) and s.name == signal for s in sides):
                    yield from (s.value for s in sides if isinstance(s, Text))


def _with_hyphen(formula: Expression, signal: str) -> str:
    """Returns the name with a hyphen that begins with `signal`; empty if none does."""
    for node in formula.walk():
        match node:
            case Arithmetic("-", Name(name=left), Name(name=right)) if left == signal:
                return f"{left}-{right}"
    return ""


def _near(signal: str) -> list[str]:
    """Returns signal names to suggest for a misspelled one."""
    head, _, rest = signal.partition("_")
    return [f"{_ARGUMENT}{rest}"] if rest and head.startswith("a") else []


def _unknown(signal: str, known: Iterable[str], mend: str = "") -> InvalidInput:
    return InvalidInput(
        f"no call has a signal {signal!r:.60}",
        mend=near_miss(signal, known)
        or mend
        or (
            "the signals of a call are tool, failed, request, arg_NAME, from_NAME and "
            "result_FIELD"
        ),
    )


def _atoms(formula: Expression) -> Iterator[Expression]:
    for node in atoms(formula):
        if isinstance(node, Temporal):
            for child in node.children:
                yield from _atoms(child)
        else:
            yield node


def _kinds(atom: Expression) -> Iterator[tuple[str, str]]:
    """Yields the signals of a comparison, each with the kind of value it must have."""
    if isinstance(atom, Name):
        yield atom.name, "truth value"
    for node in atom.walk():
        if isinstance(node, Compare):
            sides = node.left, node.right
            words = any(isinstance(each, Text) for each in sides)
            ordered = node.operator not in EQUALITIES and not words
            numbers = ordered or any(isinstance(each, _NUMBERS) for each in sides)
            kind = "number" if numbers else "text" if words else ""
            yield from ((each.name, kind) for each in sides if isinstance(each, Name))
        elif isinstance(node, _NUMBERS):
            names = (each for each in node.children if isinstance(each, Name))
            yield from ((each.name, "number") for each in names)
        elif isinstance(node, Conditional) and isinstance(node.condition, Name):
            yield node.condition.name, "truth value"
        elif isinstance(node, LookBack):
            for counted in atoms(node.operand):
                if isinstance(counted, Name):
                    yield counted.name, "truth value"


_NUMBERS: tuple[Any, ...] = (Number, Arithmetic, Negative, Call, Curve)


def model_of_laws(laws: Sequence[Law]) -> Model:
    """Returns a model with laws over calls, without learned probabilities."""
    abstraction = law_abstraction([law.formula for law in laws], None, A_CALL_S)
    nothing = dict.fromkeys(abstraction.signals)
    idle = abstraction.state_name(abstraction.reader().frame(Frame(0.0, 0, nothing)))
    tally = Tally()
    tally.add_sequence([idle, idle])
    return learn(
        tally,
        Support("observed"),
        Fraction(0),
        "absorb",
        abstraction=abstraction.as_dict(),
        period_s=A_CALL_S,
        laws=tuple(law.reference for law in laws),
    )


def laws_of(texts: Sequence[str]) -> list[Law]:
    """Returns the laws that are given by formulas or names."""
    laws = [law for text in texts for law in find_laws(text)]
    for law in laws:
        if is_momentary(law.formula):
            problem = "the law applies only to the first moment of a run"
            mend = "write always (…)"
            raise InvalidInput(problem, source=f"{law.name:.60}", mend=mend)
    return laws
