"""The semantics of laws: three-valued evaluation of random laws on every prefix.

A law is a tree of tuples, which is evaluated on many words at once: 0 is false, 2 is
true, and 1 is undecided, because it depends on the rest of the word. The evaluation
uses neither progression nor automata.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.monitor import Monitor, prefix_statuses, scan

Law = tuple[Any, ...]
Words = NDArray[np.int64]
"""Letters by position and word; bit i is set if proposition i is true."""
Truth = NDArray[np.int8]

EVER = 10**6
WORDS = {
    "G": "always", "F": "eventually", "O": "once", "H": "historically",
    "U": "until", "S": "since",
}  # fmt: skip
PROPOSITIONS = ("a", "b")


def text(law: Law) -> str:
    """Returns the law as a formula in text form."""
    match law:
        case ("atom", name):
            return str(name)
        case ("constant", value):
            return "true" if value else "false"
        case ("not", inner):
            return f"not ({text(inner)})"
        case ("next", inner):
            return f"next ({text(inner)})"
        case ("and" | "or" | "->" as word, left, right):
            return f"(({text(left)}) {word} ({text(right)}))"
        case (kind, low, high, *parts):
            within = f"[{low}, {high} steps]" if high < EVER else f"[{low} steps,]"
            word = WORDS[kind] + ("" if (low, high) == (0, EVER) else within)
            if len(parts) == 1:
                return f"{word} ({text(parts[0])})"
            return f"(({text(parts[0])}) {word} ({text(parts[1])}))"
    raise AssertionError(law)


def horizon(law: Law) -> int:
    """Returns how many later letters may matter; `low` plus 2 for an unbounded part."""
    match law:
        case ("atom" | "constant", _):
            return 0
        case ("next", inner):
            return 1 + horizon(inner)
        case ("not", inner):
            return horizon(inner)
        case ("and" | "or" | "->", left, right):
            return max(horizon(left), horizon(right))
        case ("G" | "F" | "U", low, high, *parts):
            reach = high if high < EVER else low + 2
            return int(reach) + max(map(horizon, parts))
        case (_, _, _, *parts):
            return max(map(horizon, parts))
    raise AssertionError(law)


def memory(law: Law) -> int:
    """Returns how many earlier letters may matter, not counting unbounded parts."""
    inner = max((memory(part) for part in law if isinstance(part, tuple)), default=0)
    if law[0] in ("O", "H", "S"):
        low, high = law[1:3]
        return inner + int(high if high < EVER else low)
    return inner


def obligations(law: Law) -> list[tuple[bool, Law]]:
    """Splits a law into formulas for every letter (True) and for the first letter."""
    match law:
        case ("and", left, right):
            return obligations(left) + obligations(right)
        case ("G", 0, high, inner) if high == EVER:
            return [(True, inner)]
        case ("not", ("not", inner)):
            return obligations(inner)
        case ("not", ("or", left, right)):
            return obligations(("not", left)) + obligations(("not", right))
        case ("not", ("->", left, right)):
            return obligations(left) + obligations(("not", right))
        case ("not", ("F", low, high, inner)):
            return obligations(("G", low, high, ("not", inner)))
    return [(False, law)]


def truth(law: Law, words: Words, found: dict[int, Truth]) -> Truth:
    """Returns the value of a law at each position of each word."""
    if id(law) not in found:
        found[id(law)] = _truth(law, words, found)
    return found[id(law)]


def _truth(law: Law, words: Words, found: dict[int, Truth]) -> Truth:
    shape = words.shape

    def of(inner: Law) -> Truth:
        return truth(inner, words, found)

    match law:
        case ("atom", name):
            return (2 * (words >> PROPOSITIONS.index(name) & 1)).astype(np.int8)
        case ("constant", value):
            return np.full(shape, 2 * value, np.int8)
        case ("not", inner):
            return (2 - of(inner)).astype(np.int8)
        case ("and", left, right):
            return np.minimum(of(left), of(right))
        case ("or", left, right):
            return np.maximum(of(left), of(right))
        case ("->", left, right):
            return np.maximum(2 - of(left), of(right)).astype(np.int8)
        case ("next", inner):
            return np.vstack([of(inner)[1:], np.ones_like(of(inner)[:1])])
        case ("G", low, high, inner):
            return (2 - _until(low, high, None, 2 - of(inner))).astype(np.int8)
        case ("F", low, high, inner):
            return _until(low, high, None, of(inner))
        case ("U", low, high, left, right):
            return _until(low, high, of(left), of(right))
        case ("H", low, high, inner):
            return (2 - _since(low, high, None, 2 - of(inner))).astype(np.int8)
        case ("O", low, high, inner):
            return _since(low, high, None, of(inner))
        case ("S", low, high, left, right):
            return _since(low, high, of(left), of(right))
    raise AssertionError(law)


def _until(low: int, high: int, left: Truth | None, right: Truth) -> Truth:
    found = np.empty_like(right)
    for at in range(len(right)):
        kept = np.full(right.shape[1], 2, np.int8)
        value = np.zeros(right.shape[1], np.int8)
        for moment in range(at, min(at + high + 1, len(right))):
            if moment >= at + low:
                value = np.maximum(value, np.minimum(kept, right[moment]))
            if left is not None:
                kept = np.minimum(kept, left[moment])
        if at + high >= len(right):
            value = np.maximum(value, np.minimum(kept, 1))
        found[at] = value
    return found


def _since(low: int, high: int, left: Truth | None, right: Truth) -> Truth:
    found = np.empty_like(right)
    for at in range(len(right)):
        kept = np.full(right.shape[1], 2, np.int8)
        value = np.zeros(right.shape[1], np.int8)
        for moment in range(at, max(at - high, 0) - 1, -1):
            if moment <= at - low:
                value = np.maximum(value, np.minimum(kept, right[moment]))
            if left is not None:
                kept = np.minimum(kept, left[moment])
        found[at] = value
    return found


@cache
def continuations(length: int) -> Words:
    """Returns all words of a length, by position and word."""
    letters = 2 ** len(PROPOSITIONS)
    numbers = np.arange(letters**length)
    places = letters ** np.arange(length)[:, None]
    return np.asarray(numbers // places % letters, np.int64)


def read(law: Law, word: list[int]) -> list[int]:
    """Returns the positions at which a word breaks a law, by trying all continuations.

    After a violation, the law is evaluated from the next letter on. The continuations
    are long enough to decide all pending obligations.
    """
    depth = horizon(law) + memory(law) + 1
    parts, beyond = obligations(law), continuations(depth)
    violations: list[int] = []
    begin = 0
    for step in range(len(word)):
        seen = np.array(word[begin : step + 1])[:, None]
        head = np.broadcast_to(seen, (len(seen), beyond.shape[1]))
        words = np.vstack([head, beyond])
        broken = np.zeros(words.shape, bool)
        found: dict[int, Truth] = {}
        for always, part in parts:
            value = truth(part, words, found) == 0
            if always:
                broken |= value
            else:
                broken[0] |= value[0]
        if broken.any(axis=0).all():
            violations.append(step)
            begin = step + 1
    return violations


class Laws:
    """Generates random laws whose violations are visible in a finite prefix."""

    def __init__(self, seed: int, deepest: int = 4) -> None:
        self.rng = random.Random(seed)
        self._deepest = deepest

    def __iter__(self) -> Iterator[tuple[Law, Automaton]]:
        while True:
            law = self._law()
            if horizon(law) + memory(law) > self._deepest:
                continue
            try:
                yield law, compile_law(parse_formula(text(law)), max_states=400)
            except InvalidInput:
                continue

    def _law(self) -> Law:
        rng = self.rng
        body = self.future(rng.choice([1, 2, 2, 3]), True)
        always = ("G", 0, EVER, body)
        shape = rng.random()
        if shape < 0.5:
            return always
        if shape < 0.6:
            return ("not", ("F", 0, EVER, self.future(rng.choice([1, 2]), False)))
        if shape < 0.8:
            return ("and", always, ("G", 0, EVER, self.future(2, True)))
        if shape < 0.9:
            return ("and", always, self.future(2, True))
        return body

    def _proposition(self, depth: int = 1) -> Law:
        rng, kind = self.rng, self.rng.random()
        if depth == 0 or kind < 0.6:
            return ("atom", rng.choice(PROPOSITIONS))
        if kind < 0.64:
            return ("constant", rng.random() < 0.5)
        if kind < 0.8:
            return ("not", self._proposition(depth - 1))
        two = (self._proposition(depth - 1), self._proposition(depth - 1))
        return (rng.choice(["and", "or"]), *two)

    def _interval(self, unbounded: float) -> tuple[int, int]:
        low = self.rng.choice([0, 0, 0, 1, 2])
        if self.rng.random() < unbounded:
            return low, EVER
        return low, self.rng.randint(max(low, 1), 3)

    def past(self, depth: int) -> Law:
        """Returns a random past formula."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            return self._proposition()
        kind = rng.choice(["O", "H", "S", "O", "H", "S", "not", "and", "or", "->"])
        if kind == "not":
            return ("not", self.past(depth - 1))
        if kind in ("O", "H"):
            return (kind, *self._interval(0.35), self.past(depth - 1))
        two = (self.past(depth - 1), self.past(depth - 1))
        return (kind, *self._interval(0.35), *two) if kind == "S" else (kind, *two)

    def future(self, depth: int, positive: bool, unbounded: float = 0.12) -> Law:
        """Returns a random future formula, whose violations have finite prefixes."""
        rng, kind = self.rng, self.rng.random()
        if depth == 0 or kind < 0.15:
            return self._proposition()
        if kind < 0.27:
            return self.past(2)

        def inner(sign: bool = positive) -> Law:
            return self.future(depth - 1, sign, unbounded)

        kind_of = rng.choice(
            ["G", "F", "U", "next", "not", "and", "or", "->", "F", "G"]
        )
        match kind_of:
            case "not":
                return ("not", inner(not positive))
            case "next":
                return ("next", inner())
            case "->":
                return ("->", inner(not positive), inner())
            case "and" | "or":
                return (kind_of, inner(), inner())
            case "U":
                ends = self._interval(0.0 if positive else unbounded)
                return ("U", *ends, inner(), inner())
        ever = unbounded if (kind_of == "G") == positive else 0.0
        return (kind_of, *self._interval(ever), inner())


def disagreements(seed: int, pairs: int) -> Iterator[str]:
    """Runs monitors on pairs of a law and a trace; yields the differences found."""
    laws = Laws(seed)
    rng, source, done = laws.rng, iter(laws), 0
    while done < pairs:
        law, automaton = next(source)
        for _ in range(min(10, pairs - done)):
            word = _word(rng)
            done += 1
            expected = read(law, word)
            if difference := _difference(automaton, word, expected):
                yield f"{text(law)} on {word}: {difference}"


def _word(rng: random.Random) -> list[int]:
    length = rng.randint(2, 8)
    word: list[int] = []
    longest = rng.choice([1, 4])
    while len(word) < length:
        word += [rng.randrange(2 ** len(PROPOSITIONS))] * rng.randint(1, longest)
    return word[:length]


def _difference(automaton: Automaton, word: list[int], expected: list[int]) -> str:
    monitor = Monitor(automaton)
    frames = [
        {name: bool(letter >> i & 1) for i, name in enumerate(PROPOSITIONS)}
        for letter in word
    ]
    statuses = tuple(monitor.step(frame).status for frame in frames)
    found = tuple((v.step, v.since) for v in monitor.violations)
    if [step for step, _ in found] != expected:
        return f"violations {found}, not at {expected}"
    if [i for i, status in enumerate(statuses) if status == "violated"] != expected:
        return f"statuses {statuses}, not violated at {expected}"
    letters = np.array([monitor._letter(frame) for frame in frames])
    whole = scan(automaton, letters)
    if tuple((v.step, v.since) for v in whole.violations) != found:
        return f"scan finds {whole.violations}"
    if whole.status != ("violated" if found else statuses[-1]):
        return f"scan says {whole.status}"
    final = [*statuses]
    if found:
        first = found[0][0]
        final[first:] = ["violated"] * (len(word) - first)
    if prefix_statuses(automaton, letters.tolist()) != final:
        return "the statuses of its prefixes differ"
    return ""
