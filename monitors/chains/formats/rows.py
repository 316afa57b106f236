"""Functions shared by several readers: numerals, probabilities and valuations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge
from forewarn.monitors.chains.chain import ROW_SUM_TOLERANCE, Chain, row_sum_error

_NUMERAL = re.compile(
    r"[+-]?(?:\d+/\d+|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)", re.ASCII
)
_MAX_LENGTH = 1000
_MAX_BITS = 1600
"""The maximum size of a numerator or denominator in bits, so that every written
fraction is short enough for the reader.
"""


def rational(text: str) -> Fraction:
    """Parses a numeral such as `14/349`, `0.05` or `1e-3` as an exact fraction."""
    if len(text) > _MAX_LENGTH or not _NUMERAL.fullmatch(text):
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise InvalidInput(
            f"{shown!r} is not a number", mend="write it as 0.1, 1/10 or 1e-1"
        )
    try:
        value = Fraction(text)
    except ZeroDivisionError:
        raise InvalidInput(f"{text!r} divides by zero") from None
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        raise InvalidInput(f"{text:.40} is too large or too small a number")
    return value


# Tools print at least ten significant digits, so this is the maximum error of an entry.
_PRINTED = Fraction(1, 10**10)

MAX_LINES = 10_000_000
"""The maximum number of lines; every chain within the size limits needs fewer."""

VALUE = re.compile(r"-?\d{1,18}|true|false", re.ASCII)
Valuation = tuple[tuple[str, int, bool], ...]


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the stripped lines of a text with their numbers, split lazily."""
    start, number = 0, 1
    while start < len(text):
        if number > MAX_LINES:
            raise TooLarge(f"more than {MAX_LINES} lines")
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        yield number, text[start:stop].strip()
        start, number = stop + 1, number + 1


def probability(text: str, source: str, place: str) -> Fraction:
    """Parses an exact probability; raises an error if the text is not one."""
    try:
        value = rational(text)
    except InvalidInput as error:
        raise InvalidModel(
            f"the probability {error.problem}", source=source, place=place
        ) from None
    if not 0 <= value <= 1:
        raise InvalidModel(
            f"the probability {text} is not between 0 and 1", source=source, place=place
        )
    return value


def settled(row: Mapping[int, Fraction], state: str) -> dict[int, Fraction | float]:
    """Normalises a row whose sum differs from 1 only because digits were rounded;
    rejects any other sum.
    """
    total = sum(row.values(), Fraction())
    off = abs(total - 1)
    if off <= ROW_SUM_TOLERANCE:
        return dict(row)
    if off > len(row) * _PRINTED:
        raise row_sum_error(state, float(total))
    return {target: float(p / total) for target, p in row.items()}


def from_valuations(
    valuations: Sequence[Valuation],
) -> tuple[list[str], dict[str, NDArray[np.int64]]]:
    """Returns the names and variables of states that are distinguished by their
    variables.

    If there is only one variable, a state's name is the variable's value.
    """
    texts = [
        [
            (name, ("false", "true")[value] if boolean else str(value))
            for name, value, boolean in valuation
        ]
        for valuation in valuations
    ]
    states = [
        row[0][1] if len(row) == 1 else ",".join(f"{n}={v}" for n, v in row)
        for row in texts
    ]
    variables = {
        name: np.array([valuation[i][1] for valuation in valuations], dtype=np.int64)
        for i, (name, _, _) in enumerate(valuations[0])
    }
    return states, variables


def valuation_texts(chain: Chain) -> list[list[str]]:
    """Returns the values of each state's variables; Booleans are written as words if
    the state's name uses words.
    """
    columns = [values.tolist() for values in chain.variables.values()]
    found: list[list[str]] = []
    for name, *values in zip(chain.states, *columns, strict=True):
        texts = list(map(str, values))
        named = [part.rpartition("=")[2] for part in name.split(",")]
        words = [("false", "true")[v] if v in (0, 1) else "" for v in values]
        if len(named) == len(texts) and all(
            word in pair for word, *pair in zip(named, texts, words, strict=True)
        ):
            texts = named
        found.append(texts)
    return found


def assignment(name: str, text: str) -> tuple[str, int, bool]:
    """Parses a variable's value, such as `3`, `true` or `false`."""
    if text in ("true", "false"):
        return name, int(text == "true"), True
    return name, int(text), False


def printable(text: str) -> str:
    """Returns the name without characters that could end the comment or quotes around
    it.
    """
    return "".join(c if c.isprintable() and c not in '"\\' else "?" for c in text)


def assembled(
    rows: Mapping[int, Mapping[int, Fraction]],
    labels: Mapping[str, set[int]],
    names: Sequence[str],
    variables: Mapping[str, NDArray[np.int64]],
    source: str,
) -> Chain:
    """Creates a chain from rows and labels that another tool has written.

    Other tools add a self-loop to each state labelled `deadlock`; it is dropped here.
    """
    initial = sorted(labels.get("init", ()))
    if len(initial) > 1:
        raise InvalidModel(
            f"the chain has {len(initial)} initial states; at most one is supported",
            source=source,
        )
    stuck = labels.get("deadlock", set())
    try:
        return Chain.from_rows(
            names,
            {
                i: settled(row, names[i])
                for i, row in rows.items()
                if row and not (i in stuck and row.keys() == {i})
            },
            initial=initial[0] if initial else None,
            labels={
                label: frozenset(members)
                for label, members in labels.items()
                if label not in ("init", "deadlock")
            },
            variables=variables,
        )
    except InvalidModel as error:
        raise error.within(source) from None
