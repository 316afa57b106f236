"""Conditions of rules: formulas over the present and the past, compiled to closures.

The language is that of laws without future operators. It contains:

- predicates of the domain's library, and comparisons of signals and event fields;
- the operators `and`, `or`, `not` and `->`;
- `once`, `historically` and `since`, with times in steps (one per event) or seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce

from forewarn.abstractions.encoding import past_of
from forewarn.abstractions.errors import InvalidExpression, SignalFault
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.expression.tree import (
    And,
    Compare,
    Conditional,
    Constant,
    Expression,
    Implies,
    LookBack,
    Name,
    Not,
    Or,
    signals_of,
)
from forewarn.abstractions.vocabularies.signals import Signal
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary, load_vocabulary
from forewarn.monitors.laws.formula import (
    Formula,
    Future,
    Historically,
    Interval,
    Once,
    Since,
    parse_formula,
)
from forewarn.monitors.rules.predicates import Library, Situation, Test

_SECONDS = {"s": 1.0, "ms": 0.001, "min": 60.0}


def parse_condition(text: str, library: Library | None = None) -> Formula:
    """Parses a condition; without a library, every name is a signal.

    Raises:
        InvalidExpression: The text does not parse, uses a name that is neither a
            predicate nor a signal, or refers to the future.
    """
    formula = parse_formula(text, _vocabulary(library) if library else None)
    for node in formula.walk():
        if isinstance(node, Future):
            raise InvalidExpression(
                f"{node!r} refers to the future",
                mend="rules may refer only to the present and the past, with once, "
                "historically and since",
            )
    return formula


@cache
def _vocabulary(library: Library) -> Vocabulary:
    """Returns a vocabulary of the library's signals, predicates and fields."""
    base = Vocabulary(library.domain, {}, {}, {})
    if library.vocabulary:
        base = load_vocabulary(library.vocabulary)
    signals = dict(base.signals)
    signals |= {name: Signal(name, "enum") for name in library.fields}
    signals |= {name: Signal(name, "bool") for name in library.predicates}
    return replace(base, signals=signals)


def predicates_of(formula: Formula, library: Library) -> tuple[str, ...]:
    """Returns the predicates that a condition uses, in the library's order."""
    return tuple(n for n in signals_of(formula) if n in library.predicates)


class UnknownSignal(SignalFault):
    """A condition needs a signal whose value is unknown."""

    def __init__(self, signal: str, problem: str = "") -> None:
        self.signal = signal
        super().__init__(problem or f"the value of {signal} is unknown")


class Condition:
    """A compiled condition, with its state in a run."""

    __slots__ = ("test", "_memories")

    def __init__(self, formula: Formula, library: Library) -> None:
        self._memories: list[_Memory | _Count] = []
        self.test = self._compile(formula, library)

    @property
    def remembers(self) -> bool:
        """Whether the condition refers to the past and must read every event."""
        return bool(self._memories)

    def reset(self) -> None:
        """Begins a new run."""
        for memory in self._memories:
            memory.reset()

    def hear(self, situation: Situation) -> None:
        """Reads an event; must be called once for each event of the run."""
        for memory in self._memories:
            memory.update(situation)

    def __call__(self, situation: Situation) -> bool:
        """Reads an event, and returns whether the condition is true."""
        self.hear(situation)
        return self.test(situation)

    def _compile(self, node: Expression, library: Library) -> Test:
        match node:
            case Constant(value=value):
                return lambda situation: value
            case Name(name=name) if name in library.predicates:
                return _predicate(name)
            case Not(operand=operand):
                inner = self._compile(operand, library)
                return lambda situation: not inner(situation)
            case And(parts=parts):
                return reduce(_both, [self._compile(part, library) for part in parts])
            case Or(parts=parts):
                return reduce(_either, [self._compile(part, library) for part in parts])
            case Implies(left=left, right=right):
                return self._compile(Or((Not(left), right)), library)
            case Once(operand=operand, interval=interval):
                return self._compile(Since(Constant(True), operand, interval), library)
            case Historically(operand=operand, interval=interval):
                never = Not(Once(Not(operand), interval))
                return self._compile(never, library)
            case Since(left=left, right=right, interval=interval):
                held = self._compile(left, library)
                began = self._compile(right, library)
                memory = _Memory(held, began, interval)
                self._memories.append(memory)
                return memory.said
        counts = [_Count(past, library) for past in past_of([node])]
        self._memories += counts
        return _signals(node, counts)


def _predicate(name: str) -> Test:
    def test(situation: Situation) -> bool:
        found = situation.known.get(name)
        return situation.so(name) if found is None else found

    return test


# Tests are combined pairwise, because a loop would be as slow as the tests.
def _both(one: Test, other: Test) -> Test:
    return lambda situation: one(situation) and other(situation)


def _either(one: Test, other: Test) -> Test:
    return lambda situation: one(situation) or other(situation)


def _signals(node: Expression, counts: Sequence[_Count] = ()) -> Test:
    """Returns a test of the event's values and fields, and of counts."""
    compiled, numbers = compile_test(node), _numbers(node)

    def test(situation: Situation) -> bool:
        values = situation.values
        if counts:
            values = {**values, **{each.key: each.said() for each in counts}}
        try:
            for name in numbers:
                if isinstance(values[name], bool):
                    raise TypeError(f"{name} is {values[name]}, not a number")
            return compiled(values)
        except KeyError as error:
            raise UnknownSignal(str(error.args[0])) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise SignalFault(f"{node!r} cannot be decided: {error}") from None

    return test


def _numbers(node: Expression) -> tuple[str, ...]:
    def names(part: Expression) -> set[str]:
        if isinstance(part, Name):
            return {part.name}
        if isinstance(part, LookBack):
            return {repr(part)}
        if isinstance(part, Conditional):
            return names(part.holding) | names(part.otherwise)
        found: set[str] = set()
        return found.union(*map(names, part.children))

    ordered = isinstance(node, Compare) and node.operator in ("<", "<=", ">", ">=")
    return tuple(sorted(names(node))) if ordered else ()


class _Count:
    """Counts recent events at which a condition was true: `count[0, 60 s](…)`."""

    __slots__ = ("key", "_condition", "_fault", "_held", "_span_s")

    def __init__(self, node: LookBack, library: Library) -> None:
        self.key, self._span_s = repr(node), node.span_s
        self._condition = Condition(node.operand, library)
        self.reset()

    def reset(self) -> None:
        self._held: deque[float] = deque()
        self._fault: SignalFault | None = None

    def said(self) -> int:
        """Returns the count at the last event."""
        if self._fault is not None:
            raise self._fault
        return len(self._held)

    def update(self, situation: Situation) -> None:
        self._fault = None
        now = situation.event.time_s
        try:
            if self._condition.test(situation):
                self._held.append(now)
        except SignalFault as error:
            self._fault = error
        while self._held and now - self._held[0] > self._span_s + 1e-9:
            self._held.popleft()


class _Memory:
    """`left since[low, high] right`: right was true once, and left ever since."""

    __slots__ = (
        "_began", "_fault", "_high", "_holds", "_left", "_low", "_right", "_step",
        "_unit",
    )  # fmt: skip

    def __init__(self, left: Test, right: Test, interval: Interval) -> None:
        self._left, self._right = left, right
        self._unit = _SECONDS.get(interval.unit)  # None for steps
        factor = 1.0 if self._unit is None else self._unit
        self._low = interval.low * factor
        self._high = None if interval.high is None else interval.high * factor
        self.reset()

    def reset(self) -> None:
        self._began: deque[float] = deque()
        self._step = -1
        self._holds = False
        self._fault: SignalFault | None = None

    def said(self, situation: Situation) -> bool:
        """Whether the condition is true at the last event."""
        if self._fault is not None:
            raise self._fault
        return self._holds

    def update(self, situation: Situation) -> None:
        """Reads an event; unknown values leave the memory unchanged."""
        self._step += 1
        self._fault = None
        left, right = True, False
        try:
            left, right = self._left(situation), self._right(situation)
        except SignalFault as error:
            self._fault = error
        now = float(self._step) if self._unit is None else situation.event.time_s
        began = self._began
        # Rounding may make a sum of floats miss a bound.
        slack = 0.0 if self._unit is None else 1e-9
        if not left:
            began.clear()
        if right and (self._high is not None or not began):
            began.append(now)
        if self._high is not None:
            while began and now - began[0] > self._high + slack:
                began.popleft()
        self._holds = bool(began) and now - began[0] >= self._low - slack
