"""RSS's safe distances, by the library, against the formulas of its paper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.plugins.driving.rss import Parameters, SafeDistances

pytestmark = pytest.mark.needs("ad_rss")

SPEEDS = st.integers(0, 500).map(lambda n: n / 10)
GIVEN = Parameters(response_s=0.6, accelerates=2.0, brakes_most=7.0, brakes_least=3.5)


def stopping(speed: float, given: Parameters) -> float:
    after = speed + given.accelerates * given.response_s
    responding = (speed + after) / 2 * given.response_s
    return responding + after**2 / (2 * given.brakes_least)


@pytest.mark.parametrize("parameters", [Parameters(), GIVEN])
@given(speed=SPEEDS, other=SPEEDS)
def test_along_the_way(parameters: Parameters, speed: float, other: float) -> None:
    safe = SafeDistances(parameters)
    stops = stopping(speed, parameters)
    assert safe.stopping(speed) == pytest.approx(stops, abs=1e-3)
    lead = other**2 / (2 * parameters.brakes_most)
    assert safe.behind(speed, other) == pytest.approx(max(0.0, stops - lead), abs=1e-3)
    towards = stops + stopping(other, parameters)
    assert safe.towards(speed, other) == pytest.approx(towards, abs=1e-3)


def test_side_by_side_who_moves_closer_needs_more_room() -> None:
    safe = SafeDistances()
    # Each may gain 0.2 m/s for a second, then brakes by 0.8 m/s².
    each = 0.1 + 0.2**2 / 1.6
    assert safe.beside(0.0, 0.0) == pytest.approx(2 * each)
    drifting = 0.6 + 0.7**2 / 1.6
    assert safe.beside(0.5, 0.0) == pytest.approx(drifting + each)
    assert safe.beside(0.0, -0.5) == pytest.approx(drifting + each)
    assert safe.beside(-2.0, 2.0) == 0.0


def test_what_the_library_refuses_is_an_error() -> None:
    with pytest.raises(ValueError, match="rejected"):
        SafeDistances().behind(-1.0, 0.0)
