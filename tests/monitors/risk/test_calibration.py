"""Calibration: risks keep their order, and mean what happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.risk.calibration import Calibration, calibrated

RISKS = st.lists(st.floats(0, 1), min_size=1, max_size=300)


@given(RISKS, st.integers(0, 2**32 - 1))
def test_risks_keep_their_order_and_certainty_stays(
    said: list[float], luck: int
) -> None:
    random = np.random.default_rng(luck)
    risks = np.array(said)
    happened = random.random(len(risks)) < 0.4
    curve = calibrated(risks, happened, random.integers(0, 60, len(risks)))
    grid = np.linspace(0.0, 1.0, 101)
    meant = curve(grid)
    assert (np.diff(meant) > 0.0).all()
    assert (meant[0], meant[-1]) == (0.0, 1.0)


def test_overestimated_risk_is_calibrated_to_the_observed_rate() -> None:
    random = np.random.default_rng(7)
    run = np.arange(4000)
    said = random.random(4000)
    happened = random.random(4000) < said**3
    curve = calibrated(said, happened, run)
    for low in (0.2, 0.4, 0.6, 0.8):
        fresh = np.full(1, low)
        assert curve(fresh)[0] == pytest.approx(low**3, abs=0.05)
    before = np.mean((said - happened) ** 2)
    assert np.mean((curve(said) - happened) ** 2) < before


def test_risks_of_few_runs_are_pooled_with_neighbours() -> None:
    # One run lingers at 0.9 and keeps the law; that is one case, not a thousand.
    said = np.concatenate([np.full(1000, 0.5), np.full(1000, 0.9)])
    happened = np.concatenate([np.arange(1000) % 2 == 0, np.zeros(1000, bool)])
    run = np.concatenate([np.arange(1000), np.full(1000, 5)])
    curve = calibrated(said, happened, run)
    assert len(curve.points) == 1


def test_a_calibration_without_points_is_the_identity() -> None:
    risks = np.array([0.0, 0.3, 1.0])
    assert Calibration()(risks) is risks


@pytest.mark.parametrize(
    "points",
    [
        ((0.5, 0.5), (0.4, 0.6)),
        ((0.4, 0.6), (0.5, 0.5)),
        ((0.0, 0.1),),
        ((0.5, 1.0),),
        ((float("nan"), 0.5),),
    ],
)
def test_a_curve_that_does_not_rise_is_refused(points: Any) -> None:
    with pytest.raises(InvalidInput, match="does not increase"):
        Calibration(points)
