"""Tokens and expressions of the PRISM language, with positions in every error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge, near_miss
from forewarn.monitors.chains.formats.rows import rational

Value = int | Fraction
Environment = Mapping[str, Value]
Expression = Callable[[Environment], Value]

_SKIPPED = re.compile(r"(?:\s+|//[^\n]*)*")
_TOKEN = re.compile(
    r"""(?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|\d+(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<text>"[^"\n]*")
      | (?P<symbol><=>|=>|->|\.\.|<=|>=|!=|[-+*/()\[\]{},;:=<>!&|?'])
    """,
    re.VERBOSE,
)
_MAX_DEPTH = 50
_MAX_BITS = 4096
"""No number needs more, so that none of a few lines fills the memory."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    start: int


MAX_CHARACTERS = 8_000_000
MAX_TOKENS = 600_000
"""What it takes to write a command for each state of the largest chain, and more."""


class Reader:
    """A cursor over PRISM text that reads tokens and expressions."""

    def __init__(self, text: str, source: str) -> None:
        self.text, self.source = text, source
        self.used: dict[str, int] = {}
        self._depth = self._tokens = 0
        if len(text) > MAX_CHARACTERS:
            limit = f"longer than the limit of {MAX_CHARACTERS} characters"
            raise TooLarge(limit, source=source, mend="write it as DRN or .tra")
        self._move(0)

    def _move(self, position: int) -> None:
        self._tokens += 1
        if self._tokens > MAX_TOKENS:
            limit = f"longer than the limit of {MAX_TOKENS} words and signs"
            raise TooLarge(limit, source=self.source, mend="write it as DRN or .tra")
        skipped = _SKIPPED.match(self.text, position)
        start = skipped.end() if skipped else position
        match = _TOKEN.match(self.text, start)
        if match:
            self.token = Token(match.lastgroup or "", match.group(), start)
        elif start == len(self.text):
            self.token = Token("end", "the end of the file", start)
        else:
            self.token = Token("", self.text[start], start)
            raise self.error(f"unexpected character {self.text[start]!r}")

    def jump(self, position: int) -> None:
        """Continues behind something that was matched by other means."""
        self._move(position)

    def place(self, start: int | None = None) -> str:
        at = self.token.start if start is None else start
        line = self.text.count("\n", 0, at) + 1
        return f"line {line} column {at - self.text.rfind(chr(10), 0, at)}"

    def error(
        self, problem: str, start: int | None = None, mend: str = ""
    ) -> InvalidModel:
        place = self.place(start)
        return InvalidModel(problem, source=self.source, place=place, mend=mend)

    def at(self, *texts: str) -> bool:
        return self.token.text in texts and self.token.kind != "text"

    def next(self) -> Token:
        token = self.token
        self._move(
            token.start + len(token.text) if token.kind != "end" else token.start
        )
        return token

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.next()
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise self.error(f"expected {text!r}, found {self.token.text!r}")
        return self.next()

    def name(self, what: str) -> str:
        if self.token.kind != "name":
            raise self.error(f"expected {what}, found {self.token.text!r}")
        return self.next().text

    def number(self, text: str, start: int) -> Fraction:
        try:
            return rational(text)
        except InvalidInput as error:
            raise self.error(error.problem, start) from None

    def check_names(self, known: Mapping[str, object]) -> None:
        """Refuses names that were used in expressions but never declared."""
        for name, start in self.used.items():
            if name not in known:
                mend = near_miss(name, known)
                raise self.error(f"the name {name!r} is not declared", start, mend)

    def expression(self) -> Expression:
        """One expression, from the ternary operator down."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self.error("the expression is nested too deeply")
        condition = self._binary(0)
        if self.accept("?"):
            yes = self.expression()
            self.expect(":")
            no = self.expression()
            choice = condition
            condition = lambda env: yes(env) if choice(env) else no(env)  # noqa: E731
        self._depth -= 1
        return condition

    def _binary(self, level: int) -> Expression:
        """Operands of one level, joined from the left without nesting."""
        if level == len(_LEVELS):
            return self._unary()
        first = self._binary(level + 1)
        rest: list[tuple[int, Callable[[Value, Value], Value], Expression]] = []
        while self.token.kind == "symbol" and self.token.text in _LEVELS[level]:
            operator = self.next()
            apply = _OPERATORS[operator.text]
            rest.append((operator.start, apply, self._binary(level + 1)))
        if not rest:
            return first

        def joined(env: Environment) -> Value:
            value = first(env)
            for start, apply, operand in rest:
                try:
                    value = apply(value, operand(env))
                except ZeroDivisionError:
                    raise self.error("division by zero", start) from None
                except OverflowError as error:
                    raise self.error(str(error), start) from None
            return value

        return joined

    def _unary(self) -> Expression:
        token = self.token
        if self.at("-", "!"):
            self.next()
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise self.error("the expression is nested too deeply")
            operand = self._unary()
            self._depth -= 1
            if token.text == "-":
                return lambda env: -operand(env)
            return lambda env: not operand(env)
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if token.kind == "number":
            number = self.number(self.next().text, token.start)
            return lambda env: number
        name = self.name("a number, a name or '('")
        if name in ("true", "false"):
            truth = name == "true"
            return lambda env: truth
        if self.at("("):
            return self._call(name, token.start)
        self.used.setdefault(name, token.start)
        return lambda env: env[name]

    def _call(self, name: str, start: int) -> Expression:
        if name not in _FUNCTIONS:
            mend = near_miss(name, _FUNCTIONS)
            raise self.error(f"the function {name!r} is not supported", start, mend)
        function, arity = _FUNCTIONS[name]
        self.expect("(")
        arguments = [self.expression()]
        while self.accept(","):
            arguments.append(self.expression())
        self.expect(")")
        if arity and len(arguments) != arity:
            raise self.error(f"{name} takes {arity} arguments", start)

        def call(env: Environment) -> Value:
            try:
                return function(*[argument(env) for argument in arguments])
            except (ArithmeticError, ValueError) as error:
                raise self.error(f"{name}: {error}", start) from None

        return call


def _bits(value: Value) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def _within_bits(bits: int) -> None:
    if bits > _MAX_BITS:
        raise OverflowError("the number is too large")


def _power(base: Value, exponent: Value) -> Value:
    whole = Fraction(exponent)
    if whole.denominator != 1:
        raise ValueError("the exponent must be a whole number")
    _within_bits(_bits(base) * abs(int(whole)))
    return Fraction(base) ** int(whole)


def _times(a: Value, b: Value) -> Value:
    _within_bits(_bits(a) + _bits(b))
    return a * b


def _divided(a: Value, b: Value) -> Value:
    _within_bits(_bits(a) + _bits(b))
    return Fraction(a) / Fraction(b)


def _plus(a: Value, b: Value) -> Value:
    found = a + b
    _within_bits(_bits(found))
    return found


def _minus(a: Value, b: Value) -> Value:
    return _plus(a, -b)


def _modulo(a: Value, b: Value) -> Value:
    return Fraction(a) % Fraction(b)


_FUNCTIONS: dict[str, tuple[Callable[..., Value], int]] = {
    "min": (min, 0),
    "max": (max, 0),
    "floor": (floor, 1),
    "ceil": (ceil, 1),
    "pow": (_power, 2),
    "mod": (_modulo, 2),
}

_LEVELS = (
    ("<=>",),
    ("=>",),
    ("|",),
    ("&",),
    ("=", "!="),
    ("<", "<=", ">", ">="),
    ("+", "-"),
    ("*", "/"),
)
_OPERATORS: dict[str, Callable[[Value, Value], Value]] = {
    "<=>": lambda a, b: bool(a) is bool(b),
    "=>": lambda a, b: not a or bool(b),
    "|": lambda a, b: bool(a) or bool(b),
    "&": lambda a, b: bool(a) and bool(b),
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "+": _plus,
    "-": _minus,
    "*": _times,
    "/": _divided,
}
