"""The synchronous product as a chain of its own, and what Storm says of it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from forewarn.abstractions.errors import TooLarge
from forewarn.monitors.chains import chain as chain_module
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.drn import write_drn
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk.product import consistent_pairs, product_chain
from forewarn.monitors.risk.tables import violation_ever, violation_within


def law(text: str) -> Automaton:
    return compile_law(parse_formula(text))


RESPONSE = law("always (a -> eventually[0, 2 steps] b)")
PAST = law("always (once[0, 2 steps] a -> eventually[0, 1 steps] b)")


def light(end: int | None = None) -> Chain:
    third = Fraction(1, 3)
    rows = {0: {0: third, 1: 2 * third}, 1: {1: third, 2: 2 * third}, 2: {2: 1}}
    names = ("green", "red", "gone" if end is None else "END")
    return Chain.from_rows(names, rows, initial=0, end=end, labels={"lit": {0, 1}})


def column(automaton: Automaton, *letters: int) -> np.ndarray:
    places = {mask: i for i, mask in enumerate(automaton.letters)}
    return np.array([places[mask] for mask in letters])


def test_pairs_are_named_and_labelled() -> None:
    product = product_chain(light(), column(RESPONSE, 0, 1, 2), RESPONSE)
    assert product.states[product.initial or 0] == "green|idle"
    assert set(product.states) == {
        "green|idle", "red|wait:2", "red|wait:1", "red|violated", "gone|idle",
        "gone|violated",
    }  # fmt: skip
    by_label = {
        name: {product.states[i] for i in group}
        for name, group in product.labels.items()
    }
    assert by_label["violated"] == {"red|violated", "gone|violated"}
    assert by_label["pending"] == {"red|wait:2", "red|wait:1"}
    assert by_label["lit"] == {s for s in product.states if not s.startswith("gone")}


def test_exact_probabilities_stay_exact() -> None:
    product = product_chain(light(), column(RESPONSE, 0, 1, 2), RESPONSE)
    waiting = product.index("red|wait:2")
    assert product.exact_row(waiting) == {
        product.index("red|wait:1"): Fraction(1, 3),
        product.index("gone|idle"): Fraction(2, 3),
    }


def test_END_goes_on_reading_the_letter_it_was_entered_from() -> None:
    chain = light(end=2)
    # END is entered from red: what red owes is decided by red, again and again.
    product = product_chain(chain, column(RESPONSE, 0, 1, 0), RESPONSE)
    assert {s for s in product.states if s.startswith("END")} == {
        "END|wait:1", "END|violated",
    }  # fmt: skip


def test_END_is_split_when_it_is_entered_from_two_letters() -> None:
    rows = {0: {0: 0.5, 2: 0.5}, 1: {2: 1.0}, 2: {2: 1.0}}
    chain = Chain.from_rows(["a", "b", "END"], rows, end=2)
    product = product_chain(chain, column(RESPONSE, 1, 2, 0), RESPONSE)
    ends = {s for s in product.states if s.startswith("END")}
    assert "END:2|idle" in ends and "END|wait:1" in ends
    assert product.row(product.index("END:2|idle")) == {
        product.index("END:2|idle"): 1.0
    }


def test_without_an_initial_state_it_starts_everywhere() -> None:
    chain = Chain.from_rows(["x", "y"], {0: {0: 1.0}, 1: {1: 1.0}})
    product = product_chain(chain, column(RESPONSE, 0, 1), RESPONSE)
    assert product.initial is None
    assert {"x|idle", "y|wait:2", "y|wait:1", "y|violated"} == set(product.states)


def test_a_product_that_is_too_large_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chain_module, "MAX_TRANSITIONS", 5)
    with pytest.raises(TooLarge, match="the product with the law: .* transitions"):
        product_chain(light(), column(RESPONSE, 0, 1, 2), RESPONSE)


def test_which_pairs_can_occur() -> None:
    pairs = consistent_pairs(RESPONSE, column(RESPONSE, 0, 1, 2, 0), end=3)
    names = np.array(RESPONSE.names)
    assert set(names[pairs[:, 0]]) == {"idle", "wait:1", "violated"}
    assert set(names[pairs[:, 1]]) == {"wait:1", "wait:2", "violated"}
    assert set(names[pairs[:, 2]]) == {"idle", "violated"}
    assert pairs[:, 3].all()


def random_chain(rng: np.random.Generator, n: int, end: bool) -> Chain:
    matrix = rng.dirichlet(np.full(n, 0.4), n)
    matrix[matrix < 1e-3] = 0
    matrix /= matrix.sum(axis=1, keepdims=True)
    if end:
        matrix[-1] = np.eye(n)[-1]
    names = [f"s{i}" for i in range(n - end)] + ["END"] * end
    return Chain.from_dense(names, matrix, initial=0, end=n - 1 if end else None)


@pytest.mark.needs("stormpy")
@pytest.mark.parametrize("automaton", [RESPONSE, PAST], ids=["response", "past"])
@pytest.mark.parametrize("end", [False, True])
def test_storm_agrees_on_the_product(
    automaton: Automaton, end: bool, tmp_path: Path
) -> None:
    import stormpy

    rng = np.random.default_rng(11)
    compared = 0
    for trial, n in enumerate((3, 8, 15, 15)):
        chain = random_chain(rng, n, end)
        letters = rng.integers(0, len(automaton.letters), n)
        product = product_chain(chain, letters, automaton)
        file = tmp_path / f"{trial}.drn"
        with file.open("w") as out:
            write_drn(product, out)
        model = stormpy.build_model_from_drn(str(file))
        assert model.nr_states == product.n
        if not product.labels["violated"]:
            continue  # Storm knows no label without states
        ever = violation_ever(chain, letters, automaton)
        within = violation_within(chain, letters, automaton, 7)
        # Storm's own precision is 1e-6 without a bound.
        for text, ours, precision in (
            ('P=? [F "violated"]', ever, 1e-6),
            ('P=? [F<=7 "violated"]', within, 1e-10),
        ):
            (formula,) = stormpy.parse_properties(text)
            result = stormpy.model_checking(model, formula)
            for pair, name in enumerate(product.states):
                state, monitor = name.split("|")
                if state in chain.states and state != "END":
                    q, s = automaton.names.index(monitor), chain.index(state)
                    theirs = result.get_value(pair)
                    assert ours[q, s] == pytest.approx(theirs, abs=precision)
                    compared += theirs > 0
    assert compared > 100
