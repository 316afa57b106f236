"""Promises: exact against fractions, and kept in simulation."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from forewarn.monitors.evaluation.figures import (
    CONFIDENCE,
    Promise,
    at_most,
    needed,
    spared,
)


def chance(k: int, n: int, share: Fraction) -> Fraction:
    """Of k hits or fewer in n trials."""
    terms = (comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(k + 1))
    return sum(terms, Fraction())


@given(st.integers(1, 80), st.integers(1, 60).map(lambda n: Fraction(n, 100)))
def test_as_many_are_spared_as_the_binomial_allows(n: int, share: Fraction) -> None:
    delta = Fraction(1, 20)
    good = [k for k in range(n) if chance(k, n, share) <= delta]
    assert spared(n, float(share), float(delta)) == (good[-1] if good else None)
    fewest = needed(float(share), float(delta))
    assert fewest is not None and (spared(n, float(share)) is None) == (n < fewest)


@given(st.integers(1, 60), st.data())
def test_a_bound_is_where_so_few_would_be_improbable(
    n: int, data: st.DataObject
) -> None:
    k = data.draw(st.integers(0, n))
    bound = at_most(k, n)
    if k == n:
        assert bound == 1.0
    else:
        assert float(chance(k, n, Fraction(bound))) == pytest.approx(0.05, abs=1e-9)


def test_smallest_samples_that_allow_a_promise() -> None:
    assert spared(1, 0.5, 0.5) == 0, "one of one, as seldom as may be"
    assert needed(0.1) == 29 and spared(29, 0.1) == 0


def test_a_false_alarm_rate_of_zero_cannot_be_promised() -> None:
    assert spared(1000, 0.0) is None and needed(0.0) is None
    assert spared(0, 0.5) is None
    assert spared(7, 1.0) == 7 and needed(1.0) == 1


@pytest.mark.parametrize(("clean", "allowed"), [(29, 0.1), (60, 0.1), (200, 0.05)])
def test_a_promise_is_broken_as_seldom_as_it_says(clean: int, allowed: float) -> None:
    """Heights are uniform, so the share above a threshold is one minus it."""
    random = np.random.default_rng(3)
    most = spared(clean, allowed)
    assert most is not None
    heights = np.sort(random.random((4000, clean)), axis=1)[:, ::-1]
    later = 1.0 - heights[:, most]
    broken = float(np.mean(later > allowed))
    assert broken <= 1 - CONFIDENCE + 0.011
    # One more spared would break it too often.
    assert np.mean(1.0 - heights[:, most + 1] > allowed) > 1 - CONFIDENCE - 0.011


def test_guaranteed_and_observed_rates_are_shown_together() -> None:
    promise = Promise.of(0.1, 60, 1, 12, 3)
    assert promise.missed == at_most(3, 12)
    assert promise.alarmed == 1
    assert promise.sentence().endswith(
        "at most 0.10, at most 0.53 of the violations missed"
    )
    came = {"false_alarm_rate": 0.04, "detection_rate": 0.75}
    assert promise.sentence(came) == (
        "guaranteed with 95 % confidence: a false-alarm rate of at most 0.10, at most"
        " 0.53 of the violations missed; measured: false-alarm rate 0.04, missed 0.25"
    )
    alone = Promise.of(0.1, 60, 1, 0, 0)
    assert alone.sentence({"false_alarm_rate": None, "detection_rate": None}) == (
        "guaranteed with 95 % confidence: a false-alarm rate of at most 0.10;"
        " measured: no runs"
    )


WIDEST = {
    "false_alarms": 1.0, "missed": 1.0, "confidence": 0.999,
    "clean": 0, "alarmed": 0, "violating": 0, "undetected": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [("false_alarms", 1.1), ("missed", 1.1), ("confidence", 1.0), ("clean", -1)],
)
def test_a_promise_holds_fractions_and_counts(name: str, value: float) -> None:
    assert Promise.model_validate(WIDEST).clean == 0
    with pytest.raises(ValidationError):
        Promise.model_validate(WIDEST | {name: value})
