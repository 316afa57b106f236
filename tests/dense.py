"""Chains from matrices, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.chain import Chain


def from_dense(
    states: Sequence[str], matrix: NDArray[np.float64], **facts: Any
) -> Chain:
    """Creates a chain from a dense matrix; a row of zeros is a deadlock."""
    rows = {
        i: {int(j): float(row[j]) for j in np.flatnonzero(row)}
        for i, row in enumerate(np.asarray(matrix, dtype=float))
    }
    return Chain.from_rows(states, rows, **facts)
