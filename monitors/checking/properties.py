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

from forewarn.abstractions.errors import InvalidInput, InvalidProperty, TooLarge, naming
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.rows import rational
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

_ROUNDING = 1e-12
"""The accuracy of a probability that does not follow from the graph; a probability this
close to its limit counts as equal to the limit.
"""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"]|"")*")
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>=\?|<=>|=>|<=|>=|!=|==|&&|\|\||->|[=<>!&|()\[\],/-])
    )""",
    re.VERBOSE | re.ASCII,
)
_RELATIONS: dict[str, Callable[[Any, Any], NDArray[Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARED = (*_RELATIONS, "=", "!=")
_MIRRORED = str.maketrans("<>", "><")
_PATHS = ("X", "F", "G", "U")
_OF_STORM = ("S", "LRA", "Pmin", "Pmax")
_CTL = re.compile("[EA][XFGU]?|W|R")
_OTHER_SPELLINGS = {
    "and": "&", "or": "|", "not": "!", "&&": "&", "||": "|", "==": "=", "->": "=>",
}  # fmt: skip
_CONNECTIVES: dict[str, tuple[int, Callable[[Mask, Mask], Mask]]] = {
    "=>": (0, lambda left, right: ~left | right),
    "<=>": (1, lambda left, right: ~(left ^ right)),
    "|": (2, operator.or_),
    "&": (3, operator.and_),
}
"""The precedence and the meaning of each connective; `=>` groups to the right."""


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
        states: The states in which the formula is true, for a formula without P.
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
        """Returns the property with each name replaced by a label, and the states of
        each label.
        """
        labels = {
            f"n{i}": t.mask for i, t in enumerate(self.tokens) if t.mask is not None
        }
        if len(self.tokens) > MAX_FOREIGN:
            raise TooLarge(
                f"a property for Storm is limited to {MAX_FOREIGN} words and symbols",
                mend="to shorten it, define parts of it with --define",
            )
        texts = (f'"n{i}"' if t.mask is not None else t.text
                 for i, t in enumerate(self.tokens))  # fmt: skip
        return " ".join(texts), labels


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer in every state: probabilities, or whether the formula is true.

    Args:
        engine: The engine that computed the answer: builtin or storm.
        values: Doubles for `P=?`, otherwise Booleans.
        exact: The probabilities as fractions, if requested.
    """

    engine: str
    values: NDArray[np.float64] | Mask
    exact: tuple[Fraction, ...] | None = None


def define(labelling: Labelling, definition: str) -> None:
    """Adds a definition such as `bad=s=3|s=7` or `bad="crash"|"fire"`.

    A definition may use earlier ones.
    """
    source = f"--define {definition:.60}"
    name, _, text = definition.partition("=")
    name = labelling.new_name(name, source) if text else labelling.new_name("", source)
    with naming(source):
        formula = parse_property(text, labelling, source)
        if formula.numeric:
            raise InvalidProperty(
                "a definition is true or false, but P=? is a number",
                mend="write P>=p [ ... ]",
            )
        answer = check(formula, labelling)
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
    if not (exact or engine == "storm"):
        answer = Answer("builtin", likelihood(chain, path))
    else:
        answer = _from_storm(_path_by_storm(chain, path, exact))
    if not formula.relation:
        return answer
    numbers: NDArray[Any] = answer.values
    limit: Any = float(formula.limit)
    if answer.exact is not None:
        numbers, limit = np.array(answer.exact, dtype=object), formula.limit
    elif 0.0 < limit < 1.0:
        numbers = np.where(np.abs(numbers - limit) <= _ROUNDING, limit, numbers)
    held = _RELATIONS[formula.relation](numbers, limit)
    return Answer(answer.engine, held.astype(np.bool_))


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
    with naming(source):
        parser = _Parser(_named(list(_tokens(text)), labelling), labelling)
        return replace(parser.whole(), text=text)


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
            _fail(f"the character {rest[0]!r} is not valid here", column)
        kind = match.lastgroup
        token = Token(kind, match[kind], match.start(kind) + 1)
        if token.text == "(" and found and found[-1].kind == "word":
            word = found[-1]
            inside = re.split(r'[]&|"]', text[word.column - 1 :])[0].strip()
            if not _is_keyword(word.text):
                mend = f'write "{inside:.60}"'
                _fail("an expression must be in double quotes", word.column, mend)
        if meant := _OTHER_SPELLINGS.get(token.text):
            problem = f"{token.text!r} is not an operator here"
            _fail(problem, token.column, f"write {meant}")
        found.append(token)
        at = match.end()
    return [*found, Token("end", "", len(text) + 1)]


def _named(tokens: list[Token], labelling: Labelling) -> list[Token]:
    """Returns the tokens, with every name and comparison replaced by a mask."""
    found, at = list[Token](), 0
    while at < len(tokens):
        token, sign, other = (tokens[min(at + i, len(tokens) - 1)] for i in range(3))
        word = token.kind == "word" and not _is_keyword(token.text)
        if word and at and tokens[at - 1].kind == "number":
            number = tokens[at - 1]
            if number.column + len(number.text) == token.column:
                mend = f"write {number.text} without a unit"
                _fail("a horizon is a number of steps", token.column, mend)
        name, mask, taken = token.text, None, 1
        if word and sign.text in _COMPARED:
            value, taken = _operand(tokens, at + 2)
            mask = labelling.compare(name, sign.text, value, token.column)
            taken += 2
        elif token.kind == "number" and sign.text in _COMPARED and other.kind == "word":
            # `3 <= s`, which is `s >= 3`.
            name, mirrored = other.text, sign.text.translate(_MIRRORED)
            mask, taken = labelling.compare(name, mirrored, token.text, token.column), 3
        elif token.kind == "text":
            name = _unquoted(token)
            mask = labelling.meaning(name, token.column)
        elif word:
            mask = labelling.meaning(name, token.column)
        kind = token.kind if mask is None else "states"
        found.append(Token(kind, name, token.column, mask))
        at += taken
    return found


def _unquoted(token: Token) -> str:
    name = token.text[1:-1].replace('""', '"')
    if not name.strip():
        _fail("the name between the quotes is empty", token.column)
    return name


def _operand(tokens: list[Token], at: int) -> tuple[str, int]:
    """Returns the value with which a variable is compared, and the value's number of
    tokens.
    """
    token = tokens[at]
    if token.text == "-" and tokens[at + 1].text.isdecimal():
        return f"-{tokens[at + 1].text}", 2
    if token.kind == "text":
        return _unquoted(token), 1
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
    """A recursive-descent parser; state formulas become masks."""

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
                found = Property("", tokens, states=self._formula())
            if found.path is not None and self._accept(*_CONNECTIVES):
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
        if token.kind != "number":
            self._unexpected("a probability")
        self._at += 1
        text = token.text
        if self._accept("/"):
            text += f"/{self._whole_number()}"
        try:
            limit = rational(text)
        except InvalidInput as error:
            _fail(f"the probability {error.problem}", token.column)
        if limit > 1:
            _fail(f"a probability must be between 0 and 1, not {text}", token.column)
        return limit

    def _path(self) -> Path:
        everywhere = np.ones(self._n, dtype=np.bool_)
        if word := self._accept("X", "F", "G"):
            steps = None if word.text == "X" else self._steps()
            inside = self._formula()
            goal = ~inside if word.text == "G" else inside
            return Path(everywhere, goal, steps, word.text == "G", word.text == "X")
        start, hold = self._peek, self._formula()
        if self._accept("U") is None:
            if self._peek.kind == "word":
                self._unexpected("U")
            mend = "such as F, G, X or U: P=? [ F ... ]"
            _fail("the brackets contain no path operator", start.column, mend)
        steps = self._steps()
        return Path(hold, self._formula(), steps)

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

    def _formula(self, weakest: int = 0) -> Mask:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            _fail("the property is nested too deeply", self._peek.column)
        left = self._primary()
        while self._peek.kind == "sign":
            level, meaning = _CONNECTIVES.get(self._peek.text, (-1, operator.and_))
            if level < weakest:
                break
            self._at += 1
            left = meaning(left, self._formula(level + (level > 0)))
        self._depth -= 1
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
            found = self._formula()
            self._expect(")", "to close the parenthesis")
        elif word := self._accept("true", "false"):
            found = np.full(self._n, word.text == "true")
        elif token.text in ("P", *_PATHS, *_OF_STORM):
            raise _ForStorm
        else:
            self._unexpected("a state formula")
        return ~found if odd else found
