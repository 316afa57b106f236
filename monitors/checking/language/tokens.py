"""The words and signs of a property, each with its column."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from forewarn.abstractions.errors import InvalidProperty

MAX_DEPTH = 100
"""How many parentheses, brackets, negations and arrows may nest."""

RELATIONS = ("<=", ">=", "!=", "=", "<", ">")
PATH_OPERATORS = ("X", "F", "G", "U", "W", "R")
KEYWORDS = frozenset({*PATH_OPERATORS, "P", "E", "A", "true", "false"})

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"]|"")*")
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>=\?|<=>|=>|<=|>=|!=|[=<>!&|()\[\],/-])
    )""",
    re.VERBOSE | re.ASCII,
)
_OTHER_SPELLINGS = {
    "and": "&",
    "or": "|",
    "not": "!",
    "&&": "&",
    "||": "|",
    "==": "=",
    "->": "=>",
}


class Token(NamedTuple):
    kind: str
    text: str
    column: int

    @property
    def quoted(self) -> str:
        """What stands between the quotes; a quote in it is written twice."""
        return self.text[1:-1].replace('""', '"')


class Tokens:
    """The tokens of one text, read from left to right."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self._at = self._depth = 0
        self._tokens = list[Token]()
        at, end = 0, len(text.rstrip(" \t\r\n"))
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                rest = text[at:].lstrip(" \t\r\n")
                self._bad_character(rest, len(text) - len(rest) + 1)
            kind = found.lastgroup
            self._tokens.append(Token(kind, found[kind], found.start(kind) + 1))
            at = found.end()
        self._tokens.append(Token("end", "", len(text) + 1))

    def _bad_character(self, rest: str, column: int) -> NoReturn:
        token = Token("", rest[0], column)
        if rest[0] == '"':
            mend = 'close it with ", and write a quote in it twice'
            self.fail("the quoted name does not end", token, mend)
        if rest[0] == "'":
            self.fail("single quotes mean nothing here", token, 'write "name"')
        self.fail(f"the character {rest[0]!r} means nothing here", token)

    @property
    def peek(self) -> Token:
        return self._tokens[self._at]

    @property
    def second(self) -> Token:
        """The token after the next one."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def next(self) -> Token:
        token = self.peek
        self._at += 1
        return token

    def accept(self, *texts: str) -> Token | None:
        """The next token if it is one of these words or signs."""
        if self.peek.kind in ("sign", "word") and self.peek.text in texts:
            return self.next()
        return None

    def expect(self, text: str, why: str) -> None:
        if self.accept(text) is None:
            self.unexpected(f"{text!r} {why}")

    def down(self) -> None:
        """One level deeper; `up` comes back."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail("the property is nested too deeply", self.peek)

    def up(self, levels: int = 1) -> None:
        self._depth -= levels

    def fail(self, problem: str, token: Token, mend: str = "") -> NoReturn:
        raise InvalidProperty(
            problem, source=self.source, place=f"column {token.column}", mend=mend
        )

    def unexpected(self, wanted: str) -> NoReturn:
        """The refusal of the next token."""
        token = self.peek
        before = self._tokens[self._at - 1].text if self._at else ""
        for other in (token.text, token.text + self.second.text, before + token.text):
            if other in _OTHER_SPELLINGS:
                mend = f"write {_OTHER_SPELLINGS[other]}"
                self.fail(f"{other!r} is not an operator here", token, mend)
        found = "the property ends" if token.kind == "end" else f"found {token.text}"
        self.fail(f"expected {wanted}, but {found}", token)
