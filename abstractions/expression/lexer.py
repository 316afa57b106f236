"""Text to tokens, with the column of each, and a cursor that goes through them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from forewarn.abstractions.errors import InvalidExpression

MAX_LENGTH = 20_000
"""No expression or formula is longer than this, in characters."""

MAX_NUMBER = 1e100
"""No number is larger, so that no conversion of units overflows."""

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[^\W\d]\w*(?:\#\d+)?)
      | (?P<text>"[^"\n]*")
      | (?P<symbol><=>|->|=>|<=|>=|==|!=|&&|\|\||[-+*/()\[\]{},<>=!&|%²^°])
    """,
    re.VERBOSE,
)
_SYNONYMS = {"&": "and", "&&": "and", "|": "or", "||": "or", "!": "not",
             "=>": "->", "=": "=="}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text. `kind` is number, name, text, symbol or end."""

    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        return self.text if self.kind == "end" else repr(self.text)


def tokens(source: str) -> list[Token]:
    """All tokens of the text, with an `end` token last.

    Raises:
        InvalidExpression: At a character that begins no token.
    """
    if len(source) > MAX_LENGTH:
        raise InvalidExpression(
            f"longer than {MAX_LENGTH} characters",
            place=f"column {MAX_LENGTH + 1}",
            mend="split it into several",
        )
    found: list[Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            place = f"column {at + 1}"
            problem = f"{source[at]!r} is not understood"
            mend = (
                "words stand in double quotes" if source[at] == "'" else "leave it out"
            )
            raise InvalidExpression(problem, place=place, mend=mend)
        kind = match.lastgroup or ""
        if kind != "space":
            text = match.group()
            if kind == "symbol":
                text = _SYNONYMS.get(text, text)
            if kind == "number" and float(text) > MAX_NUMBER:
                raise InvalidExpression(
                    f"{text} is too large a number",
                    place=f"column {at + 1}",
                    mend=f"numbers go up to {MAX_NUMBER:g}",
                )
            found.append(Token(kind, text, at, match.end()))
        at = match.end()
    found.append(Token("end", "the end", at, at))
    return found


class Cursor:
    """Goes through the tokens of one text, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0

    @property
    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def _accept(self, *texts: str) -> Token | None:
        token = self._peek
        if token.text in texts and token.kind in ("symbol", "name"):
            return self._take()
        return None

    def _expect(self, text: str) -> Token:
        return self._accept(text) or self._fail(
            f"expected {text!r}, found {self._peek}", mend=f"add {text!r}"
        )

    def _fail(self, problem: str, token: Token | None = None, *, mend: str) -> NoReturn:
        place = f"column {(token or self._peek).start + 1}"
        raise InvalidExpression(problem, place=place, mend=mend)
