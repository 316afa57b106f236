"""Functions shared by several readers: numerals, probabilities and valuations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge, naming
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


def value_of(text: str) -> int | bool:
    """Parses a variable's value, such as `3`, `true` or `false`."""
    return text == "true" if text in ("true", "false") else int(text)


def printable(text: str) -> str:
    """Returns the name without characters that could end the comment or quotes around
    it.
    """
    return "".join(c if c.isprintable() and c not in '"\\' else "?" for c in text)


@dataclass(frozen=True, slots=True)
class ForeignChain:
    """A chain that another tool has written or built, with numbers for states.

    Args:
        n: The number of states.
        rows: The probabilities of each state's successors.
        labels: The states of each label, including `init` and `deadlock`.
        values: Each variable's values in all states.
    """

    n: int
    rows: Mapping[int, Mapping[int, Fraction]]
    labels: Mapping[str, set[int]] = field(default_factory=dict)
    values: Mapping[str, Sequence[int | bool]] = field(default_factory=dict)

    def chain(self, source: str, names: Sequence[str] | None = None) -> Chain:
        """Returns the chain; by default, its states are named by their variables.

        Other tools add a self-loop to each state labelled `deadlock`; it is dropped
        here.
        """
        names = self._names() if names is None else names
        initial = sorted(self.labels.get("init", ()))
        if len(initial) > 1:
            raise InvalidModel(
                f"the chain has {len(initial)} initial states; at most one is "
                "supported",
                source=source,
            )
        stuck = self.labels.get("deadlock", set())
        with naming(source):
            return Chain.from_rows(
                names,
                {
                    i: settled(row, names[i])
                    for i, row in self.rows.items()
                    if row and not (i in stuck and row.keys() == {i})
                },
                initial=initial[0] if initial else None,
                labels={
                    label: frozenset(members)
                    for label, members in self.labels.items()
                    if label not in ("init", "deadlock")
                },
                variables={
                    name: np.array(values, dtype=np.int64)
                    for name, values in self.values.items()
                },
            )

    def _names(self) -> list[str]:
        """Returns the value of the only variable, or `x=0,b=true`, or the number."""
        columns = [
            [str(value).lower() for value in values] for values in self.values.values()
        ]
        if len(columns) < 2:
            return columns[0] if columns else [str(i) for i in range(self.n)]
        return [
            ",".join(f"{n}={value}" for n, value in zip(self.values, row, strict=True))
            for row in zip(*columns, strict=True)
        ]
