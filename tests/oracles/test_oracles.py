"""Compares the engine with brute force on small samples; at full size in soak tests.

`python -m tests.oracles` prints the figures.
"""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from tests.oracles import coverage, likely, meaning, risks
from tests.oracles.__main__ import main
from tests.shown import PAGES, assert_shown, outputs


def test_laws_mean_what_three_valued_evaluation_says() -> None:
    assert list(meaning.disagreements(0, 300)) == []


def test_risks_are_those_of_paths_and_products_in_fractions() -> None:
    assert list(risks.disagreements(0, 400)) == []


def test_bounds_hold_the_truth_of_all_states() -> None:
    for (law, size), each in coverage.interval_coverage(0, 20, (2, 20)).items():
        assert each.covered == each.tables, (law, size)


def test_bounds_are_never_taken_through_a_curve_alone() -> None:
    """The curve is an estimate, so bounds mapped through it do not cover the risks."""
    found = coverage.calibrated_coverage(0, 40)
    beside, through = (each.share for each in found.values())
    assert beside == 1.0 and through < 1 - coverage.DELTA


def test_likely_holds_the_truth_of_most_pairs_and_not_of_95_percent() -> None:
    """A page states that the coverage is below 95 %; with more, the page is wrong."""
    found = likely.coverage(1, 3, (600,), draws=40).values()
    share = sum(each.covered for each in found) / sum(each.tables for each in found)
    assert 0.6 <= share <= 0.97


@pytest.mark.slow
def test_the_page_on_evidence_shows_what_is_printed() -> None:
    few = "--laws 20 --risks 10 --chains 5".split()
    (shown,) = (
        each for page in PAGES if page.stem == "evidence" for each in outputs(page)
    )
    assert_shown(shown, CliRunner().invoke(main, few).output)


@pytest.mark.soak
def test_laws_and_risks_at_length() -> None:
    assert list(meaning.disagreements(2, 20_000)) == []
    assert list(risks.disagreements(2, 5_000)) == []


@pytest.mark.soak
@pytest.mark.parametrize("traces", coverage.TRACES)
def test_bounds_at_length(traces: int) -> None:
    for law, each in coverage.interval_coverage(2, 1_000, (traces,)).items():
        assert each.share >= 1 - coverage.DELTA, law


# -- the oracles detect errors --------------------------------------------------------


def test_the_oracle_sees_another_law() -> None:
    inner = ("F", 0, 1, ("G", 0, 1, ("atom", "a")))
    law = ("G", 0, meaning.EVER, inner)
    expected = meaning.read(law, [1, 1, 1, 0])
    assert expected == [3]
    other = compile_law(parse_formula("always not a"))
    assert meaning._difference(other, [1, 1, 1, 0], expected)


def test_closed_support_does_not_hold_the_truth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = coverage.model_intervals

    def without_ways_out(model: coverage.Model, delta: float) -> object:
        return closed(model, delta, closed_support=True)

    monkeypatch.setattr(coverage, "model_intervals", without_ways_out)
    covered = coverage.interval_coverage(0, 20, (2,))
    assert np.mean([each.share for each in covered.values()]) < 0.8
