"""Scores: curves that add up, and what they remember, alike live and in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidAbstraction, InvalidExpression
from forewarn.abstractions.expression import parse_expression, parse_score
from forewarn.abstractions.expression.scalar import compile_quantity
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.signals import PLAIN
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.laws.lawbook import find_laws

DRIVING = load_vocabulary("driving")
DANGER = (
    "-0.5 + curve(time_to_collision, 1.2 below 2 s, 0.4 below 4 s, -0.3 else,"
    " -0.8 none) + curve(least(headway, 1 s), 1 below 0.5 s, 0 else, 0.25 none)"
    " + curve(speed - ago(speed, 0.3 s), 1 below -5 km/h, 0 else)"
    " + curve(braking, 0.3 true, -0.1 else)"
    " + curve(speed, curve(headway, 2 below 1 s, 0 else, 0 none) below 5 m/s, 0.5 else)"
)


def scored(**more: Any) -> Abstraction:
    content = {
        "format": "forewarn.abstraction/1",
        "name": "scored",
        "vocabulary": "driving",
        "period_s": 0.1,
        "scores": {"danger": DANGER},
        "predicates": [
            "bands(danger, -1, 0, 0.5, 1, 2)",
            {"when": "danger < 1.5", "lag_s": 0.2},
            "most(speed, 0.5 s) > 15",
        ],
    }
    return Abstraction.from_dict({**content, **more}, "scored.yaml")


def test_printed_score_reads_back_with_the_same_meaning() -> None:
    node = parse_score(DANGER, DRIVING)
    assert parse_score(repr(node), DRIVING) == node
    found = scored()
    again = Abstraction.from_dict(found.as_dict(), "again")
    assert again.fingerprint() == found.fingerprint()
    assert found.fingerprint() != scored(scores={"danger": "1"}).fingerprint()
    assert set(found.signals) == {"time_to_collision", "headway", "speed", "braking"}


def optional(high: float) -> st.SearchStrategy[float | None]:
    return st.none() | st.integers(0, 16).map(lambda n: n * high / 16)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4), optional(6), optional(2), st.integers(0, 40),
            st.booleans(),
        ),
        min_size=1,
        max_size=25,
    )
)  # fmt: skip
def test_frame_by_frame_and_in_columns_it_is_the_same(rows: list[Any]) -> None:
    found = scored()
    times = np.round(np.cumsum([row[0] for row in rows]) * 0.1, 6)
    columns = {
        "time_to_collision": np.array([row[1] for row in rows], float),
        "headway": np.array([row[2] for row in rows], float),
        "speed": np.array([row[3] for row in rows], float),
        "braking": np.array([row[4] for row in rows]),
    }
    expected = found.encode_arrays(columns, len(rows), times).tolist()
    reader = found.reader()
    for _ in range(2):
        reader.reset()
        for number, (_, ttc, headway, speed, braking) in enumerate(rows):
            values = {
                "time_to_collision": ttc, "headway": headway, "speed": speed,
                "braking": braking,
            }  # fmt: skip
            frame = Frame(float(times[number]), number, values)
            assert reader.peek(frame) == expected[number]
            assert reader.frame(frame) == expected[number]


def test_two_scores_have_no_name_in_common() -> None:
    found = scored()
    with pytest.raises(InvalidAbstraction, match="appears twice"):
        Abstraction(found.predicates, scores=[*found.scores, found.scores[0]])


def test_a_score_is_what_its_curves_add_up_to() -> None:
    found = scored(scores={"danger": DANGER}, predicates=["danger >= 1.05"])
    reader = found.reader()
    values = {
        "time_to_collision": None, "headway": 0.4, "speed": 30, "braking": True,
    }  # fmt: skip
    # -0.5 - 0.8 + 1 + 0 + 0.3 + 0.5 = 0.5, then the braking by 7 km/h adds 1.
    assert reader.frame(Frame(0.0, 0, values)) == 0
    assert reader.frame(Frame(0.3, 1, {**values, "speed": 23})) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("curve(speed, 1 below 2 s, 0 else)", "have different units"),
        (
            "curve(speed, 1 below 2, 3 m else)",
            "has a unit, but a plain number is needed",
        ),
        ("curve(speed, 1 below 3, 2 below 2, 1 else)", "ascending"),
        ("curve(speed, 1)", "expected 'else'"),
        (
            "curve(speed, 1 below lead_speed, 0 else)",
            "the bound of a step must be a number",
        ),
        ("curve(braking, true 1, 0 else)", "number"),
        ("ago(speed, 3 m)", "number of seconds"),
        ("least(speed, 90 s)", "number of seconds"),
        ("speed", "has a unit, but a plain number is needed"),
    ],
)
def test_malformed_score_is_rejected(text: str, said: str) -> None:
    with pytest.raises(InvalidExpression, match=said):
        parse_score(text, DRIVING)


def test_a_law_speaks_of_the_past_in_its_own_words() -> None:
    with pytest.raises(InvalidExpression):
        find_laws("always not (ago(speed, 1 s) > 3)", vocabulary=DRIVING)
    assert parse_expression("ago(speed, 1 s) > 3", DRIVING)


@pytest.mark.parametrize("name", ["speed", "two words", "1st"])
def test_a_score_has_a_name_of_its_own(name: str) -> None:
    with pytest.raises(InvalidAbstraction, match="name of a score"):
        scored(scores={name: "1"}, predicates=["speed > 5"])


def test_without_a_vocabulary_the_steps_show_that_a_signal_is_boolean() -> None:
    node = parse_score("1 + curve(near, curve(far, 0.3 true, 0.1 else) true, 0 else)")
    assert parse_score(repr(node)) == node
    assert compile_quantity(node, PLAIN)({"near": True, "far": False}) == 1.1


SCORED = {
    "format": "forewarn.abstraction/1",
    "name": "scored",
    "vocabulary": "driving",
    "scores": {
        "danger_of_x": "-1"
        " + curve(least(time_to_collision, 1 s), 0.9 below 1 s, 0 else)"
        " + curve(lead_distance, 0.5 below 10 m, -0.5 else, -0.5 none)"
        " + curve(braking, 0.2 true, 0 else)"
    },
    "predicates": ["collision"]
    + [f"danger_of_x >= {cut}" for cut in (-1, -0.5, 0, 0.5)],
}


def test_a_score_is_one_band_with_what_adds_most() -> None:
    abstraction = Abstraction.from_dict(SCORED, "test")
    assert abstraction.holding(0b01111) == ("collision", "danger 3 of 4")
    assert abstraction.holding(0) == ("danger 0 of 4",)
    assert {*abstraction.words} == {"collision", *abstraction.bands}
    assert len(abstraction.bands) == 5
    listed = list(abstraction.listed())
    assert listed[0] == "1. collision" and listed[1].startswith("2 to 5. danger: ")
    assert listed[1].endswith("time_to_collision, lead_distance, braking")
    reader = abstraction.reader()
    values = {
        "collision": False, "time_to_collision": 0.87, "lead_distance": 4.0,
        "braking": True,
    }  # fmt: skip
    bits = reader.frame(Frame(0.0, 0, values))
    assert abstraction.holding(bits) == ("danger 4 of 4",)
    assert abstraction.contributions(reader.values) == (
        "time to collision 0.87 s", "lead distance 4 m", "braking",
    )  # fmt: skip
    reader.frame(Frame(0.1, 1, {**values, "lead_distance": None, "braking": False}))
    assert abstraction.contributions(reader.values) == ("time to collision 0.87 s",)
