"""What a search for predicates may look at: signals by the family of a law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.expression import parse_quantity
from forewarn.abstractions.expression.tree import signals_of
from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.serial import Strict, validated
from forewarn.abstractions.trace import Kept
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.laws.lawbook import Law

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FAR = 1e9
"""Stands for none: beyond every number that is measured."""

MOST_WORDS = 8
"""A signal with more words than these is a name, not a kind."""


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
    """Signals that may tell of a kind of law.

    Args:
        name: For people.
        signals: The signals.
        none_is_low: Those whose none is like little, and not like much.
        pairs: What some of them tell together.
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
    """The families that laws belong to; none outside the vocabulary that has them."""
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
    """The family of all that changes within a run, where nobody named one."""
    signals = (name for name in runs[0].signals if varies(runs, name))
    return Family("every signal", tuple(signals))


def for_scores(
    known: Sequence[Family], runs: Sequence[Kept], vocabulary: Vocabulary | None
) -> Family:
    """What a score may read: these families and what stands in pairs, together."""
    file = _shipped()
    if vocabulary is None or vocabulary.name != file.vocabulary:
        return known[0]
    name = " and ".join(family.name for family in known)
    signals = [signal for family in known for signal in family.signals]
    pairs = (parse_quantity(text, vocabulary) for text in file.pairs)
    paired = [name for node in pairs for name in signals_of(node)]
    wanted = dict.fromkeys([*signals, *paired])
    here = tuple(signal for signal in wanted if signal in runs[0].signals)
    return Family(name, here, frozenset(file.none_is_low), tuple(file.pairs))


def varies(runs: Sequence[Kept], name: str) -> bool:
    """Whether a signal ever changes within a run."""
    return any(
        len({repr(value) for value in run.signals[name].tolist()}) > 1
        for run in runs
        if name in run.signals
    )


@dataclass(frozen=True, slots=True)
class Feature:
    """A number that a split may cut, and how the cut is written.

    Args:
        signal: The signal.
        word: The word that it is compared with; None for a number or truth value.
        truth: Whether it is a truth value.
        low: Whether none is like little.
        unit: What its numbers are in.
    """

    signal: str
    word: str | None = None
    truth: bool = False
    low: bool = False
    unit: str = ""

    def values(self, column: NDArray[Any]) -> Floats:
        """A column as numbers; the signal's none is beyond them all."""
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
        """Says that it is above the cut, none included if that is like much."""
        if self.word is not None:
            return f"{self.signal} == {self.word}"
        if self.truth:
            return self.signal
        if self.low:
            return f"{self.signal} > {self._written(bound)}"
        return f"not ({self.signal} <= {self._written(bound)})"

    def below(self, bound: float) -> str:
        """Says that it is not above the cut."""
        if self.word is not None:
            return f"not ({self.signal} == {self.word})"
        if self.truth:
            return f"not {self.signal}"
        if self.low:
            return f"not ({self.signal} > {self._written(bound)})"
        return f"{self.signal} <= {self._written(bound)}"

    def between(self, low: float, high: float) -> str:
        """Says that it lies above one cut and not above the other."""
        texts = self._written(low), self._written(high)
        return f"{self.signal} > {texts[0]} and {self.signal} <= {texts[1]}"

    def _written(self, bound: float) -> str:
        return f"{bound:g} {self.unit}".rstrip()


def features(
    family: Family, runs: Sequence[Kept], vocabulary: Vocabulary | None
) -> list[Feature]:
    """The features of a family, without what stays the same through every run."""
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
    """A row a frame, a column a feature; all runs one after the other."""
    return np.column_stack(
        [
            np.concatenate([each.values(run.signals[each.signal]) for run in runs])
            for each in found
        ]
    )
