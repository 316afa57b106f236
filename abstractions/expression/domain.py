"""Which truth values several expressions can have together.

Each signal's values fall into finitely many cells between the constants it is
compared with; one sample of each cell stands for all of it. Trying every
combination of samples says exactly which combinations of truth values can occur,
with no solver. Comparisons that are not of a signal with a constant are taken as
free, which only ever admits more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forewarn.abstractions.errors import InvalidExpression, TooLarge
from forewarn.abstractions.expression.scalar import Test, compile_test, constant_in
from forewarn.abstractions.expression.tree import (
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
"""How many combinations of samples one group of signals may have."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A signal, or a comparison taken as free, with samples of all its cells."""

    key: str
    samples: tuple[Any, ...]


def _is_simple(node: Compare) -> bool:
    left, right = node.left, node.right
    return isinstance(left, Name) and (
        isinstance(right, Text) or constant_in(right, left) is not None
    )


def leaves(
    expressions: Iterable[Expression], vocabulary: Vocabulary | None = None
) -> dict[str, Leaf]:
    """Every signal that the expressions read, with samples fine enough for all."""
    bounds: dict[str, set[float]] = {}
    words: dict[str, set[str]] = {}
    truths: set[str] = set()
    free: set[str] = set()
    for expression in expressions:
        for node in atoms(expression):
            match node:
                case Compare(left=Name(name=name), right=Text(value=value)):
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
            f"{name} is compared with the word {min(words[name])!r} and used otherwise",
            mend="compare it with words alone, or give its vocabulary",
        )
    for name in bounds.keys() & truths:
        bounds[name].add(0.0)  # as a truth value, 0 alone is false
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
        # A word that no expression names stands for all other words.
        return (*samples, *sorted(words), "")
    low = -math.inf if declared is None or declared.low is None else declared.low
    high = math.inf if declared is None or declared.high is None else declared.high
    ordered = sorted(bounds) or [0.0]
    points = [math.nextafter(ordered[0], -math.inf)]
    for bound in ordered:
        points += [bound, math.nextafter(bound, math.inf)]
    samples += [min(max(point, low), high) for point in points]
    return tuple(dict.fromkeys(samples))


def compile_over(node: Expression) -> Test:
    """The test over leaf samples: free comparisons are looked up, not computed."""
    return compile_test(_with_free(node))


def _with_free(node: Expression) -> Expression:
    match node:
        case Not(operand=operand):
            return Not(_with_free(operand))
        case And(parts=parts):
            return And(tuple(map(_with_free, parts)))
        case Or(parts=parts):
            return Or(tuple(map(_with_free, parts)))
        case Implies(left=left, right=right):
            return Implies(_with_free(left), _with_free(right))
        case Compare() if not _is_simple(node):
            return Name(repr(node))
    return node


def read_by(node: Expression) -> frozenset[str]:
    """The keys of the leaves that the expression reads."""
    return frozenset(leaves([node]))


def combinations(nodes: Sequence[Expression], known: Mapping[str, Leaf]) -> set[int]:
    """The bit masks that the expressions can have together; bit i is expression i.

    Args:
        nodes: The expressions.
        known: The leaves of these and maybe of others.

    Raises:
        TooLarge: When the leaves have more combinations than the limit.
    """
    tests = [compile_over(node) for node in nodes]
    among = [known[key] for key in sorted(frozenset().union(*map(read_by, nodes)))]
    size = math.prod(len(leaf.samples) for leaf in among)
    if size > MAX_COMBINATIONS:
        names = ", ".join(leaf.key for leaf in among)
        raise TooLarge(
            f"{size} combinations of {names} exceed the limit of {MAX_COMBINATIONS}",
            mend="split the predicate, or compare these signals with fewer constants",
        )
    found: set[int] = set()
    keys = [leaf.key for leaf in among]
    for point in itertools.product(*(leaf.samples for leaf in among)):
        values = dict(zip(keys, point, strict=True))
        mask = 0
        for i, test in enumerate(tests):
            mask |= test(values) << i
        found.add(mask)
    return found


def components(reads: Sequence[frozenset[str]]) -> list[list[int]]:
    """Groups of expressions that share signals, in the order of their first member."""
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
