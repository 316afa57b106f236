"""Laws on chains: published products, and every engine beside the others."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.chain import END, Chain
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.law_checking import LawAnswer, check_law, laws_on
from forewarn.monitors.checking.properties import define
from tests.monitors.checking.cases import chains, labelled

LAWS = (
    "always(not a)",
    "always(a -> eventually[0,2 steps] b)",
    "always(a -> eventually[1,3 steps] b)",
    "always(a -> next b)",
    "always(once[0,1 steps] a -> b)",
    "always((a -> eventually[0,2 steps] b) and (b -> eventually[0,1 steps] a))",
)


def answer(text: str, labelling: Labelling, **options: object) -> LawAnswer:
    (law,) = laws_on(labelling, text)
    return check_law(law, labelling, **options)  # type: ignore[arg-type]


@st.composite
def chains_with_an_end(draw: st.DrawFn) -> Chain:
    """The chain of `chains`, where one state may be taken as END."""
    chain = draw(chains())
    if chain.n == 1 or not draw(st.booleans()):
        return chain
    last = chain.n - 1
    rows = {i: chain.exact_row(i) for i in range(last)}
    labels = {name: group - {last} for name, group in chain.labels.items()}
    names = [*chain.states[:last], END]
    return Chain.from_rows(
        names, {**rows, last: {last: Fraction(1)}}, labels=labels, end=last
    )


@pytest.mark.needs("stormpy")
@given(chains_with_an_end(), st.sampled_from(LAWS), st.sampled_from([None, 0, 1, 4]))
def test_the_layers_agree_with_the_product_in_fractions(
    chain: Chain, law: str, within: int | None
) -> None:
    labelling = Labelling(chain)
    ours = answer(law, labelling, within=within)
    exact = answer(law, labelling, within=within, exact=True)
    assert exact.exact is not None
    assert ours.monitor == exact.monitor
    both = ours.possible & exact.possible
    assert ours.values[both] == pytest.approx(exact.values[both], abs=1e-12)
    # Whoever has read just the state it is in is among the pairs of both.
    for state in range(chain.n):
        if state != chain.end:
            assert both[ours.fresh[state], state]


@pytest.mark.needs("stormpy")
@given(chains_with_an_end(), st.sampled_from(LAWS), st.sampled_from([None, 3]))
def test_the_layers_agree_with_storm(
    chain: Chain, law: str, within: int | None
) -> None:
    labelling = Labelling(chain)
    ours = answer(law, labelling, within=within)
    storms = answer(law, labelling, within=within, engine="storm")
    both = ours.possible & storms.possible
    assert both.any()
    assert ours.values[both] == pytest.approx(storms.values[both], abs=1e-12)


@pytest.mark.needs("stormpy")
def test_published_products(shared_data: Path) -> None:
    content = json.loads((shared_data / "models" / "values.json").read_text())
    for name, product in content["products"].items():
        chain = load_model(shared_data / "models" / f"{name}.prism").chain
        labelling = labelled(
            chain,
            "a=" + "|".join(f"s={i}" for i in product["trigger_states"]),
            "b=" + "|".join(f"s={i}" for i in product["target_states"]),
        )
        for title, case in product["cases"].items():
            paper = "paper" in title
            law = f"always(a -> eventually[0,{case['K']} steps] b)"
            for within, expected in [
                (None, case["unbounded"]),
                *case["bounded"].items(),
            ]:
                found = answer(
                    law,
                    labelling,
                    within=None if within is None else int(within),
                    semantics="paper" if paper else "exact",
                )
                for q, values in expected.items():
                    row = _name(int(q), case["viol_index"], paper)
                    at = found.monitor.index(row)
                    assert found.values[at] == pytest.approx(values, abs=1e-10), title


def _name(q: int, violated: int, paper: bool) -> str:
    if q == violated:
        return "violated"
    return f"wait:{q - paper}" if q else "idle"


def test_an_abstraction_decides_the_propositions() -> None:
    vocabulary = load_vocabulary("driving")
    abstraction = from_expressions(["speed < 0.5", "brake > 5"], vocabulary)
    half = Fraction(1, 2)
    chain = Chain.from_rows(
        ["00", "10", "01"],
        {0: {0: half, 2: half}, 1: {1: Fraction(1)}, 2: {0: half, 1: half}},
    )
    labelling = Labelling(chain, abstraction)
    define(labelling, 'hard="brake > 5"')
    text = "always({} -> eventually[0, 1 s] speed < 0.5)"
    by_text = answer(text.format("brake > 5"), labelling, period_s=1.0)
    by_name = answer(text.format("hard"), labelling, period_s=1.0)
    assert np.array_equal(by_text.values, by_name.values)
    # From 00 a hard brake comes for sure; then half of them do not stop in time.
    idle = by_text.values[by_text.monitor.index("idle")]
    assert idle[0] == pytest.approx(1 / 2)
    with pytest.raises(InvalidInput, match="cannot decide speed < 3"):
        answer("always(speed < 3)", labelling, period_s=1.0)


def test_a_law_with_too_many_letters_is_compiled_for_those_that_occur() -> None:
    names = [f"p{i}" for i in range(14)]
    chain = Chain.from_rows(["x", "y"], {0: {1: Fraction(1)}}, initial=0)
    labelling = labelled(chain, *(f"{name}=s=x" for name in names))
    inside = " and ".join(f"({n} -> next (not {n}))" for n in names)
    found = answer(f"always({inside})", labelling)
    assert found.values[0].tolist() == [0.0, 0.0]


def test_a_name_that_nothing_defines_is_refused() -> None:
    chain = Chain.from_rows(["x"], {}, labels={"a": frozenset({0})})
    labelling = Labelling(chain)
    with pytest.raises(InvalidInput, match=r"'b' is not defined .*--define 'b=...'"):
        answer("always(a -> b)", labelling)
    with pytest.raises(
        InvalidInput, match="'speed < 0.5' is not defined on the states"
    ):
        answer("always(speed < 0.5)", labelling)


def test_what_is_owed_at_the_end_is_decided_by_the_last_state() -> None:
    third = Fraction(1, 3)
    chain = Chain.from_rows(
        ["a", "b", END],
        {0: {0: third, 1: third, 2: third}, 1: {2: Fraction(1)}, 2: {2: Fraction(1)}},
        labels={"a": frozenset({0}), "b": frozenset({1})},
        end=2,
    )
    found = answer("always(a -> eventually[0,2 steps] b)", Labelling(chain), exact=True)
    at = {name: i for i, name in enumerate(found.monitor)}
    assert found.exact is not None
    # In a with all the time left: END at once or after one more a, or a third a.
    assert found.exact[at["wait:2"], 0] == third + third * (third + third)
    assert found.exact[at["wait:1"], 0] == 2 * third
    assert found.exact[at["idle"], 1] == 0
    assert found.exact[at["wait:1"], 2] == 1
    assert found.exact[at["idle"], 2] == 0


def test_the_initial_state_does_not_limit_the_answer() -> None:
    chain = Chain.from_rows(
        ["x", "y"], {0: {0: Fraction(1)}}, initial=0, labels={"a": frozenset({1})}
    )
    for exact in (False, True):
        found = answer("always(not a)", Labelling(chain), exact=exact)
        at = found.monitor.index("violated")
        assert found.possible[at, 1]
        assert found.values[at, 1] == 1
        assert found.fresh.tolist() == [0, at]
    assert replace(chain).initial == 0
