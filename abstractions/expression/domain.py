"""Computes which combinations of truth values several expressions can have.

The constants that a signal is compared with divide its range into cells, and all values
in a cell give the same truth values. Testing every combination of one sample per cell
gives exactly the possible combinations of truth values, without a solver. A comparison
that is not between a signal and a constant is treated as independent, which can only
add combinations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidExpression, TooLarge
from forewarn.abstractions.expression.scalar import compile_test, constant_in
from forewarn.abstractions.expression.tree import (
    OF_TEXT,
    And,
    Compare,
    Expression,
    Implies,
    IsNone,
    Name,
    Not,
    ObjectPredicate,
    Or,
    Text,
    atoms,
)

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


def _with_free(node: Expression) -> Expression:
    """Replaces an independent comparison with a Boolean signal; returns other atoms as
    is.
    """
    return (
        Name(repr(node)) if isinstance(node, Compare) and not _is_simple(node) else node
    )


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
    words = np.zeros((-(-len(nodes) // _WORD), *sizes), np.int64)
    for i, node in enumerate(nodes):
        words[i // _WORD] |= _truths(node, among).astype(np.int64) << i % _WORD
    if len(words) == 1:
        return set(np.unique(words).tolist())
    rows = np.unique(words.reshape(len(words), -1), axis=1).T.tolist()
    return {sum(word << _WORD * i for i, word in enumerate(row)) for row in rows}


def _truths(node: Expression, among: Sequence[Leaf]) -> NDArray[np.bool_]:
    """Returns the truth values for all combinations of samples, with one axis per leaf;
    the axis has length 1 if the expression does not read the leaf.
    """
    match node:
        case Not(operand=operand):
            return ~_truths(operand, among)
        case And(parts=parts):
            return reduce(np.logical_and, [_truths(part, among) for part in parts])
        case Or(parts=parts):
            return reduce(np.logical_or, [_truths(part, among) for part in parts])
        case Implies(left=left, right=right):
            return ~_truths(left, among) | _truths(right, among)
    keys, test = read_by(node), compile_test(_with_free(node))
    read = [leaf for leaf in among if leaf.key in keys]
    names = [leaf.key for leaf in read]
    truths = [
        test(dict(zip(names, point, strict=True)))
        for point in itertools.product(*(leaf.samples for leaf in read))
    ]
    shape = [len(leaf.samples) if leaf.key in keys else 1 for leaf in among]
    return np.array(truths, bool).reshape(shape)


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
