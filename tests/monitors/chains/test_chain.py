"""A chain refuses whatever is not a Markov chain, and says which state is wrong."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.chains.chain import MAX_STATES, Chain, check_size
from tests.dense import from_dense


def test_rows_come_back_as_they_were_given() -> None:
    chain = Chain.from_rows(
        ["a", "b", "c"],
        {0: {2: Fraction(1, 3), 1: Fraction(2, 3)}, 1: {0: Fraction(1)}},
        initial=0,
        labels={"bad": frozenset({2})},
    )
    assert chain.exact_row(0) == {1: Fraction(2, 3), 2: Fraction(1, 3)}
    assert chain.row(1) == {0: 1.0}
    assert chain.n == 3 and chain.transitions == 4
    assert chain.dense().tolist() == [[0, 2 / 3, 1 / 3], [1, 0, 0], [0, 0, 1]]
    assert chain.index("c") == 2


def test_a_state_without_a_row_is_absorbing_and_said() -> None:
    chain = Chain.from_rows(["a", "b"], {0: {1: 1.0}})
    assert chain.deadlocks == (1,)
    assert chain.row(1) == {1: 1.0}
    (warning,) = chain.warnings()
    assert "1 state has no row" in warning and "b" in warning


def test_zero_entries_are_dropped() -> None:
    chain = Chain.from_rows(["a", "b"], {0: {0: 1.0, 1: 0.0}, 1: {1: 1.0}})
    assert chain.row(0) == {0: 1.0} and not chain.deadlocks


def test_doubles_are_not_called_exact() -> None:
    doubles = Chain.from_rows(["a", "b"], {0: {0: 0.5, 1: 0.5}, 1: {1: 1.0}})
    assert doubles.exact is None
    assert doubles.exact_row(0) == {0: Fraction(1, 2), 1: Fraction(1, 2)}
    rounded = {0: Fraction("0.333333333333"), 1: Fraction("0.666666666666")}
    assert Chain.from_rows(["a", "b"], {0: rounded}).exact is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({0: {0: 0.5, 1: 0.4}}, "the row of state 'a' sums to 0.9, not to 1"),
        ({0: {0: 1.0, 1: 1.0, 2: 1.0}}, "sums to 3, not to 1"),
        ({0: {0: 0.49997, 1: 0.5}}, "sums to 0.99997, not to 1"),
        ({1: {0: float("nan"), 1: 1.0}}, "from state 'b' to 'a' is nan"),
        ({1: {2: float("inf")}}, "from state 'b' to 'c' is inf"),
        ({0: {0: 2.0, 1: -1.0}}, "from state 'a' to 'b' is -1"),
        ({0: {3: 1.0}}, "refers to state number 3, but there are 3"),
        ({0: {-1: 1.0}}, "refers to state number -1, but there are 3"),
        ({5: {0: 1.0}}, "a row for state number 5"),
        ({0: {0: 0.0}}, "the row of state 'a' sums to 0"),
    ],
)
def test_rows_that_are_wrong_are_named(
    rows: dict[int, dict[int, float]], said: str
) -> None:
    with pytest.raises(InvalidModel) as refusal:
        Chain.from_rows(["a", "b", "c"], rows)
    assert said in str(refusal.value)


def test_state_is_listed_once() -> None:
    with pytest.raises(InvalidModel, match="the state 'a' appears twice"):
        Chain.from_rows(["a", "b", "a"], {})
    with pytest.raises(InvalidModel, match="at least one state"):
        Chain.from_rows([], {})
    with pytest.raises(InvalidModel, match="longer than 1000 characters"):
        Chain.from_rows(["a", "b" * 1001], {})


def test_an_unknown_state_is_answered_with_the_nearest() -> None:
    chain = Chain.from_rows(["parked", "moving"], {})
    with pytest.raises(InvalidModel, match=r"'mowing' \(did you mean moving\?\)"):
        chain.index("mowing")


def test_a_variable_without_a_value_in_some_state_is_refused() -> None:
    with pytest.raises(InvalidModel, match="'s' has no value in some states"):
        Chain.from_rows(["a", "b"], {}, variables={"s": np.array([0])})


def test_oversized_chain_is_rejected_with_its_size() -> None:
    with pytest.raises(TooLarge, match="10,000,000 states exceed the limit"):
        check_size(10_000_000)
    with pytest.raises(TooLarge, match="transitions"):
        check_size(2, 10_000_000)
    check_size(MAX_STATES)


@given(st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=4,
                max_size=4))  # fmt: skip
def test_a_dense_matrix_survives_the_round(weights: list[list[int]]) -> None:
    matrix = np.array(weights, dtype=float) + np.eye(4)
    matrix /= matrix.sum(axis=1, keepdims=True)
    chain = from_dense("abcd", matrix)
    assert (chain.dense() == matrix).all()
    assert (chain.sources() == np.nonzero(matrix)[0]).all()
