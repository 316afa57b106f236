"""The least that explains what was missed: an or of a few and-groups.

Every and-group is known as the set of runs that it names, so what is left is to choose
among sets. A beam chooses; clingo, where it is installed, chooses better or proves that
nobody can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.rules.evolving.bits.groups import Groups, ones, packed
from forewarn.monitors.rules.evolving.bits.matrix import Clause

MOST_TOGETHER = 3

Ones = NDArray[np.uint8]
_BEAM = 24
_LEAST_SIZE = 2
_CONFLICTS = 20_000  # not seconds: the same input gives the same answer anywhere
_MOST_PROVEN = 5_000


class Cost(NamedTuple):
    """What a hypothesis costs; less is better, the first first.

    Args:
        errors: What should be covered and is not, and what is and should not.
        size: Its literals, and one more for each group.
    """

    errors: int
    size: int


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An or of and-groups.

    Args:
        clauses: The groups, the simplest first.
        cost: What it costs.
        proven: Whether it is known that nothing costs less.
    """

    clauses: tuple[Clause, ...]
    cost: Cost
    proven: bool = False


@dataclass(frozen=True, slots=True)
class _Choices:
    """What may be chosen: groups, and what each covers and violates."""

    groups: Groups
    covers: Ones
    violates: Ones

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return self.groups.sizes + 1

    def kept(self, which: NDArray[np.bool_]) -> _Choices:
        return _Choices(
            self.groups.kept(which), self.covers[which], self.violates[which]
        )

    def tidy(self, numbers: Iterable[int]) -> tuple[Clause, ...]:
        """The clauses of some, the simplest first."""
        return tuple(self.groups.clause(number) for number in sorted(numbers))


def explain(
    groups: Groups, positives: int, negatives: int, prove: bool = True
) -> Hypothesis:
    """The or of at most three groups that covers most positives and fewest negatives.

    Args:
        groups: What may be chosen.
        positives: The runs to cover.
        negatives: The runs to leave alone.
        prove: Whether clingo is asked, if it is installed.
    """
    choices = _choices(groups, positives, negatives)
    pure = choices.kept(choices.violates.sum(axis=1) == 0)
    found = _beam(pure, positives.bit_count())
    if found.cost.errors:
        found = min(_beam(choices, positives.bit_count()), found, key=_by_cost)
    if not prove or find_spec("clingo") is None:
        return found
    # A group that by itself violates more than all that is wrong now cannot help. If
    # nothing is wrong, nor can one so large that no second fits, unless it is enough.
    helps = choices.violates.sum(axis=1) <= found.cost.errors
    if not found.cost.errors:
        helps &= (choices.sizes <= found.cost.size - _LEAST_SIZE - 1) | (
            choices.covers.all(axis=1)
        )
    helpful = choices.kept(helps)
    if not len(helpful):
        return replace(found, proven=True)
    if len(helpful) > _MOST_PROVEN:
        return found
    return _proven(_undominated(helpful), found)


def _by_cost(hypothesis: Hypothesis) -> Cost:
    return hypothesis.cost


def _choices(groups: Groups, positives: int, negatives: int) -> _Choices:
    """The groups that cover more than they violate."""
    worth = groups.kept(groups.counts(positives) > groups.counts(negatives))
    return _Choices(worth, worth.within(positives), worth.within(negatives))


class _Partial(NamedTuple):
    """Some groups together."""

    cost: Cost
    numbers: tuple[int, ...] = ()


def _beam(choices: _Choices, positives: int) -> Hypothesis:
    """Groups added one at a time, the best few combinations carried on."""
    best = _Partial(Cost(positives, 0))
    front = [best]
    sizes = choices.sizes
    covers, violates = packed(choices.covers), packed(choices.violates)
    for _ in range(MOST_TOGETHER if len(sizes) else 0):
        grown: dict[tuple[int, ...], Cost] = {}
        for partial in front:
            covered, violated = (
                np.bitwise_or.reduce(side[list(partial.numbers)], axis=0)
                for side in (covers, violates)
            )
            gain = ones(covers & ~covered) - ones(violates & ~violated)
            for number in _most(gain, sizes):
                cost = Cost(
                    partial.cost.errors - int(gain[number]),
                    partial.cost.size + int(sizes[number]),
                )
                grown[tuple(sorted((*partial.numbers, number)))] = cost
        front = sorted(_Partial(cost, numbers) for numbers, cost in grown.items())
        front = front[:_BEAM]
        if not front:
            break
        best = min(best, front[0])
    return Hypothesis(choices.tidy(best.numbers), best.cost)


def _most(gain: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[int]:
    """Those that gain most; of equal gains the smaller come first, then the simpler."""
    some = np.flatnonzero(gain > 0)
    if len(some) > _BEAM:
        least = np.partition(gain[some], -_BEAM)[-_BEAM]
        some = some[gain[some] >= least]
    order: list[int] = some[np.lexsort((sizes[some], -gain[some]))][:_BEAM].tolist()
    return order


def _undominated(choices: _Choices) -> _Choices:
    """Those that no other replaces: one that covers as much, violates and says less."""
    covers, violates = (
        side.astype(np.float32) for side in (choices.covers, choices.violates)
    )
    sizes = choices.sizes
    as_much = covers @ covers.T >= covers.sum(axis=1)[:, None]
    no_more = violates @ violates.T >= violates.sum(axis=1)[None, :]
    better = as_much & no_more & (sizes[None, :] <= sizes[:, None])
    # Of those that replace each other the first stays.
    better &= ~better.T | np.tri(len(sizes), k=-1, dtype=np.bool_)
    np.fill_diagonal(better, False)
    return choices.kept(~better.any(axis=1))


_PROGRAM = f"""
{{ pick(G) : size(G, _) }} {MOST_TOGETHER}.
covered(R) :- pick(G), covers(G, R).
violated(R) :- pick(G), violates(G, R).
:~ positive(R), not covered(R). [1@2, R]
:~ violated(R). [1@2, R]
:~ pick(G), size(G, N). [N@1, G]
#show pick/1.
"""


def _proven(kept: _Choices, found: Hypothesis) -> Hypothesis:
    """What clingo finds that costs no more, and whether it says that is the least."""
    import clingo

    facts = [f"positive({run})." for run in range(kept.covers.shape[1])]
    facts += [f"size({i},{size})." for i, size in enumerate(kept.sizes.tolist())]
    for name, side in (("covers", kept.covers), ("violates", kept.violates)):
        facts += [f"{name}({i},{run})." for i, run in np.argwhere(side > 0).tolist()]
    bound = ",".join(map(str, found.cost))
    control = clingo.Control(
        [f"--opt-mode=opt,{bound}", f"--solve-limit={_CONFLICTS}", "--warn=none"]
    )
    control.add("base", [], _PROGRAM + "\n".join(facts))
    control.ground([("base", [])])
    best = found

    def take(model: Any) -> None:
        nonlocal best
        cost = Cost(*model.cost)
        if cost < best.cost:
            picked = (atom.arguments[0].number for atom in model.symbols(shown=True))
            best = Hypothesis(kept.tidy(picked), cost)

    result = control.solve(on_model=take)
    return replace(best, proven=bool(result.exhausted))
