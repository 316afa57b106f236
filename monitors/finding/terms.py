"""The numbers from which predicates are made: features, and the terms of scores.

A `Family` lists the signals that are relevant to a kind of law. A `Feature` is a number
from one signal, for the splits of a tree. A `Term` of a score may also look back in
time or combine two signals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.encoding import ColumnReader, past_of
from forewarn.abstractions.expression import (
    Expression,
    parse_expression,
    parse_quantity,
)
from forewarn.abstractions.expression.tree import Name, signals_of, unit_of
from forewarn.abstractions.expression.vector import compile_columns, compile_numbers
from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.serial import Strict, validated
from forewarn.abstractions.trace import Kept
from forewarn.abstractions.vocabularies.signals import (
    PLAIN,
    UNITS,
    Danger,
    named_unit,
)
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.laws.lawbook import Law

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FAR = 1e9
"""Replaces `none` as a number; larger than any measured value."""

MOST_WORDS = 8
"""The maximum number of words of a signal that become features."""


class _Family(Strict):
    reads: list[str]
    signals: list[str]


class _FamilyFile(Strict):
    format: Literal["forewarn.families/1"]
    vocabulary: str
    none_is_low: list[str]
    pairs: list[str]
    families: dict[str, _Family]


@dataclass(frozen=True, slots=True)
class Family:
    """The signals that are relevant to a kind of law.

    Args:
        name: A name to display.
        signals: The signals.
        none_is_low: Signals for which `none` is treated as a small value instead of a
            large one.
        pairs: The texts of terms that combine several signals.
    """

    name: str
    signals: tuple[str, ...]
    none_is_low: frozenset[str] = frozenset()
    pairs: tuple[str, ...] = ()


@cache
def _shipped() -> _FamilyFile:
    path = Path(__file__).with_name("families.yaml")
    return validated(_FamilyFile, read_yaml(path), str(path))


def families_of(laws: Sequence[Law], vocabulary: Vocabulary | None) -> list[Family]:
    """Returns the families that the laws belong to; empty if there are none for the
    vocabulary.
    """
    file = _shipped()
    if vocabulary is None or vocabulary.name != file.vocabulary:
        return []
    low = frozenset(file.none_is_low)
    found: dict[str, Family] = {}
    for law in laws:
        of_law = [
            f.reads for f in file.families.values() if set(f.reads) <= set(law.signals)
        ]
        for name, family in file.families.items():
            if of_law and family.reads == of_law[0]:
                found[name] = Family(
                    name, tuple(family.signals), low, tuple(file.pairs)
                )
    return list(found.values())


def every_signal(runs: Sequence[Kept]) -> Family:
    """Returns a family of all signals that change within a run, for laws without a
    defined family.
    """
    signals = (name for name in runs[0].signals if varies(runs, name))
    return Family("every signal", tuple(signals))


def for_scores(
    known: Sequence[Family], runs: Sequence[Kept], vocabulary: Vocabulary | None
) -> Family:
    """Returns a family for a score: all signals of these families, and all pairs."""
    file = _shipped()
    if vocabulary is None or vocabulary.name != file.vocabulary:
        return known[0]
    name = " and ".join(family.name for family in known)
    wanted = score_signals(known, vocabulary)
    here = tuple(signal for signal in wanted if signal in runs[0].signals)
    return Family(name, here, frozenset(file.none_is_low), tuple(file.pairs))


def score_signals(
    known: Sequence[Family], vocabulary: Vocabulary | None
) -> tuple[str, ...]:
    """Returns the signals of these families and of all pairs, without duplicates."""
    nodes = (parse_quantity(text, vocabulary) for text in _shipped().pairs)
    paired = [name for node in nodes for name in signals_of(node)]
    signals = [signal for family in known for signal in family.signals]
    return tuple(dict.fromkeys([*signals, *paired]))


def varies(runs: Sequence[Kept], name: str) -> bool:
    """Whether a signal ever changes within a run."""
    return any(
        len({repr(value) for value in run.signals[name].tolist()}) > 1
        for run in runs
        if name in run.signals
    )


@dataclass(frozen=True, slots=True)
class Feature:
    """A number from a signal that a tree can split on.

    Args:
        signal: The name of the signal.
        word: The word that the signal is compared with; None for a number or Boolean.
        truth: Whether the signal is Boolean.
        low: Whether `none` is treated as a small value.
        unit: The unit of the signal's numbers.
    """

    signal: str
    word: str | None = None
    truth: bool = False
    low: bool = False
    unit: str = ""

    def values(self, column: NDArray[Any]) -> Floats:
        """Converts a column to numbers; `none` becomes larger or smaller than all
        numbers.
        """
        if self.word is not None:
            return np.asarray(column == self.word, np.float64)
        if column.dtype == object:
            absent = -FAR if self.low else FAR
            known = [absent if value is None else float(value) for value in column]
            return np.array(known, np.float64)
        numbers = np.asarray(column, np.float64)
        if self.truth:
            return numbers
        absent = -FAR if self.low else FAR
        return np.where(np.isnan(numbers), absent, numbers)

    def above(self, bound: float) -> str:
        """Returns the condition that the feature is above a bound; true for `none` if
        `none` is treated as large.
        """
        if self.word is not None:
            return f"{self.signal} == {self.word}"
        if self.truth:
            return self.signal
        if self.low:
            return f"{self.signal} > {self._written(bound)}"
        return f"not ({self.signal} <= {self._written(bound)})"

    def below(self, bound: float) -> str:
        """Returns the condition that the feature is not above a bound."""
        if self.word is not None:
            return f"not ({self.signal} == {self.word})"
        if self.truth:
            return f"not {self.signal}"
        if self.low:
            return f"not ({self.signal} > {self._written(bound)})"
        return f"{self.signal} <= {self._written(bound)}"

    def between(self, low: float, high: float) -> str:
        """Returns the condition that `low` < feature <= `high`."""
        texts = self._written(low), self._written(high)
        return f"{self.signal} > {texts[0]} and {self.signal} <= {texts[1]}"

    def _written(self, bound: float) -> str:
        return f"{bound:g} {self.unit}".rstrip()


def features(
    family: Family, runs: Sequence[Kept], vocabulary: Vocabulary | None
) -> list[Feature]:
    """Returns the features of a family, except for signals that are constant in every
    run.
    """
    return [
        feature
        for name in family.signals
        if name in runs[0].signals and varies(runs, name)
        for feature in _features_of(name, family, runs, vocabulary)
    ]


def _features_of(
    name: str, family: Family, runs: Sequence[Kept], vocabulary: Vocabulary | None
) -> Iterator[Feature]:
    values: set[Any] = set()
    for run in runs:
        column = run.signals[name]
        if column.dtype.kind == "f":
            values.add(0.0)
        else:
            values.update(column.tolist())
    values.discard(None)
    words = sorted(value for value in values if isinstance(value, str))
    if words:
        yield from (Feature(name, word) for word in words[:MOST_WORDS])
    elif values and all(isinstance(value, bool) for value in values):
        yield Feature(name, truth=True, low=True)
    elif values:
        declared = vocabulary.signals.get(name) if vocabulary else None
        unit = (declared.unit or "") if declared else ""
        known = unit if unit in ("m", "s", "km/h") else ""
        yield Feature(name, low=name in family.none_is_low, unit=known)


def table(found: Sequence[Feature], runs: Sequence[Kept]) -> Floats:
    """Returns the values of features: one row per frame of all runs, one column per
    feature.
    """
    return np.column_stack(
        [
            np.concatenate([each.values(run.signals[each.signal]) for run in runs])
            for each in found
        ]
    )


SHORT_S, LONG_S = 0.5, 1.0
"""The time spans over which terms look back, in s."""


@dataclass(frozen=True, slots=True)
class Term:
    """A number or condition that a score may depend on through a curve.

    Args:
        expression: The expression of the number or condition.
        truth: Whether the expression is a condition.
        unit: The unit in which bounds are written.
        factor: The factor that converts the number to this unit.
        danger: Whether danger rises or falls as the number rises, if that is known.
    """

    expression: Expression
    truth: bool = False
    unit: str = ""
    factor: float = 1.0
    danger: Danger | None = None

    @classmethod
    def of(
        cls, text: str, vocabulary: Vocabulary | None, danger: Danger | None = None
    ) -> Term:
        """Parses a numeric term."""
        node = parse_quantity(text, vocabulary)
        return cls(node, False, *_written(node), danger)


def terms(
    found: Sequence[Feature],
    family: Family,
    vocabulary: Vocabulary | None,
    period_s: float,
) -> list[Term]:
    """Returns the terms for the features of a family, and the family's pairs."""
    terms: list[Term] = []
    for feature in found:
        if feature.word is not None or feature.truth:
            condition = parse_expression(feature.above(0.5), vocabulary)
            terms.append(Term(condition, truth=True))
            continue
        name = feature.signal
        short, long = (_while(span_s, period_s) for span_s in (SHORT_S, LONG_S))
        declared = vocabulary.signals.get(name) if vocabulary else None
        danger = declared.danger if declared else None
        directions = {
            name: danger, f"ago({name}, {short})": danger,
            f"{name} - ago({name}, {short})": None,
            f"{name} - ago({name}, {long})": None,
            f"least({name}, {long})": danger, f"most({name}, {long})": danger,
        }  # fmt: skip
        terms += [Term.of(text, vocabulary, way) for text, way in directions.items()]
    known = {feature.signal for feature in found}
    for text in family.pairs:
        term = Term.of(text, vocabulary)
        if known.issuperset(signals_of(term.expression)):
            terms.append(term)
    return terms


def _while(span_s: float, period_s: float) -> str:
    return f"{round(max(1, round(span_s / period_s)) * period_s, 6):g} s"


def _written(node: Expression) -> tuple[str, float]:
    """Returns the unit in which bounds are written, and the conversion factor from the
    expression's unit.
    """
    own = unit_of(node) or PLAIN
    named = [each.unit for each in node.walk() if isinstance(each, Name)]
    for name in (*named, *UNITS):
        known = named_unit(name)
        if known.same_kind(own) and (name in named or known.factor == 1):
            return name, float(own.factor / known.factor)
    return "", 1.0


def matrix(terms: Sequence[Term], runs: Sequence[Kept]) -> Floats:
    """Returns the values of terms: one row per frame of all runs, one column per term;
    NaN for `none`.
    """
    reader = ColumnReader(past_of([term.expression for term in terms]))
    names = sorted({name for term in terms for name in signals_of(term.expression)})
    numbers = [
        compile_columns(term.expression)
        if term.truth
        else compile_numbers(term.expression, unit_of(term.expression) or PLAIN)
        for term in terms
    ]
    rows = []
    for run in runs:
        told = reader.told(run.columns(names), run.times())
        row = np.empty((len(run), len(terms)))
        for at, (term, values) in enumerate(zip(terms, numbers, strict=True)):
            row[:, at] = values(told) * term.factor
        rows.append(row)
    return np.concatenate(rows)
