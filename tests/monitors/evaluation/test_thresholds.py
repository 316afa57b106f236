"""Thresholds with a guarantee: as low as the runs allow, and kept in simulation."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.evaluation.figures import needed, spared
from forewarn.monitors.evaluation.thresholds import (
    against_false_alarms,
    against_misses,
    runs_needed,
)

HEIGHTS = st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=60, max_size=90)


@given(HEIGHTS, st.sampled_from([0.05, 0.1, 0.3]))
def test_no_threshold_is_stricter_than_the_runs_require(
    heights: list[float], level: float
) -> None:
    found = against_false_alarms(heights, level)
    most = spared(len(heights), level)
    assert found.threshold is not None and most is not None
    assert found.wrong == sum(h >= found.threshold for h in heights) <= most
    lower = max((h for h in heights if h < found.threshold), default=-inf)
    assert sum(h >= lower for h in heights) > most
    missed = against_misses(heights, level)
    assert missed.threshold is not None
    assert missed.wrong == sum(h < missed.threshold for h in heights) <= most
    assert sum(h <= missed.threshold for h in heights) > most


def test_too_few_runs_tell_how_many_more_it_takes() -> None:
    found = against_false_alarms([0.1] * 20, 0.1)
    assert (found.threshold, found.more) == (None, 9) and needed(0.1) == 29
    assert against_misses([], 0.3).more == needed(0.3)
    assert against_false_alarms([0.1] * 29, 0.1).threshold is not None
    assert against_false_alarms([0.1] * 29, 0.1, tried=2).more == 36 - 29
    assert against_false_alarms([0.1] * 99, 0.0).more is None


def test_runs_without_any_risk_in_time_cannot_be_warned_of() -> None:
    found = against_misses([-inf] * 20 + [0.5] * 20, 0.3)
    assert (found.threshold, found.more) == (None, None)


@pytest.mark.parametrize(("share", "level"), [(0.0, 0.1), (0.03, 0.05), (0.2, 0.3)])
def test_as_many_runs_suffice_as_are_said_to(share: float, level: float) -> None:
    runs = runs_needed(share, level)
    assert runs is not None
    most = spared(runs, level)
    assert most is not None and most >= share * runs
    assert runs_needed(level, level) is None


def test_the_guarantee_holds_in_simulation() -> None:
    """Heights are uniform, so the share above a threshold is one minus it."""
    random = np.random.default_rng(5)
    broken = missed = 0
    for _ in range(600):
        heights = random.random(70)
        found = against_false_alarms(heights.tolist(), 0.1)
        other = against_misses(heights.tolist(), 0.2)
        assert found.threshold is not None and other.threshold is not None
        broken += 1 - found.threshold > 0.1
        missed += other.threshold > 0.2
    assert broken <= 45 and missed <= 45
