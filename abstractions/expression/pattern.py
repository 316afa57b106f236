"""Regular expressions without backtracking, which match in linear time.

A pattern is compiled to a nondeterministic automaton, which is determinized lazily
while texts are matched. Features that finite automata do not support, such as
backreferences and lookahead, are rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn

from forewarn.abstractions.errors import InvalidExpression

MAX_STATES = 2_000
"""The maximum number of states after expansion; `(a{50}){50}` would have 2,500."""

MAX_DEPTH = 20
_MAX_KNOWN = 20_000

_Accepts = Callable[[str], bool]
_KINDS: dict[str, _Accepts] = {
    "d": str.isdecimal,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_CLAIMS = {"^": "start", "$": "end", "\\b": "border", "\\B": "inside",
           "\\A": "start", "\\Z": "end"}  # fmt: skip
_Piece = tuple[int, int]
"""The first and last state of a part of the automaton."""


class Pattern:
    """A compiled regular expression.

    Args:
        text: The pattern in Python's syntax; a leading `(?i)` makes it
            case-insensitive.

    Raises:
        InvalidExpression: The pattern is malformed or needs backtracking.
    """

    def __init__(self, text: str) -> None:
        self._fold = text.startswith("(?i)")
        self._text, self._at, self._depth = text, 4 * self._fold, 0
        self._takes: list[_Accepts | None] = []
        self._claims: list[str] = []
        self._next: list[list[int]] = []
        self._start, self._final = self._choice()
        if self._at < len(text):
            self._fail(
                "a closing parenthesis has no opening one",
                "write \\) to match a parenthesis",
            )
        self._known: dict[tuple[frozenset[int], str, str], frozenset[int] | None] = {}

    def found_in(self, text: str) -> bool:
        """Whether any part of the text matches the pattern."""
        states: frozenset[int] = frozenset()
        before = ""
        for after in (*(text.casefold() if self._fold else text), ""):
            key = states, before, after
            if key not in self._known:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[key] = self._stepped(*key)
            step = self._known[key]
            if step is None:
                return True
            states, before = step, after
        return False

    def _stepped(
        self, states: frozenset[int], before: str, after: str
    ) -> frozenset[int] | None:
        """The states after the next character; None if the pattern has matched."""
        pending, reached = [*states, self._start], set()
        while pending:
            state = pending.pop()
            if state in reached or not _holds(self._claims[state], before, after):
                continue
            reached.add(state)
            if self._takes[state] is None:
                pending += self._next[state]
        if self._final in reached:
            return None
        return frozenset(
            following
            for state in reached
            if after and (takes := self._takes[state]) is not None and takes(after)
            for following in self._next[state]
        )

    # -- parsing

    def _fail(self, problem: str, mend: str) -> NoReturn:
        place = f"character {self._at + 1} of the pattern {self._text!r:.60}"
        raise InvalidExpression(problem, place=place, mend=mend)

    def _peek(self, *options: str) -> bool:
        return any(self._text.startswith(each, self._at) for each in options)

    def _take(self) -> str:
        if self._at >= len(self._text):
            self._fail("the pattern ends too early", "complete it")
        self._at += 1
        return self._text[self._at - 1]

    def _state(self, takes: _Accepts | None = None, claim: str = "") -> int:
        if len(self._takes) >= MAX_STATES:
            mend = "use fewer repetitions"
            self._fail(f"the pattern has more than {MAX_STATES} states", mend)
        self._takes.append(takes)
        self._claims.append(claim)
        self._next.append([])
        return len(self._takes) - 1

    def _linked(self, *pieces: _Piece) -> _Piece:
        for (_, last), (first, _) in zip(pieces, pieces[1:], strict=False):
            self._next[last].append(first)
        return pieces[0][0], pieces[-1][1]

    def _empty(self) -> _Piece:
        state = self._state()
        return state, state

    def _choice(self) -> _Piece:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"nested more than {MAX_DEPTH} levels deep", "simplify it")
        first, last = self._state(), self._state()
        while True:
            self._linked((first, first), self._sequence(), (last, last))
            if not self._peek("|"):
                self._depth -= 1
                return first, last
            self._take()

    def _sequence(self) -> _Piece:
        pieces = [self._empty()]
        while self._at < len(self._text) and not self._peek("|", ")"):
            pieces.append(self._repeated())
        return self._linked(*pieces)

    def _repeated(self) -> _Piece:
        start = self._at
        piece = self._item()
        least, most = self._times()
        if (least, most) == (1, 1):
            return piece
        end = self._at

        def again() -> _Piece:
            self._at = start
            return self._item()

        pieces = [self._empty(), *(again() for _ in range(least))]
        if most is None:
            first, last = again()
            self._next[last].append(first)
            pieces.append(self._optional((first, last)))
        else:
            pieces += [self._optional(again()) for _ in range(most - least)]
        self._at = end
        return self._linked(*pieces)

    def _optional(self, piece: _Piece) -> _Piece:
        first, last = self._state(), self._state()
        self._next[first].append(last)
        return self._linked((first, first), piece, (last, last))

    def _times(self) -> tuple[int, int | None]:
        """Parses a quantifier; returns the minimum and maximum number of
        repetitions.
        """
        least, most = 1, 1
        simple: dict[str, tuple[int, int | None]]
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self._peek(*simple):
            found = simple[self._take()]
        elif self._peek("{"):
            inside, closed, _ = self._text[self._at + 1 :].partition("}")
            low, comma, high = inside.partition(",")
            if not closed or not low.isdecimal() or (high and not high.isdecimal()):
                self._fail(
                    "a repetition must be written as {2}, {2,} or {2,5}",
                    "write \\{ for {",
                )
            self._at += len(inside) + 2
            found = int(low), (int(high) if high else None) if comma else int(low)
            if max(int(low), int(high or 0)) > MAX_STATES or (
                found[1] is not None and found[1] < found[0]
            ):
                self._fail(f"{{{inside}}} is not a valid repetition", "write {2,5}")
        else:
            return least, most
        if self._peek("?"):  # lazy quantifiers match the same texts
            self._take()
        if self._peek("*", "+", "{"):
            self._fail(
                "a quantifier follows another quantifier", "put parentheses around it"
            )
        return found

    def _item(self) -> _Piece:
        for written, claim in _CLAIMS.items():
            if self._peek(written):
                self._at += len(written)
                state = self._state(claim=claim)
                return state, state
        character = self._take()
        if character == "(":
            if self._peek("?:"):
                self._at += 2
            elif self._peek("?"):
                mend = (
                    "match each text separately and combine the conditions with "
                    "and, not"
                )
                self._fail("only plain groups can be matched in linear time", mend)
            piece = self._choice()
            if not self._peek(")"):
                self._fail("a parenthesis is not closed", "add )")
            self._take()
            return piece
        if character in "*+?{":
            self._at -= 1
            self._fail(f"{character} has nothing to repeat", f"write \\{character}")
        if character == "[":
            takes = self._class()
        elif character == ".":
            takes = "\n".__ne__
        else:
            takes = self._escaped() if character == "\\" else self._equal(character)
        state, last = self._state(takes), self._state()
        self._next[state].append(last)
        return state, last

    def _equal(self, character: str) -> _Accepts:
        return (character.casefold() if self._fold else character).__eq__

    def _escaped(self) -> _Accepts:
        character = self._take()
        if character.casefold() in _KINDS:
            accepts = _KINDS[character.casefold()]
            return accepts if character.islower() else lambda c: not accepts(c)
        if character == "x":
            digits = self._take() + self._take()
            try:
                return self._equal(chr(int(digits, 16)))
            except ValueError:
                self._fail(
                    "\\x must be followed by two hexadecimal digits", "write \\x2f"
                )
        if character in _CONTROLS:
            return _CONTROLS[character].__eq__
        if character.isalnum():
            mend = "references to groups need backtracking; write the text out"
            self._fail(f"\\{character} cannot be matched in linear time", mend)
        return self._equal(character)

    def _class(self) -> _Accepts:
        negated = self._peek("^")
        self._at += negated
        kinds: list[_Accepts] = []
        first = True
        while first or not self._peek("]"):
            first = False
            character = self._take()
            if character == "\\":
                kinds.append(self._escaped())
                continue
            ranged = self._peek("-") and not self._peek("-]")
            if not ranged:
                kinds.append(self._equal(character))
                continue
            self._take()
            high = self._take()
            if high == "\\" or high < character:
                self._fail("a range must be ascending, as in a-z", "write a-z")
            kinds.append(_between(character, high, self._fold))
        self._take()
        return lambda c: any(kind(c) for kind in kinds) is not negated


def _between(low: str, high: str, fold: bool) -> _Accepts:
    if fold:
        return lambda c: low <= c <= high or low <= c.upper() <= high
    return lambda c: low <= c <= high


def _holds(claim: str, before: str, after: str) -> bool:
    """Whether an anchor holds at a position between two characters."""
    match claim:
        case "start":
            return not before
        case "end":
            return not after
        case "border" | "inside":
            word = _KINDS["w"]
            border = (before != "" and word(before)) != (after != "" and word(after))
            return border is (claim == "border")
    return True


@lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    """Compiles a pattern; results are cached."""
    return Pattern(text)
