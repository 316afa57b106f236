"""Properties: what they mean, what Storm says of them, and what is rejected."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import (
    InvalidInput,
    InvalidProperty,
    MissingDependency,
    TooLarge,
)
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.properties import (
    MAX_STEPS,
    Answer,
    check,
    parse_property,
)
from tests.monitors.checking.cases import (
    BOUNDS,
    GOLDEN,
    chains,
    golden,
    labelled,
    paths,
)
from tests.monitors.published import published

storm = pytest.mark.needs("stormpy")


def ask(
    text: str, chain: Chain, engine: str = "builtin", exact: bool = False
) -> Answer:
    labelling = Labelling(chain)
    return check(parse_property(text, labelling), labelling, engine, exact)


# What the formulas mean


def satisfied(text: str, left: Sequence[bool], right: Sequence[bool]) -> bool:
    """Whether a path satisfies a bounded formula, by each operator's definition."""
    if text.startswith("X"):
        return right[1]
    moments = range(len(right))
    if text.startswith("F"):
        return any(right)
    if text.startswith("G"):
        return all(right)
    return any(right[j] and all(left[:j]) for j in moments)


def by_enumeration(text: str, chain: Chain) -> list[float]:
    """The probability of a bounded path formula, path by path."""
    head, bound, *rest = text.replace("U", "U ").split() if " U" in text else ["", text]
    if rest:
        left_text, operator, right_text = head, bound, rest[-1]
    else:
        left_text, (operator, right_text) = "true", text.split(maxsplit=1)
    if " U" in text:
        left_text, tail = text.split(" U")
        operator, right_text = tail.split(maxsplit=1)
    left, right = (ask(part, chain).values for part in (left_text, right_text))
    digits = "".join(c for c in operator if c.isdigit())
    steps = (
        1
        if text.startswith("X")
        else int(digits) - ("<" in operator and "<=" not in operator)
    )
    found = []
    for start in range(chain.n):
        total = Fraction(0)
        for tail_states in itertools.product(range(chain.n), repeat=steps):
            states = [start, *tail_states]
            chance = Fraction(1)
            for here, there in itertools.pairwise(states):
                chance *= chain.exact_row(here).get(there, 0)
            if chance and satisfied(
                text, left[states].tolist(), right[states].tolist()
            ):
                total += chance
        found.append(float(total))
    return found


@given(chains(most=4), paths([b for b in BOUNDS if b]))
def test_bounded_paths_are_counted_right(chain: Chain, text: str) -> None:
    found = ask(f"P=? [ {text} ]", chain).values
    assert found == pytest.approx(by_enumeration(text, chain), abs=1e-14)


@storm
@given(chains(), paths(BOUNDS))
def test_the_built_in_engine_agrees_with_storm(chain: Chain, text: str) -> None:
    ours = ask(f"P=? [ {text} ]", chain)
    storms = ask(f"P=? [ {text} ]", chain, "storm")
    exact = ask(f"P=? [ {text} ]", chain, exact=True)
    assert (ours.engine, storms.engine, exact.engine) == ("builtin", "storm", "storm")
    assert exact.exact is not None
    assert ours.values == pytest.approx(exact.values, abs=1e-13)
    assert storms.values == pytest.approx(exact.values, abs=1e-12)


@storm
@given(chains(), paths(BOUNDS))
def test_rounding_never_decides_a_comparison(chain: Chain, text: str) -> None:
    numbers = ask(f"P=? [ {text} ]", chain, exact=True).exact
    assert numbers is not None
    for state, p in enumerate(numbers):
        verdicts = {"<": False, "<=": True, ">=": True, ">": False}
        for relation, expected in verdicts.items():
            found = ask(f"P{relation}{p} [ {text} ]", chain)
            assert found.values[state] == expected


def test_a_number_counts_as_equal_to_a_limit_that_it_differs_from_by_rounding() -> None:
    chain, _ = golden("die")
    assert ask('P>=1/3 [ F "one" ]', chain).values[1]
    assert not ask('P>1/3 [ F "one" ]', chain).values[1]
    # Whether a path is possible or certain is decided by the graph alone.
    rare = Chain.from_rows(["a", "b", "c"], {0: {1: 1e-13, 2: 1 - 1e-13}})
    assert ask("P>0 [ F b ]", rare).values[0]
    assert not ask("P>=1 [ G !b ]", rare).values[0]
    assert not ask("P>=1 [ G<=1 !b ]", rare).values[0]


def test_without_storm_nested_operators_name_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "stormpy", None)
    chain, _ = golden("die")
    with pytest.raises(MissingDependency):
        ask('P=? [ F P>0.5 [ F "one" ] ]', chain)


@given(chains(), paths(BOUNDS))
def test_the_risk_of_not_a_is_what_is_left(chain: Chain, text: str) -> None:
    for bound in BOUNDS:
        one, other = (ask(f"P=? [ {t} ]", chain).values
                      for t in (f'F{bound} "a"', f'G{bound} !"a"'))  # fmt: skip
        assert one + other == pytest.approx(np.ones(chain.n))


# Golden and published values


def questions() -> list[Any]:
    names = sorted(path.stem for path in GOLDEN.glob("*.yaml"))
    return [
        pytest.param(name, i, id=f"{name}: {question['property']}")
        for name in names
        for i, question in enumerate(golden(name)[1])
    ]


@storm
@pytest.mark.parametrize("engine", ["builtin", "exact", "storm"])
@pytest.mark.parametrize(("name", "number"), questions())
def test_golden(name: str, number: int, engine: str) -> None:
    chain, asked = golden(name)
    question = asked[number]

    def answered() -> Answer:
        labelling = labelled(chain, *question.get("define", ()))
        formula = parse_property(question["property"], labelling)
        return check(
            formula,
            labelling,
            "storm" if engine == "storm" else "builtin",
            exact=engine == "exact",
        )

    error = question.get("error")
    if ">=4" in question["property"]:
        error = (
            "rejects the property: Formula needs to have (a single) upper step bound"
        )
    if error:
        with pytest.raises(InvalidInput) as caught:
            answered()
        assert error in str(caught.value)
        return
    answer = answered()
    for state, expected in question["values"].items():
        place = chain.states.index(str(state))
        if isinstance(expected, bool):
            assert answer.values[place] == expected, state
        elif answer.exact is not None:
            assert answer.exact[place] == Fraction(expected), state
        else:
            value = answer.values[place]
            assert value == pytest.approx(float(Fraction(expected)), abs=1e-12), state


@storm
def test_published_values(shared_data: Path) -> None:
    content = json.loads((shared_data / "models" / "values.json").read_text())
    for name, model in content["models"].items():
        chain = published(shared_data / "models" / f"{name}.prism")
        for unsafe in model["unsafe_sets"].values():
            goal = "|".join(f"s={state}" for state in unsafe["states"])
            answer = ask(f"P=? [ F {goal} ]", chain)
            assert answer.values == pytest.approx(unsafe["unbounded"], abs=1e-13), name


@storm
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('S=? [ "one" ]', 1 / 6),
        ('P=? [ F P>=2/3 [ F "one" ] ]', 1 / 4),
        ('P=? [ F<=3 "done" & F "odd" ]', None),
        ('P>=0.1 [ F "one" ] & P>=0.1 [ F "two" ]', True),
    ],
)
def test_complex_properties_are_answered_by_storm(
    text: str, values: float | None
) -> None:
    chain, _ = golden("die")
    answer = ask(text, chain)
    assert answer.engine == "storm"
    if values is not None:
        assert answer.values[0] == pytest.approx(values)


# What is rejected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: the property is empty"),
        ("P=? [F a", "column 9: expected ']' to close the brackets of P"),
        ("P=? F a", "column 5: expected '[' after P, but found F"),
        ("P=? [F]", "column 7: expected a state formula, but found ]"),
        ("P=? [a]", "column 6: the brackets contain no path operator"),
        ("P=? [F a b]", "column 10: expected ']'"),
        ("P=? [F a]]", "column 10: expected the end of the property"),
        ("P=? [F<0 a]", "column 8: there is no step before step 0 (write <=0)"),
        ("P=? [F<=2.5 a]", "column 9: expected a whole number, but found 2.5"),
        ("P>=1.5 [F a]", "column 4: a probability must be between 0 and 1, not 1.5"),
        ("P>=-0.1 [F a]", "column 4: expected a probability"),
        ("P>=1/0 [F a]", "column 4: the probability '1/0' divides by zero"),
        ("P>=1e999 [F a]", "column 4: the probability 1e999 is too large"),
        ("P=0.5 [F a]", "column 2: expected =? or a bound such as >=0.9 after P"),
        ("AG a", "AG is not an operator here (write P>=1 [ G ... ] for AG"),
        ("P=? [a W b]", "column 8: W is not an operator here"),
        ("a=1.5", "column 3: a variable must be compared with a whole number, not 1.5"),
        (
            "s=",
            "column 3: a variable must be compared with a whole number, not nothing",
        ),
        ("3", "column 1: expected a state formula, but found 3"),
        ("a && b", "'&&' is not an operator here (write &)"),
        ("a and b", "'and' is not an operator here (write &)"),
        ("a -> b", "'->' is not an operator here (write =>)"),
        ("P=? [F 'a']", 'column 8: the character "\'" is not valid here'),
        ('P=? [F "a]', "column 8: the quoted name is not closed"),
        ('P=? [F ""]', "column 8: the name between the quotes is empty"),
        ("P=? [F\u00a0a]", "column 7: the character '\\xa0' is not valid here"),
        ("(" * 300, "the property is nested too deeply"),
        ("a" + " => a" * 300, "the property is nested too deeply"),
    ],
)
def test_rejects(text: str, message: str) -> None:
    chain = Chain.from_rows(["s0"], {}, labels={"a": frozenset(), "b": frozenset()})
    with pytest.raises(InvalidProperty) as caught:
        parse_property(text, Labelling(chain))
    assert message in str(caught.value)


def test_an_error_names_the_property_or_the_source() -> None:
    labelling = Labelling(Chain.from_rows(["s0"], {}))
    with pytest.raises(InvalidProperty, match=r"^P=\? \[F\]: column 7: "):
        parse_property("P=? [F]", labelling)
    with pytest.raises(InvalidProperty, match=r"^--define bad: column 6: "):
        parse_property("true b", labelling, "--define bad")


def test_a_bound_beyond_the_limit_is_rejected() -> None:
    labelling = Labelling(Chain.from_rows(["s0"], {}))
    parse_property(f"P=? [F<={MAX_STEPS} s0]", labelling)
    with pytest.raises(TooLarge, match="omit the horizon"):
        parse_property(f"P=? [F<={MAX_STEPS + 1} s0]", labelling)


@given(st.text('PFGUX=?<>[]()!&|"ab s013.,-', max_size=30))
def test_any_text_is_answered_or_rejected(text: str) -> None:
    chain = Chain.from_rows(["a", "b"], {}, initial=0)
    try:
        parse_property(text, Labelling(chain))
    except InvalidInput as error:
        assert str(error)


def test_operators_nested_three_thousand_deep_are_rejected() -> None:
    chain, _ = golden("die")
    with pytest.raises(TooLarge, match="limited to 300 words and symbols"):
        ask(f'P=? [ {"F " * 3000} "done" ]', chain)
