"""Reliability curve and Brier score."""

from __future__ import annotations

import json

import numpy as np
import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.evaluation.foretold import reliability


def test_figures_by_hand() -> None:
    found = reliability(
        [[0.0, 0.5, 0.5], [1.0, 0.15]], [[0, 1, 0], [1, 0]], edges=(0, 0.2, 0.6, 1)
    )
    assert found.frames == 5 and found.traces == 2
    assert found.base_rate == pytest.approx(0.4)
    assert found.brier == pytest.approx((0 + 0.25 + 0.25 + 0 + 0.15**2) / 5)
    assert found.reference == pytest.approx(0.24)
    assert found.skill == pytest.approx(1 - found.brier / 0.24)
    spans = [(b.low, b.high, b.frames, b.traces) for b in found.bins]
    assert spans == [(0, 0.2, 2, 2), (0.2, 0.6, 2, 1), (0.6, 1, 1, 1)]
    assert found.bins[0].predicted == pytest.approx(0.075)
    assert found.bins[1].observed == 0.5
    assert found.calibration_error == pytest.approx((2 * 0.075) / 5)
    assert not found.warns
    assert json.loads(json.dumps(found.as_dict()))["skill"] == found.skill


def test_a_true_risk_is_reliable_and_a_doubled_one_is_not() -> None:
    rng = np.random.default_rng(2)
    truth = [rng.random(200) / 2 for _ in range(20)]
    outcome = [rng.random(200) < risk for risk in truth]
    fair = reliability(truth, outcome)
    assert not fair.warns and fair.calibration_error < 0.03
    assert fair.skill is not None and fair.skill > 0
    doubled = reliability([2 * risk for risk in truth], outcome)
    assert doubled.warns and doubled.brier > fair.brier
    first, *rest = doubled.sentences("a law")
    assert first.startswith(
        "The risk of breaking a law, on 20 held-out traces (4,000 frames): the Brier"
    )
    assert len(rest) == sum(b.off for b in doubled.bins) >= 2
    assert rest[0].startswith("Where the predicted risk was 0.")


def test_a_gap_in_few_traces_is_no_warning() -> None:
    few = reliability([[0.8] * 100] * 4, [[1] * 25 + [0] * 75] * 4)
    many = reliability([[0.8] * 100] * 5, [[1] * 25 + [0] * 75] * 5)
    assert not few.bins[0].off
    assert many.bins[0].off and many.warns


def test_a_constant_outcome_has_no_skill() -> None:
    assert reliability([[0.1, 0.2]], [[0, 0]]).skill is None


def test_invalid_risks_and_outcomes_are_rejected() -> None:
    with pytest.raises(
        InvalidInput,
        match=("the number of predicted risks differs from the number of outcomes"),
    ):
        reliability([[0.1, 0.2]], [[1]])
    for nothing in ([], [float("nan")]):
        with pytest.raises(InvalidInput, match="no held-out frame"):
            reliability([nothing], [[0] * len(nothing)])
    for bad in (1.5, -0.1, float("inf")):
        with pytest.raises(
            InvalidInput, match=("a predicted risk must be between 0 and 1")
        ):
            reliability([[bad]], [[1]])


def test_states_that_were_never_learned_are_counted_apart() -> None:
    found = reliability([[0.2, float("nan")], [float("nan")]], [[0, 1], [1]])
    assert (found.frames, found.unknown, found.traces) == (1, 2, 1)
    assert found.brier == pytest.approx(0.04)
    said = list(found.sentences("a law"))[1]
    assert said == "2 more frames were in states not seen in training."
