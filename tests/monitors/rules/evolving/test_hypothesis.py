"""The least hypothesis, against trying all."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import pytest

from forewarn.monitors.rules.evolving.bits.groups import Groups, and_groups
from forewarn.monitors.rules.evolving.bits.hypothesis import (
    MOST_TOGETHER,
    Cost,
    explain,
)
from forewarn.monitors.rules.evolving.bits.matrix import Matrix
from tests.monitors.rules.evolving.made_up import hidden


def least(groups: Groups, matrix: Matrix) -> Cost:
    """The least cost of any hypothesis, by trying all."""
    several = [(groups.set_of(i), int(groups.sizes[i]) + 1) for i in range(len(groups))]
    best = Cost(matrix.unsafe.bit_count(), 0)
    for count in range(1, MOST_TOGETHER + 1):
        for some in combinations(several, count):
            named = 0
            for runs, _ in some:
                named |= runs
            wrong = (matrix.unsafe & ~named | matrix.safe & named).bit_count()
            best = min(best, Cost(wrong, sum(size for _, size in some)))
    return best


@pytest.mark.needs("clingo")
@pytest.mark.parametrize("flipped", [0.0, 0.15])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_proven_is_least(seed: int, flipped: float) -> None:
    matrix, _ = hidden(seed, predicates=5, runs=18, events=2, flipped=flipped)
    groups = and_groups(matrix, 2)
    found = explain(groups, matrix.unsafe, matrix.safe)
    assert found.proven
    assert found.cost == least(groups, matrix)


@pytest.mark.parametrize("seed", range(4))
def test_a_hidden_rule_is_found(seed: int) -> None:
    matrix, truth = hidden(seed, predicates=12, runs=120, groups=3)
    groups = and_groups(matrix)
    found = explain(groups, matrix.unsafe, matrix.safe, prove=False)
    assert found.cost.errors == 0
    assert found.cost.size <= sum(len(group) + 1 for group in truth)


@pytest.mark.needs("clingo")
def test_the_size_that_is_asked_for_is_proven() -> None:
    matrix, truth = hidden(1, predicates=24, runs=200, events=5, groups=3)
    found = explain(and_groups(matrix), matrix.unsafe, matrix.safe)
    assert found.proven
    assert found.cost.errors == 0
    assert found.cost.size <= sum(len(group) + 1 for group in truth)


def test_nothing_to_explain_is_explained_by_nothing() -> None:
    matrix, _ = hidden(0)
    found = explain(and_groups(matrix), 0, matrix.safe)
    assert found.clauses == ()
    assert found.cost == Cost(0, 0)


def test_without_clingo_there_is_an_answer_and_no_proof() -> None:
    code = (
        "import sys; sys.modules['clingo'] = None\n"
        "from forewarn.monitors.rules.evolving.bits.groups import and_groups\n"
        "from forewarn.monitors.rules.evolving.bits.hypothesis import explain\n"
        "from tests.monitors.rules.evolving.made_up import hidden\n"
        "matrix, _ = hidden(1)\n"
        "found = explain(and_groups(matrix), matrix.unsafe, matrix.safe)\n"
        "print(found.cost.errors, found.proven)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["0", "False"]
