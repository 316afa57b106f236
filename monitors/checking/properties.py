"""Properties of chains, such as `P=? [ F<=20 "crash" ]`.

The built-in engine supports `P=?` and `P>=0.9` with a single X, F, G or U, with or
without a horizon `<=k`, and Boolean formulas over names of states. All other PCTL
(nested P, several operators in one path, lower time bounds, long-run averages) is
passed to Storm, with the names as labels.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import (
    InvalidModel,
    InvalidProperty,
    MissingDependency,
    TooLarge,
)
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.reaching import Mask, Path, likelihood
from forewarn.monitors.checking.storm import ask_storm

MAX_STEPS = 1_000_000
"""The maximum horizon in a property."""

MAX_DEPTH = 100
"""The maximum nesting depth of parentheses, negations and arrows."""

MAX_FOREIGN = 300
"""The maximum number of tokens in a property for Storm, whose parser has no limit on
nesting.
"""

DOUBTFUL = 1e-9
"""Within this distance of the limit, rounding may decide whether a bound holds."""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"]|"")*")
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>=\?|<=>|=>|<=|>=|!=|[=<>!&|()\[\],/-])
    )""",
    re.VERBOSE | re.ASCII,
)
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARED = (*_RELATIONS, "=", "!=")
_PATHS = ("X", "F", "G", "U")
_OF_STORM = ("S", "LRA", "Pmin", "Pmax")
_CTL = re.compile("[EA][XFGU]?|W|R")
_OTHER_SPELLINGS = {
    "and": "&", "or": "|", "not": "!", "&&": "&", "||": "|", "==": "=", "->": "=>",
}  # fmt: skip


class Token(NamedTuple):
    """A word or symbol with its column; the name of a set of states also has the set's
    mask.
    """

    kind: str
    text: str
    column: int
    mask: Mask | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Property:
    """A property in which names are replaced by sets of a chain's states.

    Args:
        tokens: The complete property, for Storm.
        states: The states in which the formula holds, for a formula without P.
        path: The path formula inside P; None if only Storm can check the property.
        relation: The relation, as in `P>=0.9`; empty for `P=?`.
        limit: The number after the relation.
    """

    text: str
    tokens: tuple[Token, ...]
    states: Mask | None = None
    path: Path | None = None
    relation: str = ""
    limit: Fraction = Fraction(0)

    @property
    def numeric(self) -> bool:
        """Whether the property asks for a probability."""
        return any(token.text == "=?" for token in self.tokens)

    def for_storm(self) -> tuple[str, dict[str, Mask]]:
        """The property with each name replaced by a label, and the states of each
        label.
        """
        labels = {
            f"n{i}": t.mask for i, t in enumerate(self.tokens) if t.mask is not None
        }
        if len(self.tokens) > MAX_FOREIGN:
            raise TooLarge(
                f"a property for Storm is limited to {MAX_FOREIGN} words and symbols",
                mend="name its parts with --define",
            )
        texts = (f'"n{i}"' if t.mask is not None else t.text
                 for i, t in enumerate(self.tokens))  # fmt: skip
        return " ".join(texts), labels


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer in every state: probabilities, or whether the formula holds.

    Args:
        engine: The engine that computed the answer: builtin or storm.
        values: Doubles for `P=?`, otherwise Booleans.
        exact: The probabilities as fractions, if requested.
        warnings: Caveats about the values.
    """

    engine: str
    values: NDArray[np.float64] | Mask
    exact: tuple[Fraction, ...] | None = None
    warnings: tuple[str, ...] = ()


def define(labelling: Labelling, definition: str) -> None:
    """Adds a definition such as `bad=s=3|s=7` or `bad="crash"|"fire"`.

    A definition may use earlier ones.
    """
    source = f"--define {definition:.60}"
    name, _, text = definition.partition("=")
    name = labelling.new_name(name, source) if text else labelling.new_name("", source)
    try:
        formula = parse_property(text, labelling, source)
        if formula.numeric:
            raise InvalidProperty(
                "a definition is true or false, but P=? is a number",
                mend="write P>=p [ ... ]",
            )
        answer = check(formula, labelling)
    except InvalidProperty as error:
        raise error.within(source) from None
    labelling.definitions[name] = answer.values.astype(np.bool_)


def check(
    formula: Property,
    labelling: Labelling,
    engine: str = "builtin",
    exact: bool = False,
) -> Answer:
    """Evaluates a property in every state of the labelling's chain.

    Raises:
        MissingDependency: Only Storm can check the property, and stormpy is not
            installed.
    """
    chain, path = labelling.chain, formula.path
    if formula.states is not None:
        return Answer(engine, formula.states)
    if path is None:
        values = ask_storm(chain, *formula.for_storm(), exact=exact)
        return _from_storm(values) if formula.numeric else Answer("storm", values)
    if exact or engine == "storm":
        values = _path_by_storm(chain, path, exact)
        if not formula.relation:
            return _from_storm(values)
        limit = formula.limit if exact else float(formula.limit)
        held = np.array([_RELATIONS[formula.relation](v, limit) for v in values])
        return Answer("storm", held)
    values, settled = likelihood(chain, path)
    if not formula.relation:
        return Answer("builtin", values)
    compare = _RELATIONS[formula.relation]
    held = compare(values, float(formula.limit))
    near = (np.abs(values - float(formula.limit)) <= DOUBTFUL) & ~settled
    if not near.any():
        return Answer("builtin", held)
    try:
        exactly = compare(_path_by_storm(chain, path, exact=True), formula.limit)
        return Answer("builtin", np.where(near, exactly, held).astype(np.bool_))
    except (MissingDependency, InvalidModel) as error:
        names = ", ".join(chain.states[i] for i in np.flatnonzero(near)[:5])
        doubt = (
            f"in state {names}, a probability is within {DOUBTFUL:g} of its limit, so"
            f" rounding decides the answer ({error})"
        )
        return Answer("builtin", held, warnings=(doubt,))


def _path_by_storm(chain: Chain, path: Path, exact: bool) -> NDArray[Any]:
    """Asks Storm for the probability of a path; G is computed as a complement, because
    Storm does not support G with a horizon.
    """
    bound = "" if path.steps is None else f"<={path.steps}"
    asked = 'X "goal"' if path.next else f'"hold" U{bound} "goal"'
    labels = {"hold": path.hold, "goal": path.goal}
    values = ask_storm(chain, f"P=? [ {asked} ]", labels, exact=exact)
    return 1 - values if path.opposite else values


def _from_storm(values: NDArray[Any]) -> Answer:
    if values.dtype != object:
        return Answer("storm", values)
    doubles = np.array([float(value) for value in values])
    return Answer("storm", doubles, tuple(values))


def parse_property(text: str, labelling: Labelling, source: str = "") -> Property:
    """Parses a property of a labelling's chain.

    Args:
        text: The property, such as `P=? [ F<=20 "unsafe" ]` or `P>=0.9 [ ... ]`.
        labelling: The meaning of the names in the property.
        source: The name of the property in error messages; if empty, its text.

    Raises:
        InvalidProperty: The property is invalid; the message states the column and, if
            known, the likely fix.
    """
    line = " ".join(text.split())
    source = source or (line if len(line) <= 60 else line[:57] + "...")
    try:
        parser = _Parser(_named(list(_tokens(text)), labelling), labelling)
        return replace(parser.whole(), text=text)
    except (InvalidProperty, TooLarge) as error:
        raise error.within(source) from None


def _fail(problem: str, column: int, mend: str = "") -> NoReturn:
    raise InvalidProperty(problem, place=f"column {column}", mend=mend)


def _tokens(text: str) -> list[Token]:
    found, at, end = list[Token](), 0, len(text.rstrip(" \t\r\n"))
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            rest = text[at:].lstrip(" \t\r\n")
            column = len(text) - len(rest) + 1
            if rest[0] == '"':
                mend = 'close the name with ", and write a quote inside it twice'
                _fail("the quoted name is not closed", column, mend)
            mend = 'write "name"' if rest[0] == "'" else ""
            _fail(f"the character {rest[0]!r} is not valid here", column, mend)
        kind = match.lastgroup
        found.append(Token(kind, match[kind], match.start(kind) + 1))
        at = match.end()
    return [*found, Token("end", "", len(text) + 1)]


def _named(tokens: list[Token], labelling: Labelling) -> list[Token]:
    """The tokens, with every name and comparison replaced by a mask."""
    found, at = list[Token](), 0
    while at < len(tokens):
        token, *following = tokens[at : at + 3]
        signs = [t.text for t in following if t.kind == "sign"]
        word = token.kind == "word" and not _is_keyword(token.text)
        if word and len(following) == 2 and signs[:1] and signs[0] in _COMPARED:
            other, skip = _operand(tokens, at + 2)
            mask = labelling.compare(
                token.text, signs[0], other, quoted=tokens[at + 2].kind == "text",
                column=token.column,
            )  # fmt: skip
            found.append(Token("states", token.text, token.column, mask))
            at += 2 + skip
            continue
        if (
            token.kind == "number" and len(following) == 2 and signs[:1]
            and signs[0] in _COMPARED and following[1].kind == "word"
        ):  # fmt: skip
            # `3 <= s`, which is `s >= 3`.
            mirrored = signs[0].translate(str.maketrans("<>", "><"))
            name = following[1].text
            mask = labelling.compare(name, mirrored, token.text, column=token.column)
            found.append(Token("states", name, token.column, mask))
            at += 3
            continue
        if token.kind == "text":
            name = token.text[1:-1].replace('""', '"')
            if not name.strip():
                _fail("the name between the quotes is empty", token.column)
            mask = labelling.meaning(name, token.column)
            found.append(Token("states", name, token.column, mask))
        elif word and token.text not in _OTHER_SPELLINGS:
            mask = labelling.meaning(token.text, token.column)
            found.append(Token("states", token.text, token.column, mask))
        else:
            found.append(token)
        at += 1
    return found


def _operand(tokens: list[Token], at: int) -> tuple[str, int]:
    """The value with which a variable is compared, and the value's number of tokens."""
    token = tokens[at]
    if token.text == "-" and tokens[at + 1].text.isdecimal():
        return f"-{tokens[at + 1].text}", 2
    if token.kind == "text":
        return token.text[1:-1].replace('""', '"'), 1
    if token.text.isdecimal() and len(token.text) > 18:
        _fail("this number has too many digits", token.column)
    if token.text.isdecimal() or token.kind == "word":
        return token.text, 1
    _fail(
        "a variable must be compared with a whole number, not "
        f"{token.text or 'nothing'}",
        token.column,
    )


def _is_keyword(word: str) -> bool:
    known = ("P", "true", "false", *_PATHS, *_OF_STORM)
    return word in known or _CTL.fullmatch(word) is not None


class _ForStorm(Exception):
    """The built-in engine does not support the property."""


class _Parser:
    """A recursive-descent parser with one method per precedence level, weakest first;
    state formulas become masks.
    """

    def __init__(self, tokens: list[Token], labelling: Labelling) -> None:
        self._tokens, self._n = tokens, labelling.chain.n
        self._at = self._depth = 0

    @property
    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _accept(self, *texts: str) -> Token | None:
        token = self._peek
        if token.kind in ("sign", "word") and token.text in texts:
            self._at += 1
            return token
        return None

    def _expect(self, text: str, why: str) -> None:
        if self._accept(text) is None:
            self._unexpected(f"{text!r} {why}")

    def _unexpected(self, wanted: str) -> NoReturn:
        token = self._peek
        if token.kind == "word" and _CTL.fullmatch(token.text):
            mend = "write P>=1 [ G ... ] for AG, P>0 [ F ... ] for EF"
            _fail(f"{token.text} is not an operator here", token.column, mend)
        before = self._tokens[self._at - 1].text if self._at else ""
        after = self._tokens[min(self._at + 1, len(self._tokens) - 1)].text
        for other in (token.text, token.text + after, before + token.text):
            if meant := _OTHER_SPELLINGS.get(other):
                _fail(
                    f"{other!r} is not an operator here", token.column, f"write {meant}"
                )
        found = "the property ends" if token.kind == "end" else f"found {token.text}"
        _fail(f"expected {wanted}, but {found}", token.column)

    def whole(self) -> Property:
        if self._peek.kind == "end":
            _fail("the property is empty", self._peek.column)
        tokens = tuple(self._tokens[:-1])
        try:
            if self._accept("P"):
                found = self._probability(tokens)
            else:
                found = Property("", tokens, states=self._implication())
            if found.states is None and self._peek.text in ("&", "|", "=>", "<=>"):
                raise _ForStorm
            if self._peek.kind != "end":
                self._unexpected("the end of the property")
        except _ForStorm:
            return Property("", tokens)
        return found

    def _probability(self, tokens: tuple[Token, ...]) -> Property:
        relation, limit = "", Fraction(0)
        if not self._accept("=?"):
            sign = self._accept(*_RELATIONS)
            if sign is None:
                self._unexpected("=? or a bound such as >=0.9 after P")
            relation, limit = sign.text, self._limit()
        self._expect("[", "after P")
        path = self._path()
        self._expect("]", "to close the brackets of P")
        return Property("", tokens, path=path, relation=relation, limit=limit)

    def _limit(self) -> Fraction:
        token = self._peek
        digits, _, power = token.text.lower().partition("e")
        if token.kind != "number" or len(digits) > 40 or abs(int(power or 0)) > 400:
            self._unexpected("a probability of at most 40 digits")
        self._at += 1
        value = Fraction(token.text)
        if self._accept("/"):
            value /= self._whole_number() or _fail("division by zero", token.column)
        if value > 1:
            _fail(f"a probability must be between 0 and 1, not {value}", token.column)
        return value

    def _path(self) -> Path:
        everywhere = np.ones(self._n, dtype=np.bool_)
        if word := self._accept("X", "F", "G"):
            steps = None if word.text == "X" else self._steps()
            inside = self._implication()
            goal = ~inside if word.text == "G" else inside
            return Path(everywhere, goal, steps, word.text == "G", word.text == "X")
        start, hold = self._peek, self._implication()
        if self._accept("U") is None:
            if self._peek.kind == "word":
                self._unexpected("U")
            mend = "such as F, G, X or U: P=? [ F ... ]"
            _fail("the brackets contain no path operator", start.column, mend)
        steps = self._steps()
        return Path(hold, self._implication(), steps)

    def _steps(self) -> int | None:
        if self._peek.text == "[" or self._peek.text in (">", ">=", "="):
            raise _ForStorm
        sign = self._accept("<=", "<")
        if sign is None:
            return None
        token = self._peek
        steps = self._whole_number() - (sign.text == "<")
        if steps < 0:
            _fail("there is no step before step 0", token.column, "write <=0")
        if steps > MAX_STEPS:
            raise TooLarge(
                f"a horizon of {steps} steps is more than the limit of {MAX_STEPS}",
                place=f"column {token.column}",
                mend="omit the horizon",
            )
        return steps

    def _whole_number(self) -> int:
        token = self._peek
        if not token.text.isdecimal() or len(token.text) > 18:
            self._unexpected("a whole number")
        self._at += 1
        return int(token.text)

    def _implication(self) -> Mask:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            _fail("the property is nested too deeply", self._peek.column)
        left = self._equivalence()
        if self._accept("=>"):
            left = ~left | self._implication()
        self._depth -= 1
        return left

    def _equivalence(self) -> Mask:
        left = self._disjunction()
        while self._accept("<=>"):
            left = ~(left ^ self._disjunction())
        return left

    def _disjunction(self) -> Mask:
        left = self._conjunction()
        while self._accept("|"):
            left = left | self._conjunction()
        return left

    def _conjunction(self) -> Mask:
        left = self._primary()
        while self._accept("&"):
            left = left & self._primary()
        return left

    def _primary(self) -> Mask:
        odd = False
        while self._accept("!"):
            odd = not odd
        token = self._peek
        if token.mask is not None:
            self._at += 1
            found = token.mask
        elif self._accept("("):
            found = self._implication()
            self._expect(")", "to close the parenthesis")
        elif word := self._accept("true", "false"):
            found = np.full(self._n, word.text == "true")
        elif token.text in ("P", *_PATHS, *_OF_STORM):
            raise _ForStorm
        else:
            self._unexpected("a state formula")
        return ~found if odd else found
