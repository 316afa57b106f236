"""Elimination by layers against the plain system of every pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from forewarn.monitors.chains.absorption import reached
from forewarn.monitors.risk import reaching as solving
from forewarn.monitors.risk.reaching import plan_elimination
from tests.monitors.risk.cases import Table, monitors, plainly, random_matrix, reaching


def countdown(steps: int) -> Table:
    """Bounded response; the letters: nothing, the trigger, the response."""
    last = steps + 1
    rows = [[i - 1 or last, i - 1 or last, 0] for i in range(1, steps + 1)]
    return [[0, steps, 0], *rows, [last] * 3]


def solved(table: Table, matrix: np.ndarray, column: np.ndarray) -> np.ndarray:
    plan = plan_elimination(table, len(table) - 1)
    after = np.array(table)[:, column]
    return solving._solve_layers(lambda v: v @ matrix.T, after, len(table) - 1, plan)


# -- the plan -------------------------------------------------------------------------


@given(monitors(12))
def test_a_plan_takes_each_live_state_after_what_it_refers_to(table: Table) -> None:
    violated = len(table) - 1
    plan = plan_elimination(table, violated)
    edges = np.zeros((len(table), len(table)), dtype=bool)
    for q, row in enumerate(table):
        edges[q, row] = True
    reaches = reaching(edges, np.arange(len(table)) == violated)
    reaches[violated] = False
    assert plan.live.tolist() == reaches.tolist()
    levels = plan.levels
    taken = [*plan.unknowns, *sum(levels, [])]
    assert sorted(taken) == np.flatnonzero(reaches).tolist()
    assert all(levels)
    for i, level in enumerate(levels):
        earlier = {violated, *np.flatnonzero(~reaches).tolist(), *plan.unknowns}
        earlier.update(sum(levels[:i], []))
        assert all(set(table[q]) <= earlier for q in level)
        # Nothing could have stood a level lower.
        before = earlier - set(levels[i - 1] if i else ())
        assert not i or all(set(table[q]) - before for q in level)


def test_of_a_bounded_response_idle_alone_is_unknown() -> None:
    plan = plan_elimination(countdown(3), 4)
    assert plan.unknowns == [0] and plan.levels == [[1], [2], [3]]


def test_the_most_referenced_state_is_the_first_unknown() -> None:
    # All refer to 2, and without it no cycle is left.
    plan = plan_elimination([[2, 3], [0, 2], [1, 2], [3, 3]], 3)
    assert plan.unknowns == [2]
    assert plan.levels == [[0], [1]]


# -- the layers -----------------------------------------------------------------------


# Many small monitors have no unknowns, so they leave nothing to solve.
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(monitors(), st.integers(1, 4), st.integers(0, 2**32))
def test_layered_elimination_equals_the_plain_solution(
    table: Table, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = random_matrix(rng, n)
    column = np.unique(rng.integers(0, len(table[0]), n), return_inverse=True)[1]
    used = np.unique(column)
    table = [[row[u] for u in used] for row in table]
    assume(plan_elimination(table, len(table) - 1).unknowns)
    values = solved(table, matrix, column)
    assert values == pytest.approx(plainly(table, matrix, column), abs=1e-9)
    assert values.min() >= 0 and values.max() <= 1


@pytest.mark.parametrize("steps", range(1, 20))
def test_a_countdown_of_any_length_is_solved(steps: int) -> None:
    rng = np.random.default_rng(steps)
    matrix, column = random_matrix(rng, 5, 0.0), np.array([0, 1, 2, 0, 2])
    # The last state answers for ever, or else all would be violated in the end.
    matrix[4] = np.eye(5)[4]
    table = countdown(steps)
    values = solved(table, matrix, column)
    assert values == pytest.approx(plainly(table, matrix, column), rel=1e-9)
    assert 0 < values[steps, 0] < 0.999


def test_a_long_countdown_does_not_underflow_into_certainty() -> None:
    """0.3^1000 is below the smallest double, yet idle returns until it happens."""
    matrix = np.array([[0.3, 0.7], [0.5, 0.5]])
    values = solved(countdown(1000), matrix, np.array([1, 2]))
    assert values[0].tolist() == [1, 1]


# -- the last system ------------------------------------------------------------------


def absorbed(*rows: list[float]) -> list[float]:
    """The chances of the exit in the second last column."""
    system = np.array(rows)
    source, target = np.nonzero(system)
    weight = system[source, target]
    chances, settled = reached(source, target, weight, len(system))
    assert settled.tolist() == [chance in (0, 1) for chance in chances.tolist()]
    return chances.tolist()


def test_probabilities_of_0_and_1_are_exact() -> None:
    assert absorbed([0.7, 0.1, 0.2, 0.0], [0.3, 0.0, 0.7, 0.0]) == [1, 1]
    assert absorbed([0.7, 0.1, 0.0, 0.2], [0.3, 0.7, 0.0, 0.0]) == [0, 0]
    # A loop that is never left reaches nothing, and what may enter it may miss.
    assert absorbed([1.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0]) == [0, 0.5]
    assert absorbed([0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 1.0, 0.0]) == [1, 1]
    mixed: Any = absorbed([0.5, 0.25, 0.0, 0.25], [0.0, 0.5, 0.5, 0.0])
    assert mixed == [0.5, 1]


def test_no_digits_are_lost_where_nearly_everything_stays() -> None:
    tiny = 1e-14
    stays = [1.0, 0.0, tiny, 2 * tiny], [0.0, 0.5, 0.0, 0.5]
    assert absorbed(*stays) == pytest.approx([1 / 3, 0], rel=1e-12)
    back = [1.0, tiny, tiny, 0.0], [0.5, 0.0, 0.25, 0.25]
    assert absorbed(*back) == pytest.approx([5 / 6, 2 / 3], rel=1e-12)
