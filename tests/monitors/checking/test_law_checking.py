"""Laws on chains: published products, and every engine beside the others."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.chain import END, Chain
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.law_checking import (
    LawAnswer,
    check_law,
    compiled_on,
    laws_on,
)
from forewarn.monitors.checking.properties import define
from forewarn.monitors.checking.storm import ask_storm
from forewarn.monitors.risk.evidence import letters_of_states
from tests.monitors.checking.cases import chains, labelled
from tests.monitors.published import published
from tests.oracles.product import product_chain

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


def by_product(
    text: str, labelling: Labelling, within: int | None = None, exact: bool = True
) -> tuple[tuple[str, ...], Any, Any]:
    """The monitor's states, the probabilities that Storm computes on the product, and
    the pairs that can occur.
    """
    (law,) = laws_on(labelling, text)
    automaton = compiled_on(labelling, law, None)
    chain = replace(labelling.chain, initial=None)
    letters = letters_of_states(chain, automaton, labelling.proposition)
    product = product_chain(chain, letters, automaton)
    broken = np.isin(np.arange(product.n), list(product.labels["violated"]))
    bound = "" if within is None else f"<={within}"
    asked = f'P=? [ F{bound} "violated" ]'
    found = ask_storm(product, asked, {"violated": broken}, exact=exact)
    shape = (automaton.n, chain.n)
    values, possible = np.full(shape, Fraction(0), dtype=object), np.zeros(shape, bool)
    for pair, value in zip(product.states, found.tolist(), strict=True):
        state, _, monitor = pair.rpartition("|")
        # END is split by pending obligations: END, END:2, ...; the worst one counts.
        at = automaton.names.index(monitor), chain.number.get(state, chain.end)
        values[at] = max(values[at], value)
        possible[at] = True
    return automaton.names, values, possible


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
    names, exact, possible = by_product(law, labelling, within)
    assert ours.monitor == names
    both = ours.possible & possible
    assert ours.values[both] == pytest.approx(exact[both].astype(float), abs=1e-12)
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
    _, storms, possible = by_product(law, labelling, within, exact=False)
    both = ours.possible & possible
    assert both.any()
    assert ours.values[both] == pytest.approx(storms[both].astype(float), abs=1e-12)


@pytest.mark.needs("stormpy")
def test_published_products(shared_data: Path) -> None:
    content = json.loads((shared_data / "models" / "values.json").read_text())
    for name, product in content["products"].items():
        chain = published(shared_data / "models" / f"{name}.prism")
        labelling = labelled(
            chain,
            "a=" + "|".join(f"s={i}" for i in product["trigger_states"]),
            "b=" + "|".join(f"s={i}" for i in product["target_states"]),
        )
        for title, case in product["cases"].items():
            paper = "paper" in title  # which waits one step longer
            law = f"always(a -> eventually[0,{case['K'] + paper} steps] b)"
            for within, expected in [
                (None, case["unbounded"]),
                *case["bounded"].items(),
            ]:
                steps = None if within is None else int(within)
                found = answer(law, labelling, within=steps)
                for q, values in expected.items():
                    row = f"wait:{q}" if int(q) else "idle"
                    row = "violated" if int(q) == case["viol_index"] else row
                    at = found.monitor.index(row)
                    assert found.values[at] == pytest.approx(values, abs=1e-10), title


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
    with pytest.raises(InvalidInput, match="whether speed < 3 is true"):
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


def test_pending_obligation_at_the_end_is_decided_by_the_last_state() -> None:
    third = Fraction(1, 3)
    chain = Chain.from_rows(
        ["a", "b", END],
        {0: {0: third, 1: third, 2: third}, 1: {2: Fraction(1)}, 2: {2: Fraction(1)}},
        labels={"a": frozenset({0}), "b": frozenset({1})},
        end=2,
    )
    found = answer("always(a -> eventually[0,2 steps] b)", Labelling(chain))
    at = {name: i for i, name in enumerate(found.monitor)}
    # In a with all the time left: END at once or after one more a, or a third a.
    assert found.values[at["wait:2"], 0] == pytest.approx(5 / 9)
    assert found.values[at["wait:1"], 0] == pytest.approx(2 / 3)
    assert found.values[at["idle"], 1] == 0
    assert found.values[at["wait:1"], 2] == 1
    assert found.values[at["idle"], 2] == 0


def test_the_initial_state_does_not_limit_the_answer() -> None:
    chain = Chain.from_rows(
        ["x", "y"], {0: {0: Fraction(1)}}, initial=0, labels={"a": frozenset({1})}
    )
    found = answer("always(not a)", Labelling(chain))
    at = found.monitor.index("violated")
    assert found.possible[at, 1]
    assert found.values[at, 1] == 1
    assert found.fresh.tolist() == [0, at]
