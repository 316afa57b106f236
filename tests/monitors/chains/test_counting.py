"""Counting agrees with a loop, whatever the sizes, types and boundaries."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.chains import chain as counting
from forewarn.monitors.chains.chain import count_pairs

sequences = st.lists(
    st.lists(st.integers(0, 6), min_size=1, max_size=12), min_size=0, max_size=6
)


def by_loop(rows: list[list[int]]) -> Counter[tuple[int, int]]:
    return Counter(p for row in rows for p in zip(row, row[1:], strict=False))


def joined(rows: list[list[int]], dtype: type) -> tuple[np.ndarray, list[int]]:
    lengths = [len(row) for row in rows]
    starts: Any = np.concatenate(([0], np.cumsum(lengths)[:-1])) if rows else []
    flat = [state for row in rows for state in row]
    return np.array(flat, dtype=dtype), [int(start) for start in starts]


@given(sequences, st.sampled_from([0, 16]), st.sampled_from([0, 5, 2**40]))
def test_pairs_of_any_codes_are_what_a_loop_counts(
    rows: list[list[int]], emptiest: int, stretch: int
) -> None:
    scaled = [[state * (stretch + 1) for state in row] for row in rows]
    states, starts = joined(scaled, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_EMPTIEST", emptiest)
        columns = [column.tolist() for column in count_pairs(states, starts)]
    found = {(i, j): times for i, j, times in zip(*columns, strict=True)}
    assert found == by_loop(scaled)


@pytest.mark.parametrize("code", [-(2**40), -1, 2**20 - 1, 2**20, 2**40])
def test_a_code_may_be_any_number(code: int) -> None:
    pairs = count_pairs(np.array([code, 5, code, 5]))
    found = {(i, j): times for i, j, times in zip(*pairs, strict=True)}
    assert found == {(code, 5): 2, (5, code): 1}


def test_small_types_do_not_overflow() -> None:
    states = np.array([250, 251, 250], dtype=np.uint8)
    columns = [column.tolist() for column in count_pairs(states)]
    assert columns == [[250, 251], [251, 250], [1, 1]]
