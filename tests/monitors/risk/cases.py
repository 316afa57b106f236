"""Any monitor, any chain, and the plain system of all their pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

Table = list[list[int]]


@st.composite
def monitors(draw: st.DrawFn, most: int = 6) -> Table:
    """Any monitor whose last state is the violated one; the first is often safe."""
    n, letters = draw(st.integers(2, most)), draw(st.integers(1, 3))
    row = st.lists(st.integers(0, n - 1), min_size=letters, max_size=letters)
    rows = [draw(row) for _ in range(n - 1)]
    if draw(st.booleans()):
        rows[0] = [0] * letters
    return [*rows, [n - 1] * letters]


def random_matrix(rng: np.random.Generator, n: int, zeros: float = 0.4) -> np.ndarray:
    matrix = rng.dirichlet(np.full(n, 0.5), n) * (rng.random((n, n)) > zeros)
    stuck = (matrix.sum(axis=1) == 0) | (rng.random(n) < zeros / 2)
    matrix[stuck] = np.eye(n)[stuck]
    return matrix / matrix.sum(axis=1, keepdims=True)


def reaching(edges: np.ndarray, goal: np.ndarray) -> np.ndarray:
    closure = np.eye(len(edges), dtype=bool) | edges
    for _ in range(len(edges).bit_length()):
        closure = closure @ closure
    return closure @ goal


def plainly(table: Table, matrix: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The least solution of x(q, s) = sum P(s, s') x(table[q][s'], s')."""
    m, n = len(table), len(matrix)
    product = np.zeros((m, n, m, n))
    for q, row in enumerate(table):
        for s in range(n):
            product[q, :, row[column[s]], s] += matrix[:, s]
    flat = product.reshape(m * n, m * n)
    violated = np.repeat(np.arange(m) == m - 1, n)
    possible = reaching(flat > 0, violated)
    open_ = np.flatnonzero(possible & ~violated)
    values = violated.astype(float)
    inside = flat[np.ix_(open_, open_)]
    into = flat[np.ix_(open_, np.flatnonzero(violated))].sum(axis=1)
    values[open_] = np.linalg.solve(np.eye(open_.size) - inside, into)
    return values.reshape(m, n)
