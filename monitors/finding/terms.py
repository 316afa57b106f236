"""What a score may add up: signals, what they did in the last second, and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from forewarn.abstractions.trace import Kept
from forewarn.abstractions.vocabularies.signals import PLAIN, UNITS, named_unit
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.finding.inputs import Family, Feature

Floats = NDArray[np.float64]

SHORT_S, LONG_S = 0.5, 1.0
"""The whiles that are looked back over."""


@dataclass(frozen=True, slots=True)
class Term:
    """A number or condition that a score may have a curve of.

    Args:
        expression: What it is.
        truth: Whether it is a condition.
        unit: What its numbers are written in.
        factor: What they are multiplied with to be in it.
    """

    expression: Expression
    truth: bool = False
    unit: str = ""
    factor: float = 1.0

    @classmethod
    def of(cls, text: str, vocabulary: Vocabulary | None) -> Term:
        """The number that a text says."""
        node = parse_quantity(text, vocabulary)
        return cls(node, False, *_written(node))


def terms(
    found: Sequence[Feature],
    family: Family,
    vocabulary: Vocabulary | None,
    period_s: float,
) -> list[Term]:
    """What the features of a family give to add up."""
    terms: list[Term] = []
    for feature in found:
        if feature.word is not None or feature.truth:
            condition = parse_expression(feature.above(0.5), vocabulary)
            terms.append(Term(condition, truth=True))
            continue
        name = feature.signal
        short, long = (_while(span_s, period_s) for span_s in (SHORT_S, LONG_S))
        texts = [
            name, f"ago({name}, {short})", f"{name} - ago({name}, {short})",
            f"{name} - ago({name}, {long})", f"least({name}, {long})",
            f"most({name}, {long})",
        ]  # fmt: skip
        terms += [Term.of(text, vocabulary) for text in texts]
    known = {feature.signal for feature in found}
    for text in family.pairs:
        term = Term.of(text, vocabulary)
        if known.issuperset(signals_of(term.expression)):
            terms.append(term)
    return terms


def _while(span_s: float, period_s: float) -> str:
    return f"{round(max(1, round(span_s / period_s)) * period_s, 6):g} s"


def _written(node: Expression) -> tuple[str, float]:
    """The unit that cuts are written in, and what the own one is in it."""
    own = unit_of(node) or PLAIN
    named = [each.unit for each in node.walk() if isinstance(each, Name)]
    for name in (*named, *UNITS):
        known = named_unit(name)
        if known.same_kind(own) and (name in named or known.factor == 1):
            return name, float(own.factor / known.factor)
    return "", 1.0


def matrix(terms: Sequence[Term], runs: Sequence[Kept]) -> Floats:
    """A row a frame, a column a term, NaN for none; all runs one after the other."""
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
