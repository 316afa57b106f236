"""Robustness against what the formulas mean: its sign is the Boolean verdict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.expression.parser import parse_expression
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.expression.tree import Expression
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.laws.formula import Formula, parse_formula
from forewarn.monitors.laws.robustness import Robustness, Stretch
from tests import semantics, strategies

BITS = {"a": 0, "b": 1}
DEGREES = st.sampled_from([-math.inf, -2.5, -1.0, 1.0, 3.0, math.inf])


def beyond(formula: Formula) -> int:
    """How far from a moment anything that it says can lie."""
    return semantics.horizon(formula) + semantics.memory(formula)


@given(
    strategies.bounded_formulas(2),
    st.lists(st.tuples(DEGREES, DEGREES), min_size=1, max_size=6),
)
def test_the_sign_of_robustness_matches_the_truth_value(
    formula: Formula, frames: list[tuple[float, float]]
) -> None:
    columns = np.array(frames)
    stretch = Stretch({}, len(frames), {"a": columns[:, 0], "b": columns[:, 1]})
    found = Robustness(formula, None)(stretch)
    word = [(a > 0) + 2 * (b > 0) for a, b in frames]
    word += [word[-1]] * (beyond(formula) + 1)
    held = [semantics.holds(formula, word, i, BITS) for i in range(len(frames))]
    assert (found > 0).tolist() == held
    assert not np.isnan(found).any()


@given(
    strategies.bounded_formulas(1),
    st.lists(st.tuples(DEGREES, DEGREES), min_size=1, max_size=6),
)
def test_always_is_the_least_from_there_on(
    formula: Formula, frames: list[tuple[float, float]]
) -> None:
    columns = np.array(frames)
    stretch = Stretch({}, len(frames), {"a": columns[:, 0], "b": columns[:, 1]})
    found = Robustness(parse_formula(f"always ({formula!r})"), None)(stretch)
    word = [(a > 0) + 2 * (b > 0) for a, b in frames]
    more = beyond(formula) + 1
    word += [word[-1]] * (2 * more)
    for i in range(len(frames)):
        rest = range(i, len(frames) + more)
        held = all(semantics.holds(formula, word, at, BITS) for at in rest)
        assert (found[i] > 0) == held


@given(
    strategies.bounded_formulas(2),
    st.lists(st.tuples(DEGREES, DEGREES), min_size=1, max_size=5),
    st.lists(st.floats(-0.9, 0.9), min_size=10, max_size=10),
)
def test_no_smaller_change_of_the_signals_changes_the_verdict(
    formula: Formula, frames: list[tuple[float, float]], noise: list[float]
) -> None:
    """What robustness is for: all drawn degrees are at least 1 away from 0."""
    moved = np.array(frames) + np.array(noise[: 2 * len(frames)]).reshape(-1, 2)

    def found(columns: Any) -> Any:
        stretch = Stretch({}, len(frames), {"a": columns[:, 0], "b": columns[:, 1]})
        return Robustness(formula, None)(stretch)

    before, after = found(np.array(frames)), found(moved)
    finite = np.isfinite(before)
    assert (np.abs(before) >= 1.0).all()
    assert ((before > 0) == (after > 0)).all()
    assert (np.abs(after[finite] - before[finite]) <= 0.9).all()


def column(values: list[Any]) -> Any:
    if any(isinstance(value, str) for value in values):
        return np.array(values, object)
    if any(isinstance(value, bool) for value in values):
        return np.array([bool(value) for value in values])
    return np.array([math.nan if v is None else v for v in values], float)


@given(strategies.measured_comparisons(), strategies.measured_frames())
def test_a_comparison_is_as_far_off_as_its_bound(
    node: Expression, frame: dict[str, Any]
) -> None:
    columns = {name: column([value]) for name, value in frame.items()}
    (found,) = Robustness(node, None)(Stretch(columns, 1))
    if abs(found) > 1e-6:
        assert (found > 0) == compile_test(node)(frame)


def of(text: str, columns: dict[str, list[Any]], period_s: float = 0.1) -> list[float]:
    formula = parse_formula(text, load_vocabulary("driving"))
    length = len(next(iter(columns.values())))
    stretch = Stretch({k: column(v) for k, v in columns.items()}, length)
    return [round(each, 9) for each in Robustness(formula, period_s)(stretch).tolist()]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("speed < 30 km/h", [10.0, -5.0, 5.0]),
        ("speed <= 10 m/s", [16.0, 1.0, 11.0]),
        ("speed == 25 km/h", [-5.0, -10.0, 0.0]),
        ("eventually[0, 0.1 s] speed < 30 km/h", [10.0, 5.0, 5.0]),
        ("always speed < 30 km/h", [-5.0, -5.0, 5.0]),
        ("once[0.1, 0.2 s] speed < 30 km/h", [-math.inf, 10.0, 10.0]),
        ("lead_distance < 5 m", [-math.inf, 2.0, -1.0]),
        ("not (lead_distance < 5 m)", [math.inf, -2.0, 1.0]),
        ("traffic_light == red", [-math.inf, math.inf, -math.inf]),
        ("traffic_light == red -> speed < 30 km/h", [math.inf, -5.0, math.inf]),
    ],
)
def test_numbers_by_hand(text: str, found: list[float]) -> None:
    columns: dict[str, list[Any]] = {
        "speed": [20.0, 35.0, 25.0],
        "lead_distance": [None, 3.0, 6.0],
        "traffic_light": ["green", "red", None],
    }
    assert of(text, columns) == found


def test_a_boolean_signal_may_be_given_a_degree() -> None:
    law = Robustness(parse_expression("not collision"), None)
    far = Stretch({"collision": np.zeros(2, bool)}, 2)
    assert law(far).tolist() == [math.inf, math.inf]
    near = Stretch(far.columns, 2, {"collision": np.array([-3.0, 0.5])})
    assert law(near).tolist() == [3.0, -0.5]
