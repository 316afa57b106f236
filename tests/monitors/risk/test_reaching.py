"""Values within steps and ever: each way to them against the plain one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import TooLarge
from forewarn.monitors.risk import reaching
from forewarn.monitors.risk.product import Reading
from forewarn.monitors.risk.reaching import (
    ever,
    expectation,
    plan_elimination,
    sweep,
    within,
)
from tests.monitors.risk.cases import Table, monitors, plainly, random_matrix

RESPONSE: Table = [[0, 2, 0], [3, 3, 0], [1, 1, 0], [3, 3, 3]]
"""always (a -> eventually[0, 2 steps] b)"""

TANGLED: Table = [[0, 1, 2], [1, 2, 0], [2, 0, 3], [3, 3, 3]]

LEVELS: Table = [[1, 3], [2, 3], [4, 3], [3, 3], [4, 4]]
"""eventually[0, 2 steps] b"""


def reading_of(matrix: np.ndarray, letters: np.ndarray) -> tuple[Reading, np.ndarray]:
    """A chain without END, and the probabilities of its transitions."""
    sources, indices = np.nonzero(matrix)
    n = len(matrix)
    reading = Reading(
        indptr=np.searchsorted(sources, np.arange(n + 1)),
        indices=indices,
        origin=np.arange(indices.size),
        letters=letters,
        ends=np.zeros(0, dtype=np.int64),
        size=n,
    )
    return reading, matrix[sources, indices]


def one_product(seed: int, table: Table, n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    matrix, letters = random_matrix(rng, n), rng.integers(0, len(table[0]), n)
    return (*reading_of(matrix, letters), np.array(table), matrix, letters)


def sparsely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "_is_dense", lambda reading: False)
    monkeypatch.setattr(reaching, "MAX_UNKNOWNS", 0)


# -- within a number of steps ---------------------------------------------------------


@given(
    monitors(),
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(0, 2**32),
    st.data(),
)
def test_values_change_from_their_first_step_on(
    table: Table, n: int, steps: int, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    matrix, m = random_matrix(rng, n), len(table)
    after = np.array(table)[:, rng.integers(0, len(table[0]), n)]
    start = rng.random((m, n))
    first = data.draw(st.lists(st.integers(-1, 4), min_size=m, max_size=m))
    expected, before = start.copy(), start.copy()
    for step in range(1, steps + 1):
        for q, s in np.ndindex(m, n):
            if 0 <= first[q] <= step:
                expected[q, s] = sum(
                    matrix[s, t] * before[after[q, t], t] for t in range(n)
                )
        before = expected.copy()
    kept = start.copy()
    found = within(lambda v: v @ matrix.T, after, start, np.array(first), steps)
    assert found == pytest.approx(expected, abs=1e-12)
    assert np.array_equal(start, kept)


@pytest.mark.parametrize("dense", [True, False])
def test_a_step_takes_the_expectation_over_successors(
    dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "_is_dense", lambda reading: dense)
    monkeypatch.delattr(reaching, "_sparse" if dense else "_dense")
    rng = np.random.default_rng(1)
    matrix, values = random_matrix(rng, 6), rng.random((3, 6))
    reading, data = reading_of(matrix, np.zeros(6, dtype=np.int64))
    expected = [[sum(matrix[s] * row) for s in range(6)] for row in values]
    found = expectation(reading, data)(values)
    assert found == pytest.approx(np.array(expected), abs=1e-12)
    assert found.flags.c_contiguous


@pytest.mark.parametrize(
    ("n", "transitions", "dense"),
    [(5, 1, True), (6, 4, True), (6, 3, False), (8, 6, False), (10, 10, True),
     (10, 9, False), (11, 121, False)],
)  # fmt: skip
def test_small_and_well_filled_chains_are_full_matrices(
    n: int, transitions: int, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "SMALL_STATES", 5)
    monkeypatch.setattr(reaching, "DENSE_STATES", 10)
    nothing = np.zeros(0, dtype=np.int64)
    indices = np.zeros(transitions, dtype=np.int64)
    letters = np.zeros(n, dtype=np.int64)
    reading = Reading(nothing, indices, nothing, letters, nothing, n)
    assert reaching._is_dense(reading) is dense


# -- ever -----------------------------------------------------------------------------


@given(monitors(), st.integers(1, 5), st.integers(0, 2**32))
def test_every_solver_equals_the_plain_solution(
    table: Table, n: int, seed: int
) -> None:
    reading, data, steps, matrix, letters = one_product(seed, table, n)
    expected = plainly(table, matrix, letters)
    violated = len(table) - 1
    assert ever(reading, data, steps, violated) == pytest.approx(expected, abs=1e-9)
    plan = plan_elimination(table, violated)
    sparse = reaching._solve_sparse(reading, data, steps, violated, plan)
    assert sparse == pytest.approx(expected, abs=1e-9)
    assert sparse.min() >= 0 and sparse.max() <= 1
    if not plan.unknowns:
        backup = expectation(reading, data)
        levelled = sweep(backup, steps[:, letters], violated, plan.levels)
        assert levelled == pytest.approx(expected, abs=1e-12)


def test_rounding_never_leaves_the_probabilities() -> None:
    """Rows may sum to a little more or less than 1."""
    table = np.array([[1, 2], [2, 2], [2, 2], [3, 3]])
    levels = [[1], [0]]
    for off in (1e-15, -1e-15):
        values = sweep(lambda v, off=off: v + off, table, 2, levels)
        assert values.min() >= 0 and values.max() <= 1


def test_laws_without_a_violated_state_have_risk_0() -> None:
    reading, data, table, *_ = one_product(3, TANGLED, 4)
    assert ever(reading, data, table, -1).tolist() == [[0.0] * 4] * 4


def test_the_first_state_may_be_the_one_asked_about() -> None:
    reading, data, _, matrix, letters = one_product(4, TANGLED, 4)
    # TANGLED with its states in the opposite order.
    table = [[3 - q for q in row] for row in TANGLED[::-1]]
    values = ever(reading, data, np.array(table), 0)
    assert values[::-1] == pytest.approx(plainly(TANGLED, matrix, letters), abs=1e-9)


def test_an_immediate_miss_makes_earlier_states_uncertain() -> None:
    matrix = np.array([[0, 0.5, 0.5, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]])
    reading, data = reading_of(matrix, np.array([0, 0, 1, 2]))
    table = [[0, 2, 1], [1, 1, 1], [2, 2, 2]]
    plan = plan_elimination(table, 2)
    values = reaching._solve_sparse(reading, data, np.array(table), 2, plan)
    assert values[0].tolist() == [0.5, 0, 1, 0]


@pytest.mark.parametrize(
    ("table", "limits", "way"),
    [
        (RESPONSE, {}, "layers"),
        (RESPONSE, {"MAX_UNKNOWNS": 5, "MAX_LAYER_CELLS": 4 * 5 * 7}, "layers"),
        (RESPONSE, {"MAX_UNKNOWNS": 4}, "sparse"),
        (RESPONSE, {"MAX_LAYER_CELLS": 4 * 5 * 7 - 1}, "sparse"),
        ([[0, 3, 0], [1, 1, 1], [2, 2, 2], [3, 3, 3]], {}, "sparse"),
        (LEVELS, {}, "sweep"),
    ],
)
def test_the_cheapest_solver_is_chosen(
    table: Table,
    limits: dict[str, int],
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Layers where they are few, and none where every live state is unknown."""
    taken = []

    def noted(name: str, real: Any) -> Any:
        def call(*arguments: Any) -> Any:
            taken.append(name)
            return real(*arguments)

        return call

    for name, limit in limits.items():
        monkeypatch.setattr(reaching, name, limit)
    for name in ("_solve_layers", "sweep", "_solve_sparse"):
        real = noted(name.rpartition("_")[2], getattr(reaching, name))
        monkeypatch.setattr(reaching, name, real)
    reading, data, steps, matrix, letters = one_product(5, table, 5)
    violated = 3
    expected = reordered(table, matrix, letters, violated)
    assert ever(reading, data, steps, violated) == pytest.approx(expected, abs=1e-9)
    assert taken == [way]


def reordered(
    table: Table, matrix: np.ndarray, letters: np.ndarray, violated: int
) -> np.ndarray:
    """The plain system, which wants the violated state last."""
    order = [q for q in range(len(table)) if q != violated] + [violated]
    place = {q: i for i, q in enumerate(order)}
    moved = [[place[r] for r in table[q]] for q in order]
    values = plainly(moved, matrix, letters)
    return np.array([values[place[q]] for q in range(len(table))])


def test_a_system_of_too_many_transitions_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sparsely(monkeypatch)
    matrix = random_matrix(np.random.default_rng(6), 3)
    reading, data = reading_of(matrix, np.arange(3))
    table, size = np.array(TANGLED), 3 * len(data)
    monkeypatch.setattr(reaching, "MAX_SPARSE_TRANSITIONS", size)
    assert ever(reading, data, table, 3)[:3].max() > 0
    monkeypatch.setattr(reaching, "MAX_SPARSE_TRANSITIONS", size - 1)
    with pytest.raises(TooLarge, match=f"has {size} transitions, more than {size - 1}"):
        ever(reading, data, table, 3)


def test_certainty_is_exact_in_the_sparse_system_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sparsely(monkeypatch)
    rng = np.random.default_rng(8)
    matrix = rng.dirichlet(np.full(6, 0.5), 6)
    reading, data = reading_of(matrix, np.array([0, 1, 2, 0, 1, 2]))
    assert ever(reading, data, np.array(TANGLED), 3).tolist() == [[1.0] * 6] * 4
    # Where letter 2 never comes, state 2 is left again each time it is entered.
    reading, data = reading_of(matrix, np.array([0, 1, 0, 0, 1, 0]))
    assert ever(reading, data, np.array(TANGLED), 3)[:3].max() == 0
