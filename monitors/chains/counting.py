"""Counting transitions in arrays of state numbers, as fast as memory allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forewarn.abstractions.errors import InvalidTrace

_DENSE_LIMIT = 2048
"""Up to this many states the counts are kept as a full matrix."""

_EMPTIEST = 16
"""A matrix has at most so many cells for each transition."""

_CHUNK = 1 << 16
_SMALL_CODES = 1 << 20

Ints = NDArray[np.int64]


def count_matrix(states: NDArray[np.integer], n: int, starts: ArrayLike = ()) -> Ints:
    """How often state j came right after state i, as a matrix `[i, j]`.

    Args:
        states: State numbers below `n`, all sequences one after the other.
        n: How many states there are.
        starts: Where sequences begin; nothing is counted across a beginning.
    """
    cells = n * n
    total = np.zeros(cells, dtype=np.int64)
    # A chunk must outweigh the matrix that bincount clears and adds each time.
    chunk = max(_CHUNK, 4 * cells)
    last = len(states) - 1
    keys = np.empty(min(chunk, max(last, 0)), dtype=np.int64)
    if len(states):
        _check_range(states, n)
    for begin in range(0, last, chunk):
        stop = min(begin + chunk, last)
        key = keys[: stop - begin]
        np.multiply(states[begin:stop], n, out=key, casting="unsafe", dtype=np.int64)
        key += states[begin + 1 : stop + 1]
        total += np.bincount(key, minlength=cells)
    before, after = _across(states, starts)
    np.subtract.at(total, before * n + after, 1)
    return total.reshape(n, n)


def count_pairs(
    states: NDArray[np.integer], starts: ArrayLike = ()
) -> tuple[Ints, Ints, Ints]:
    """Every transition that occurs in arbitrary state codes: from, to, how often."""
    codes, numbers = compressed(states)
    n = len(codes)
    if n <= _DENSE_LIMIT and n * n <= _EMPTIEST * len(states):
        matrix = count_matrix(numbers, n, starts)
        before, after = np.nonzero(matrix)
        return codes[before], codes[after], matrix[before, after]
    inside = np.ones(len(numbers) - 1, dtype=bool)
    inside[_inner(starts) - 1] = False
    keys, seen = np.unique(
        (numbers[:-1].astype(np.int64) * n + numbers[1:])[inside], return_counts=True
    )
    return codes[keys // n], codes[keys % n], seen


def _check_range(states: NDArray[np.integer], n: int) -> None:
    low, high = int(states.min()), int(states.max())
    if low < 0 or high >= n:
        wrong = low if low < 0 else high
        raise InvalidTrace(f"the state number {wrong} is not one of the {n} states")


def _inner(starts: ArrayLike) -> Ints:
    inner = np.asarray(starts, dtype=np.int64)
    return inner[inner > 0]


def _across(states: NDArray[np.integer], starts: ArrayLike) -> tuple[Ints, Ints]:
    """The pairs that look like transitions but lie in two sequences."""
    inner = _inner(starts)
    return states[inner - 1].astype(np.int64), states[inner].astype(np.int64)


def compressed(states: NDArray[np.integer]) -> tuple[Ints, NDArray[np.integer]]:
    """The codes that occur, ascending, and the array as positions among them."""
    if len(states) and 0 <= states.min() and states.max() < _SMALL_CODES:
        seen = np.bincount(states)
        codes = np.flatnonzero(seen)
        table = np.zeros(len(seen), dtype=np.int32)
        table[codes] = np.arange(len(codes))
        return codes.astype(np.int64), table[states]
    codes, numbers = np.unique(states, return_inverse=True)
    return codes.astype(np.int64), numbers
