"""What is fitted, and what is written of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import Abstraction, Predicate
from forewarn.abstractions.encoding import Score
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.expression import (
    parse_expression,
    parse_quantity,
    parse_score,
)
from forewarn.abstractions.trace import Kept, TraceHeader
from forewarn.abstractions.vocabularies.signals import Danger
from forewarn.abstractions.vocabularies.vocabulary import (
    load_vocabulary,
    vocabulary_from,
)
from forewarn.monitors.finding.corpus import Moments
from forewarn.monitors.finding.score import (
    CURVES,
    LEAVES,
    STEPS,
    TREES,
    VIOLATIONS,
    Fit,
    Lesson,
    Split,
    Steps,
    rounded,
)
from forewarn.monitors.finding.terms import Family, Feature, Term, matrix, terms
from forewarn.monitors.finding.tree import tree_text

NAMES = "one", "other", "idle"
VIOLATING = 120
DRIVING = load_vocabulary("driving")


def made(terms: list[Term], rows: Any, doomed: Any) -> Lesson:
    """A lesson in which the doomed moments come from 120 violating runs."""
    run = np.cumsum(doomed) % VIOLATING
    weight = np.ones(len(rows))
    return Lesson(terms, rows, Moments(run, np.arange(len(rows)), doomed, weight))


def fitted(declared: Danger | None = None) -> tuple[Fit, Kept, list[Term]]:
    """Danger if two signals are high together; a third signal predicts nothing."""
    luck = np.random.default_rng(5)
    seen = luck.normal(size=(6_000, len(NAMES)))
    seen[luck.random(seen.shape) < 0.1] = np.nan
    danger = 2.0 * (seen[:, 0] > 0.3) + 4.0 * ((seen[:, 0] > 0.3) & (seen[:, 1] > 0.2))
    doomed = luck.random(len(seen)) < 1.0 / (1.0 + np.exp(4.0 - danger))
    header = TraceHeader(None, NAMES, 0.1, "made", 1)
    columns = dict(zip(NAMES, seen.T, strict=True))
    run = Kept(header, np.arange(len(seen)) / 10, columns, None)
    terms = [Term(parse_quantity(name, None), danger=declared) for name in NAMES]
    return made(terms, matrix(terms, [run]), doomed).fitted(), run, terms


def leaves(tree: Split | float) -> int:
    if not isinstance(tree, Split):
        return 1
    return leaves(tree.low) + leaves(tree.high)


@pytest.mark.parametrize("danger", [None, "rises"])
def test_the_expression_has_the_fitted_values(danger: Danger | None) -> None:
    fit, run, terms = fitted(danger)
    assert len(fit.trees) == VIOLATING // VIOLATIONS <= TREES
    assert 1 < max(map(leaves, fit.trees)) <= LEAVES
    rows = matrix(terms, [run])
    assert np.isnan(rows).any()
    written = fit.expression
    read = parse_quantity(repr(written), None)
    for each in (written, read):
        said = matrix([Term(each)], [run])[:, 0]
        # Numbers are written with two digits, and steps that hardly differ are merged.
        most = 0.05 * (1 + len(fit.curves)) + 0.01 * len(fit.trees)
        assert np.abs(said - fit.values(rows)).max() < most


def test_the_levels_of_a_signal_have_its_danger_and_its_changes_have_none() -> None:
    signals = {"load": {"type": "number", "unit": "kg", "danger": "rises"}}
    told = {"format": "forewarn.vocabulary/1", "name": "lift", "signals": signals}
    family = Family("every signal", ("load",))
    found = terms([Feature("load")], family, vocabulary_from(told, "lift"), 0.1)
    assert {repr(term.expression): term.danger for term in found} == {
        "load": "rises",
        "ago(load, 0.5 s)": "rises",
        "least(load, 1 s)": "rises",
        "most(load, 1 s)": "rises",
        "load - ago(load, 0.5 s)": None,
        "load - ago(load, 1 s)": None,
    }


@pytest.mark.parametrize("danger", ["rises", "falls"])
def test_a_score_is_monotone_in_a_signal_whose_danger_is_declared(
    danger: Danger,
) -> None:
    fit, run, _ = fitted(danger)
    falls = _falls(fit, run, danger)
    assert max(falls) <= 1e-9
    # Without the declaration, the same data give a score that also falls.
    assert max(_falls(fitted()[0], run, danger)) > 0.01


def _falls(fit: Fit, run: Kept, danger: Danger) -> list[float]:
    """Returns how much the score falls while the danger of one signal rises from
    `none` to its maximum and the other signals stay the same.
    """
    score, ladder = Term(parse_quantity(repr(fit.expression), None)), np.linspace(-3, 3)
    risen = np.append(np.nan, ladder if danger == "rises" else ladder[::-1])
    found = []
    for name in NAMES:
        for at in range(0, 600, 20):
            columns = {other: np.full(51, run.signals[other][at]) for other in NAMES}
            swept = Kept(run.header, np.arange(51) / 10, columns | {name: risen}, None)
            found.append(float(-np.diff(matrix([score], [swept])[:, 0]).min()))
    return found


def test_the_largest_sum_is_read_back_from_its_text_and_its_file() -> None:
    """A score with the maximum numbers of curves and trees, over a long term."""
    way = "pedestrian_distance"
    text = f"{way} / max(ago({way}, 0.5 s) - {way}, 0.1 m)"
    steps = Steps(Term.of(text, DRIVING), 0, tuple(0.25 * n for n in range(STEPS)))
    tree: Split | float = -0.25
    for step in range(LEAVES - 1):
        tree = Split(0, step, 0.25, tree)
    assert isinstance(tree, Split)
    curves = dict.fromkeys(range(CURVES), np.linspace(-9.25, 9.25, steps.size))
    written = Fit(-0.25, (steps,) * CURVES, curves, (tree,) * TREES).expression
    assert parse_score(repr(written), DRIVING) == written
    predicates = [Predicate(parse_expression("speed > 1", DRIVING))]
    found = Abstraction(
        predicates, name="large", scores=[Score("danger", written)], vocabulary=DRIVING
    )
    content = yaml.safe_load(tree_text(found, (), "Large."))
    again = Abstraction.from_dict(content, "large")
    assert again.fingerprint() == found.fingerprint()


def test_a_truth_and_none_split_a_tree() -> None:
    """A danger if a condition holds and a number is none."""
    luck = np.random.default_rng(6)
    count = 6_000
    near, speed = luck.random(count) < 0.5, luck.normal(size=count)
    speed[luck.random(count) < 0.3] = np.nan
    danger = 6.0 * (near & np.isnan(speed))
    doomed = luck.random(count) < 1.0 / (1.0 + np.exp(3.0 - danger))
    header = TraceHeader(None, ("traffic_jam", "speed"), 0.1, "made", 1)
    columns = {"traffic_jam": near, "speed": speed}
    run = Kept(header, np.arange(count) / 10, columns, DRIVING)
    terms = [
        Term(parse_expression("traffic_jam", DRIVING), truth=True),
        Term.of("speed", DRIVING),
    ]
    rows = matrix(terms, [run])
    fit = made(terms, rows, doomed).fitted()
    values = fit.values(rows)
    worst = near & np.isnan(speed)
    assert values[worst].min() > values[~worst].max() + 1.0
    said = matrix([Term.of(repr(fit.expression), DRIVING)], [run])[:, 0]
    assert np.abs(said - values).max() < 0.3


def test_a_score_is_highest_where_two_signals_are_high_together() -> None:
    fit, _, _ = fitted()
    low, one, other, both = fit.values(
        np.array([[-1.0, -1.0, 0.0], [1.5, -1.0, 0.0], [-1.0, 1.5, 0.0], [1.5] * 3])
    )
    assert low < one < both and other < both
    assert both - low > 3.0


def test_trees_predict_together_what_curves_cannot() -> None:
    """A danger if exactly one of two signals is high."""
    luck = np.random.default_rng(7)
    seen = luck.normal(size=(6_000, len(NAMES)))
    danger = 4.0 * ((seen[:, 0] > 0) != (seen[:, 1] > 0))
    doomed = luck.random(len(seen)) < 1.0 / (1.0 + np.exp(3.0 - danger))
    terms = [Term(parse_quantity(name, None)) for name in NAMES]
    fit = made(terms, seen, doomed).fitted()
    assert np.ptp(fit.curves[0]) < 0.5
    one, both = fit.values(np.array([[1.0, -1.0, 0.0], [1.0, 1.0, 0.0]]))
    assert one > both + 0.3


@pytest.mark.parametrize("doomed", [False, True])
def test_equal_outcomes_in_all_runs_are_rejected(doomed: bool) -> None:
    with pytest.raises(InvalidInput, match="nothing can be learned"):
        made([Term(parse_quantity("one", None))], np.zeros((4, 1)), np.full(4, doomed))


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20),
    st.floats(1e-3, 1e3),
)
def test_steps_end_where_a_person_would_say(cuts: list[float], span: float) -> None:
    bounds = rounded(np.array(cuts), span, -2e3)
    assert list(bounds) == sorted(set(bounds))
    for bound in bounds:
        assert min(abs(bound - cut) for cut in cuts) <= span / 200 + 1e-9
