"""Computes which combinations of truth values several expressions can have.

The constants that a signal is compared with divide its range into cells, and all values
in a cell give the same truth values. Testing every combination of one sample per cell
gives exactly the possible combinations of truth values, without a solver. A comparison
that is not between a signal and a constant is treated as independent, which can only
add combinations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forewarn.abstractions.errors import InvalidExpression, TooLarge
from forewarn.abstractions.expression.scalar import Closure, constant_in
from forewarn.abstractions.expression.tree import (
    OF_TEXT,
    Compare,
    Expression,
    IsNone,
    Name,
    ObjectPredicate,
    Text,
    atoms,
)
from forewarn.abstractions.expression.vector import ColumnCompiler

if TYPE_CHECKING:
    from forewarn.abstractions.vocabularies.vocabulary import Vocabulary

MAX_COMBINATIONS = 500_000
"""The maximum number of combinations of samples for a group of signals."""

_WORD = 62
"""The number of truth values that are packed into one int64."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A signal or an independent comparison, with one sample for each cell."""

    key: str
    samples: tuple[Any, ...]


def _is_simple(node: Compare) -> bool:
    left, right = node.left, node.right
    return (
        isinstance(left, Name)
        and node.operator not in OF_TEXT
        and (isinstance(right, Text) or constant_in(right, left) is not None)
    )


def leaves(
    expressions: Iterable[Expression], vocabulary: Vocabulary | None = None
) -> dict[str, Leaf]:
    """Returns the signals and independent comparisons in the expressions, with their
    samples.
    """
    bounds: dict[str, set[float]] = {}
    words: dict[str, set[str]] = {}
    truths: set[str] = set()
    free: set[str] = set()
    for expression in expressions:
        for node in atoms(expression):
            match node:
                case Compare(left=Name(name=name), right=Text(value=value)) if (
                    _is_simple(node)
                ):
                    words.setdefault(name, set()).add(value)
                case Compare(left=Name(name=name) as left, right=right) if _is_simple(
                    node
                ):
                    bound = constant_in(right, left)
                    bounds.setdefault(name, set()).add(bound or 0.0)
                case Compare():
                    free.add(repr(node))
                case IsNone(operand=Name(name=name)):
                    bounds.setdefault(name, set())
                case Name() | ObjectPredicate():
                    truths.add(repr(node))
    for name in words.keys() & (truths | {name for name in bounds if bounds[name]}):
        raise InvalidExpression(
            f"{name} is compared with the text {min(words[name])!r}, but used as "
            "a number or a Boolean elsewhere",
            mend="compare it with values of one type",
        )
    for name in bounds.keys() & truths:
        bounds[name].add(0.0)  # as a Boolean, only 0 is false
    found = {key: Leaf(key, (False, True)) for key in truths | free}
    for name in bounds.keys() | words.keys():
        samples = _samples(name, bounds.get(name, set()), words.get(name), vocabulary)
        found[name] = Leaf(name, samples)
    return found


def _samples(
    name: str,
    bounds: set[float],
    words: set[str] | None,
    vocabulary: Vocabulary | None,
) -> tuple[Any, ...]:
    declared = vocabulary.signals.get(name) if vocabulary else None
    samples: list[Any] = [None] if declared is None or declared.may_be_none else []
    if declared and declared.values:
        return (*samples, *declared.values)
    if declared and declared.type == "bool":
        return (*samples, False, True)
    if words is not None:
        # The empty word represents all words that no expression names.
        return (*samples, *sorted(words), "")
    low = -math.inf if declared is None or declared.low is None else declared.low
    high = math.inf if declared is None or declared.high is None else declared.high
    ordered = sorted(bounds) or [0.0]
    points = [math.nextafter(ordered[0], -math.inf)]
    for bound in ordered:
        points += [bound, math.nextafter(bound, math.inf)]
    samples += [min(max(point, low), high) for point in points]
    return tuple(dict.fromkeys(samples))


class _CellCompiler(ColumnCompiler):
    """Reads an independent comparison as a Boolean signal."""

    def test(self, node: Expression) -> Closure:
        if isinstance(node, Compare) and not _is_simple(node):
            return self.truth(repr(node))
        return super().test(node)


def read_by(node: Expression) -> frozenset[str]:
    """Returns the keys of the leaves that the expression reads."""
    return frozenset(leaves([node]))


def combinations(nodes: Sequence[Expression], known: Mapping[str, Leaf]) -> set[int]:
    """Returns all possible combinations of truth values, as masks: bit i is the truth
    of `nodes[i]`.

    Args:
        known: The leaves of these expressions; other leaves are ignored.

    Raises:
        TooLarge: There are too many combinations of samples.
    """
    among = [known[key] for key in sorted(frozenset().union(*map(read_by, nodes)))]
    sizes = [len(leaf.samples) for leaf in among]
    if math.prod(sizes) > MAX_COMBINATIONS:
        names = ", ".join(leaf.key for leaf in among)
        raise TooLarge(
            f"{math.prod(sizes)} combinations of values of {names} exceed the limit of"
            f" {MAX_COMBINATIONS}",
            mend="split the predicate, or compare these signals with fewer constants",
        )
    # One axis per leaf, so that an expression is evaluated only on the leaves it reads.
    axes = np.ix_(*(np.array(leaf.samples, object) for leaf in among))
    samples = dict(zip((leaf.key for leaf in among), axes, strict=True))
    words = np.zeros((-(-len(nodes) // _WORD), *sizes), np.int64)
    for i, node in enumerate(nodes):
        truths = _CellCompiler().test(node)(samples)
        words[i // _WORD] |= truths.astype(np.int64) << i % _WORD
    if len(words) == 1:
        return set(np.unique(words).tolist())
    rows = np.unique(words.reshape(len(words), -1), axis=1).T.tolist()
    return {sum(word << _WORD * i for i, word in enumerate(row)) for row in rows}


def components(reads: Sequence[frozenset[str]]) -> list[list[int]]:
    """Returns the connected components of expressions that share signals, as lists of
    indices, ordered by their first member.
    """
    groups: list[tuple[set[str], list[int]]] = []
    for i, keys in enumerate(reads):
        merged_keys, merged = set(keys), [i]
        apart: list[tuple[set[str], list[int]]] = []
        for group_keys, members in groups:
            if group_keys & keys:
                merged_keys |= group_keys
                merged = members + merged
            else:
                apart.append((group_keys, members))
        groups = [*apart, (merged_keys, sorted(merged))]
    return sorted((members for _, members in groups), key=lambda m: m[0])
