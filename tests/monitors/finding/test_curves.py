"""What is fitted, and what is written of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.expression import parse_quantity
from forewarn.abstractions.trace import Kept, TraceHeader
from forewarn.monitors.finding.corpus import Term, matrix
from forewarn.monitors.finding.score import PAIRS, SINGLES, Fit, Lesson, rounded

NAMES = "one", "other", "idle"


def fitted() -> tuple[Fit, Kept, list[Term]]:
    """A danger where two signals are high together, and one that tells nothing."""
    luck = np.random.default_rng(5)
    seen = luck.normal(size=(6_000, len(NAMES)))
    seen[luck.random(seen.shape) < 0.1] = np.nan
    danger = 2.0 * (seen[:, 0] > 0.3) + 4.0 * ((seen[:, 0] > 0.3) & (seen[:, 1] > 0.2))
    doomed = luck.random(len(seen)) < 1.0 / (1.0 + np.exp(4.0 - danger))
    header = TraceHeader(None, NAMES, 0.1, "made", 1)
    columns = dict(zip(NAMES, seen.T, strict=True))
    run = Kept(header, np.arange(len(seen)) / 10, columns, None)
    terms = [Term(parse_quantity(name, None)) for name in NAMES]
    lesson = Lesson(terms, matrix(terms, [run]), doomed, np.ones(len(seen)))
    return lesson.fitted(lesson.shape()), run, terms


def test_the_arithmetic_comes_to_what_was_fitted() -> None:
    fit, run, terms = fitted()
    assert 0 < len(fit.singles) <= SINGLES and 0 < len(fit.pairs) <= PAIRS
    said = matrix([Term(fit.expression)], [run])[:, 0]
    # Each curve is written to two digits, and steps that hardly differ as one.
    most = 0.05 * (1 + len(fit.singles) + 2 * len(fit.pairs))
    assert np.abs(said - fit.values(matrix(terms, [run]))).max() < most


def test_a_score_is_highest_where_two_tell_together() -> None:
    fit, _, _ = fitted()
    low, one, other, both = fit.values(
        np.array([[-1.0, -1.0, 0.0], [1.5, -1.0, 0.0], [-1.0, 1.5, 0.0], [1.5] * 3])
    )
    assert low < one < both and other < both
    assert both - low > 4.0


@pytest.mark.parametrize("doomed", [False, True])
def test_where_all_ends_alike_nothing_is_fitted(doomed: bool) -> None:
    rows = np.zeros((4, 1))
    with pytest.raises(InvalidInput, match="nothing can be learned"):
        Lesson(
            [Term(parse_quantity("one", None))], rows, np.full(4, doomed), rows[:, 0]
        )


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20),
    st.floats(1e-3, 1e3),
)
def test_steps_end_where_a_person_would_say(cuts: list[float], span: float) -> None:
    bounds = rounded(np.array(cuts), span, -2e3)
    assert list(bounds) == sorted(set(bounds))
    for bound in bounds:
        assert min(abs(bound - cut) for cut in cuts) <= span / 200 + 1e-9
