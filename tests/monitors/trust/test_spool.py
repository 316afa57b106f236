"""Runs of numbers come back as they were, from memory or from the disk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.trust import training
from forewarn.monitors.trust.training import Spool

batches = st.lists(st.lists(st.lists(st.integers(0, 99), max_size=5), max_size=4))


@given(batches=batches, every=st.integers(1, 3), held=st.sampled_from([1, 1 << 20]))
def test_what_was_added_comes_back(
    batches: list[list[list[int]]], every: int, held: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "HELD_BYTES", held)
        kept = Spool(np.int32)
    runs: list[list[int]] = []
    for batch in batches:
        numbers = np.array([n for run in batch for n in run], np.int64)
        kept.add(numbers, [len(run) for run in batch])
        runs += batch
        # Who looks in between disturbs nothing.
        assert [run.tolist() for run in kept.runs()] == runs
    assert [run.tolist() for run in kept.runs(every)] == runs[::every]
    assert (len(kept), kept.size) == (len(runs), sum(map(len, runs)))
