"""Abstractions: frames to states, one at a time and by the column, and their files."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import (
    MAX_PREDICATES,
    Abstraction,
    Predicate,
    from_expressions,
    load_abstraction,
)
from forewarn.abstractions.encoding import compile_states
from forewarn.abstractions.errors import (
    InvalidAbstraction,
    InvalidExpression,
    InvalidInput,
    SignalFault,
)
from forewarn.abstractions.expression import Expression
from forewarn.abstractions.expression.scalar import compile_test, constant_in
from forewarn.abstractions.expression.tree import Compare, Name, Number, signals_of
from tests.strategies import (
    COMPARISONS,
    NUMBERS,
    TRUTHS,
    VOCABULARY,
    combined,
    expressions,
    frames,
    halves,
    measured_expressions,
)

FILE: dict[str, Any] = {
    "format": "forewarn.abstraction/1",
    "name": "approach",
    "period_s": 0.5,
    "predicates": [
        "bands(speed, 0.5 km/h, 5, 8 m/s)",
        "gap < 30",
        {"when": "wet", "latch": "any"},
        "light == red",
    ],
    "constraints": ["gap is none -> speed < 5"],
    "irreversible": ["wet"],
}


def bits_of_tests(predicates: list[Expression], frame: dict[str, Any]) -> int:
    tests = [compile_test(node) for node in predicates]
    return sum(bool(test(frame)) << i for i, test in enumerate(tests))


def band_predicates() -> st.SearchStrategy[list[Expression]]:
    """Predicates of constants alone, several of them on one signal."""
    compared = st.builds(
        Compare,
        st.sampled_from(COMPARISONS),
        st.sampled_from(NUMBERS).map(Name),
        st.floats(-1e6, 1e6).map(Number),
    )
    return st.lists(combined(compared, 3), min_size=1, max_size=8)


@settings(max_examples=80)
@given(band_predicates(), st.data())
def test_cells_agree_with_tests_at_and_beside_every_constant(
    predicates: list[Expression], data: st.DataObject
) -> None:
    encode = compile_states(predicates)
    bounds = {
        constant_in(node.right, node.left) or 0.0
        for predicate in predicates
        for node in predicate.walk()
        if isinstance(node, Compare)
    }
    values: list[Any] = [None, -1e9, 1e9, 0, True]
    for bound in bounds:
        values += [bound, math.nextafter(bound, -math.inf)]
        values += [math.nextafter(bound, math.inf), round(bound)]
    choice = st.sampled_from(values)
    for _ in range(8):
        frame = {name: data.draw(choice) for name in NUMBERS}
        assert encode(frame) == bits_of_tests(predicates, frame)


@given(st.lists(expressions(4), min_size=1, max_size=6), st.lists(frames(), min_size=1))
def test_frames_and_columns_encode_to_the_bits_of_the_predicates(
    predicates: list[Expression], rows: list[dict[str, Any]]
) -> None:
    assume(len(set(map(repr, predicates))) == len(predicates))
    abstraction = Abstraction([Predicate(node) for node in predicates])
    columns = {
        name: np.array(
            [row[name] for row in rows], object if name == "light" else float
        )
        for name in rows[0]
    }
    try:
        expected = [bits_of_tests(predicates, row) for row in rows]
    except SignalFault:
        with pytest.raises(SignalFault):
            [abstraction.encode(row) for row in rows]
        with pytest.raises(SignalFault):
            abstraction.encode_arrays(columns, len(rows))
        return
    assert [abstraction.encode(row) for row in rows] == expected
    assert abstraction.encode_arrays(columns, len(rows)).tolist() == expected
    assert abstraction.encode_arrays(columns, len(rows)).dtype == np.int64


def test_columns_longer_than_a_chunk() -> None:
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {
        "x": rng.normal(size=70_000),
        "wet": rng.random(70_000) < 0.5,
    }
    abstraction = from_expressions(["x < 0", "wet", "x >= 0.5 and not wet"])
    states = abstraction.encode_arrays(columns, 70_000)
    for i in (0, 32_767, 32_768, 65_535, 65_536, 69_999):
        frame = {name: column[i] for name, column in columns.items()}
        assert states[i] == abstraction.encode(frame)
    assert np.array_equal(states & 1, columns["x"] < 0)


def test_sixty_two_predicates_fit_and_no_more() -> None:
    texts = [f"x > {i}" for i in range(MAX_PREDICATES)]
    abstraction = from_expressions(texts)
    assert abstraction.encode({"x": 1e3}) == 2**62 - 1
    assert abstraction.encode_arrays({"x": np.array([1e3])}, 1) == [2**62 - 1]
    with pytest.raises(InvalidAbstraction, match="not 63"):
        from_expressions([*texts, "x > 62"])
    with pytest.raises(InvalidAbstraction, match="not 0"):
        from_expressions([])


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_an_unusable_signal_is_a_fault_that_names_it(count: int) -> None:
    encode = from_expressions([f"x > {i}" for i in range(count)]).encode
    with pytest.raises(SignalFault, match="x is missing"):
        encode({"y": 1.0})
    for value, problem in (
        (math.nan, "x is nan"),
        (math.inf, "x is inf"),
        ("fast", "wrong type"),
        ([], "wrong type"),
    ):
        with pytest.raises(SignalFault, match=problem):
            encode({"x": value})
    truths = from_expressions(["wet", "dark", "dark or wet"][:count])
    with pytest.raises(SignalFault, match="wet is missing"):
        truths.encode({"dark": True})
    with pytest.raises(SignalFault, match="wet is nan"):
        truths.encode({"wet": math.nan, "dark": True})


def test_columns_that_are_missing_are_a_fault_and_unread_ones_do_not_matter() -> None:
    abstraction = from_expressions(["x > 3"])
    with pytest.raises(SignalFault, match="x is missing"):
        abstraction.encode_arrays({"y": np.zeros(2)}, 2)
    columns = {"x": np.full(2, 5.0), "y": np.full(2, np.inf)}
    assert abstraction.encode_arrays(columns, 2).tolist() == [1, 1]
    assert abstraction.encode({"x": 5.0, "y": math.inf}) == 1


def test_states_are_named_by_their_bits_first_predicate_first() -> None:
    abstraction = from_expressions(["x > 1", "x > 2", "wet"])
    assert abstraction.state_name(0b011) == "110"
    assert abstraction.bits("110") == 0b011
    assert abstraction.holding(0b101) == ("x > 1", "wet")
    assert abstraction.in_short(0b101) == "x > 1, wet"
    assert abstraction.in_short(0) == "no predicate is true"
    for bits in range(8):
        assert abstraction.bits(abstraction.state_name(bits)) == bits
    for name in ("11", "1100", "1 0", "11²", "abc", ""):
        with pytest.raises(
            InvalidAbstraction, match="is not the name of a state with 3 predicates"
        ):
            abstraction.bits(name)


# -- files --------------------------------------------------------------------------


def test_a_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    first = Abstraction.from_dict(FILE, "memory", VOCABULARY)
    assert first.texts == (
        "speed < 0.5 km/h", "speed < 5", "speed < 8 m/s", "gap < 30", "wet",
        "light == red",
    )  # fmt: skip
    assert first.signals == ("speed", "gap", "wet", "light")
    path = tmp_path / "approach.yaml"
    path.write_text(yaml.safe_dump(first.as_dict()))
    again = load_abstraction(path, VOCABULARY)
    assert again.as_dict() == first.as_dict()
    assert again.predicates == first.predicates
    assert again.constraints == first.constraints
    assert again.irreversible == first.irreversible
    assert (again.name, again.period_s) == ("approach", 0.5)
    assert again.fingerprint() == first.fingerprint()


@given(st.lists(measured_expressions(), min_size=1, max_size=4, unique_by=repr))
def test_any_abstraction_reads_back_as_it_was_written(nodes: list[Expression]) -> None:
    first = Abstraction([Predicate(node) for node in nodes], vocabulary=VOCABULARY)
    content = yaml.safe_load(yaml.safe_dump(first.as_dict()))
    again = Abstraction.from_dict(content, "memory", VOCABULARY)
    assert again.predicates == first.predicates
    assert again.fingerprint() == first.fingerprint()


def test_the_fingerprint_is_of_the_meaning() -> None:
    def fingerprint(**changes: Any) -> str:
        return Abstraction.from_dict(FILE | changes, "memory", VOCABULARY).fingerprint()

    same = fingerprint()
    assert fingerprint(name="another") == same
    spaced = ["speed<0.5km/h", "speed < 5.0", "8 m/s > speed", *FILE["predicates"][1:]]
    assert fingerprint(predicates=spaced) == same
    changed = [
        fingerprint(period_s=0.4),
        fingerprint(constraints=[]),
        fingerprint(irreversible=[]),
        fingerprint(predicates=FILE["predicates"][::-1]),
        fingerprint(predicates=[*FILE["predicates"], "lanes > 2"]),
        fingerprint(predicates=["wet", *FILE["predicates"][:2]]),
    ]
    assert len({same, *changed}) == 7
    bare = FILE | {"predicates": ["speed < 5"], "constraints": [], "irreversible": []}
    metric = replace(
        VOCABULARY,
        signals=dict(VOCABULARY.signals)
        | {"speed": replace(VOCABULARY.signals["speed"], unit="m/s")},
    )
    digests = {
        Abstraction.from_dict(bare, "memory", known).fingerprint()
        for known in (None, VOCABULARY, metric)
    }
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"predicates": ["wet", "gap < 3", "wet"]}, "'wet' appears twice"),
        (
            {"predicates": ["speed < 5", "bands(speed, 1, 5)"]},
            "'speed < 5' appears twice",
        ),
        ({"irreversible": ["gap < 3"]}, "gap < 3 is declared irreversible but is not"),
        ({"irreversible": ["spede < 3"]}, "irreversible, column 1: unknown signal"),
        ({"constraints": ["gap <"]}, "constraints, column 6: expected a signal"),
        (
            {"predicates": ["wet", "speed <"]},
            "predicate 2, column 8: expected a signal",
        ),
        ({"predicates": ["bands(speed)"]}, "predicate 1: 'bands' needs a signal"),
        ({"predicates": ["bands(speed, 1, x)"]}, "predicate 1, column 9: unknown"),
        ({"predicates": ["bands(speed, 1,)"]}, "predicate 1, column 9: expected"),
        ({"predicates": []}, "predicates: expected at least one entry, found none"),
        (
            {"predicates": [{"when": "wet", "latch": "some"}]},
            "predicates.0.latch: 'some' is not",
        ),
        ({"predicates": [{"when": "wet", "lag_s": -1}]}, "predicates.0.lag_s"),
        ({"predicates": [{"when": "wet", "lag_s": []}]}, "predicates.0.lag_s"),
        (
            {"predicates": [{"when": "wet", "lag_s": 0.7}]},
            "not a multiple of the period",
        ),
        ({"predicates": [{"when": "wet", "lag_s": [1, 1]}]}, "appears twice"),
        ({"predicates": ["wet", 3]}, "predicates.1: a predicate must be a condition"),
        ({"predicates": [{"wen": "wet"}]}, "unknown key 'wen' (did you mean when?)"),
        ({"predicate": ["wet"]}, "unknown key 'predicate' (did you mean predicates?)"),
        ({"period_s": 0}, "period_s: the value should be greater than 0, but is 0"),
        ({"period_s": math.nan}, "period_s"),
        ({"format": "forewarn.abstraction/2"}, "format"),
        ({"vocabulary": "drivign"}, "is not a built-in vocabulary (did you mean driv"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_place(
    changes: dict[str, Any], says: str
) -> None:
    given_one = None if "vocabulary" in changes else VOCABULARY
    content = FILE | {"irreversible": [], "constraints": []} | changes
    with pytest.raises(InvalidInput) as caught:
        Abstraction.from_dict(content, "approach.yaml", given_one)
    assert says in str(caught.value)
    if "vocabulary" not in changes:
        assert str(caught.value).startswith("approach.yaml: ")


def test_a_file_that_is_not_a_mapping_is_refused() -> None:
    odd: tuple[Any, ...] = (None, [], "predicates", 3)
    for content in odd:
        with pytest.raises(InvalidAbstraction, match="expected a mapping"):
            Abstraction.from_dict(content, "approach.yaml")


def test_bands_are_the_comparisons_they_stand_for() -> None:
    abstraction = from_expressions(["bands(speed, 0.5, 5 km/h, 8 m/s)"], VOCABULARY)
    assert abstraction.texts == ("speed < 0.5", "speed < 5 km/h", "speed < 8 m/s")
    states = [abstraction.encode({"speed": speed}) for speed in (0.4, 0.5, 28.7, 28.8)]
    assert states == [0b111, 0b110, 0b100, 0b000]
    with pytest.raises(InvalidExpression):
        from_expressions(["bands(speed, fast)"], VOCABULARY)


def test_a_predicate_of_truths_and_numbers_reads_both() -> None:
    abstraction = from_expressions(["x > 1 and wet", "x < 3", "dark"])
    assert abstraction.signals == ("x", "wet", "dark")
    assert set(signals_of(abstraction.predicates[0].expression)) == {"x", "wet"}
    assert abstraction.encode({"x": 2, "wet": True, "dark": None}) == 0b011


@given(st.lists(halves(), min_size=1, max_size=3), st.sampled_from(TRUTHS))
def test_equal_texts_are_found_however_written(bounds: list[float], truth: str) -> None:
    texts = [f"x<{bounds[0]}", truth, f"{bounds[0]} > x"]
    with pytest.raises(InvalidAbstraction, match="appears twice"):
        from_expressions(texts)


def test_predicate_with_a_lag_reads_an_earlier_frame() -> None:
    content = {
        "format": "forewarn.abstraction/1",
        "name": "then and now",
        "period_s": 0.1,
        "predicates": ["a", {"when": "a or b", "lag_s": [0.0, 0.5]}, "b"],
        "constraints": [],
        "irreversible": [],
    }
    abstraction = Abstraction.from_dict(content, "a file")
    assert abstraction.as_dict() == content
    assert abstraction.texts == ("a", "a or b", "(a or b) 0.5 s ago", "b")
    assert abstraction.encode({"a": False, "b": True}) == 0b1110
    # What was so then says nothing of now, and is pruned by nothing that is.
    assert abstraction.decides(abstraction.predicates[2].expression)(0b0010)
    assert not abstraction.decides(abstraction.predicates[2].expression)(0b0100)
    assert abstraction.is_valid(0b0100) and not abstraction.is_valid(0b0001)
    del content["period_s"]
    with pytest.raises(InvalidAbstraction, match="'lag_s' needs a sampling period"):
        Abstraction.from_dict(content, "a file")
