"""Elimination by layers against the plain system of every pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.risk import reaching as solving
from forewarn.monitors.risk.reaching import (
    BELOW,
    FLOOR,
    Countdown,
    Layers,
    Plan,
    plan_elimination,
)
from tests.monitors.risk.cases import Table, monitors, plainly, random_matrix, reaching


def countdown(steps: int) -> Table:
    """Bounded response; the letters: nothing, the trigger, the response."""
    last = steps + 1
    rows = [[i - 1 or last, i - 1 or last, 0] for i in range(1, steps + 1)]
    return [[0, steps, 0], *rows, [last] * 3]


def solved(table: Table, matrix: np.ndarray, column: np.ndarray) -> np.ndarray:
    plan = plan_elimination(table, len(table) - 1)
    return Layers(plan, matrix, column).solve()


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
    done = {violated, *np.flatnonzero(~reaches).tolist(), *plan.unknowns}
    taken = [*plan.unknowns, *(q for run in plan.runs for q in run.states)]
    assert sorted(taken) == np.flatnonzero(reaches).tolist()
    for run in plan.runs:
        below = run.base
        for q in run.states:
            assert [below if r == BELOW else r for r in run.pattern] == table[q]
            assert below not in run.pattern
            assert set(table[q]) <= done
            done.add(q)
            below = q
    if not plan.unknowns:
        levels = [level.tolist() for level in plan.levels()]
        assert sorted(sum(levels, [])) == sorted(taken)
        assert all(levels)
        for i, level in enumerate(levels):
            earlier = {violated, *np.flatnonzero(~reaches).tolist()}
            earlier.update(sum(levels[:i], []))
            assert all(set(table[q]) <= earlier for q in level)
            # Nothing could have stood a level lower.
            before = earlier - set(levels[i - 1] if i else ())
            assert not i or all(set(table[q]) - before for q in level)


def test_of_a_bounded_response_idle_alone_is_unknown() -> None:
    plan = plan_elimination(countdown(3), 4)
    assert plan.unknowns == [0] and plan.is_short
    assert plan.runs == [Countdown([1, 2, 3], (BELOW, BELOW, 0), base=4)]


def test_what_most_refer_to_is_unknown_first() -> None:
    # All refer to 2, and without it no cycle is left.
    plan = plan_elimination([[2, 3], [0, 2], [1, 2], [3, 3]], 3)
    assert plan.unknowns == [2]
    assert [run.states for run in plan.runs] == [[0], [1]]


def test_a_run_ends_where_another_state_refers_into_it() -> None:
    # 0 and 1 count down to 4, but 2 refers to 0 as well.
    table = [[4, 3], [0, 3], [0, 3], [3, 3], [4, 4]]
    plan = plan_elimination(table, 4)
    assert sorted(run.states for run in plan.runs) == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("live", "runs", "unknowns", "short"),
    [(8, 7, 1, True), (8, 8, 1, False), (80, 9, 1, True), (80, 9, 2, False),
     (79, 9, 1, False), (88, 11, 0, True), (88, 11, 1, False)],
)  # fmt: skip
def test_a_plan_is_short_with_eight_parts_or_an_eighth_of_its_states(
    live: int, runs: int, unknowns: int, short: bool
) -> None:
    mask = np.arange(100) < live
    plan = Plan([], 99, mask, [0] * unknowns, [Countdown([0], (), 0)] * runs)
    assert plan.is_short is short


# -- the layers -----------------------------------------------------------------------


@given(monitors(), st.integers(1, 4), st.integers(0, 2**32))
def test_layers_give_what_the_plain_system_gives(
    table: Table, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = random_matrix(rng, n)
    column = np.unique(rng.integers(0, len(table[0]), n), return_inverse=True)[1]
    used = np.unique(column)
    table = [[row[u] for u in used] for row in table]
    values = solved(table, matrix, column)
    assert values == pytest.approx(plainly(table, matrix, column), abs=1e-9)
    assert values.min() >= 0 and values.max() <= 1


@pytest.mark.parametrize("steps", range(1, 20))
def test_a_countdown_of_any_length_is_climbed_by_powers(steps: int) -> None:
    rng = np.random.default_rng(steps)
    matrix, column = random_matrix(rng, 5, 0.0), np.array([0, 1, 2, 0, 2])
    # The last state answers for ever, or else all would be violated in the end.
    matrix[4] = np.eye(5)[4]
    table = countdown(steps)
    values = solved(table, matrix, column)
    assert values == pytest.approx(plainly(table, matrix, column), rel=1e-9)
    assert 0 < values[steps, 0] < 0.999


def test_runs_that_lead_below_by_the_same_letters_share_their_powers() -> None:
    # Two countdowns, entered from 0 by letters of their own; 7 is safe for ever.
    table = [[0, 3, 6], [8, 0, 0], [1, 0, 0], [2, 0, 0], [8, 0, 7], [4, 0, 7],
             [5, 0, 7], [7, 7, 7], [8, 8, 8]]  # fmt: skip
    plan = plan_elimination(table, 8)
    assert sorted(run.states for run in plan.runs) == [[1, 2, 3], [4, 5, 6]]
    rng = np.random.default_rng(3)
    matrix, column = random_matrix(rng, 6, 0.1), np.array([0, 1, 2, 0, 0, 1])
    matrix[3] = np.eye(6)[3]
    layers = Layers(plan, matrix, column)
    assert layers.solve() == pytest.approx(plainly(table, matrix, column), rel=1e-9)
    assert len(layers._powers) == 1


def test_powers_are_made_by_doubling() -> None:
    rng = np.random.default_rng(2)
    matrix = random_matrix(rng, 4, 0.0) * 0.9
    powers = solving._Powers([matrix])
    for j in (3, 0, 2, 4):
        power, total = powers.at(j)
        assert power == pytest.approx(np.linalg.matrix_power(matrix, 2**j))
        each = [np.linalg.matrix_power(matrix, i) for i in range(2**j)]
        assert total == pytest.approx(sum(each))


def test_a_power_never_turns_what_is_possible_into_zero() -> None:
    power, _ = solving._Powers([np.array([[1e-60, 0.0], [1.0, 1e-160]])]).at(2)
    assert power.tolist() == [[FLOOR, 0.0], [FLOOR, FLOOR]]
    kept = np.array([0.0, FLOOR / 2, FLOOR, 2 * FLOOR, 0.5])
    floored = solving._floored(kept.copy()).tolist()
    assert floored == [0.0, FLOOR, FLOOR, 2 * FLOOR, 0.5]


def test_what_layers_cost_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown pairs, and cells: runs times states times unknowns and two exits."""
    # `idle` is entered by reading 0 or 2: 4 of the 5 states.
    layers = Layers(
        plan_elimination(countdown(3), 4), np.eye(5), np.array([0, 1, 2, 0, 0])
    )
    for name, fits in (("MAX_UNKNOWNS", 4), ("MAX_LAYER_CELLS", 1 * 5 * (4 + 2))):
        assert layers.affordable()
        with monkeypatch.context() as patch:
            patch.setattr(solving, name, fits)
            assert layers.affordable()
            patch.setattr(solving, name, fits - 1)
            assert not layers.affordable()


# -- the last system ------------------------------------------------------------------


def absorbed(*rows: list[float]) -> list[float]:
    chances: list[float] = solving._absorption(np.array(rows)).tolist()
    return chances


def test_what_is_certain_or_impossible_is_so_exactly() -> None:
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
