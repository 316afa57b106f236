"""The synchronous product as a chain of its own, and what Storm says of it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.chains import chain as chain_module
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.drn import write_drn
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk import product as product_module
from forewarn.monitors.risk.product import (
    Reading,
    consistent_pairs,
    read_chain,
)
from forewarn.monitors.risk.tables import violation_ever, violation_within
from tests.dense import from_dense
from tests.oracles.product import product_chain


def law(text: str) -> Automaton:
    return compile_law(parse_formula(text))


RESPONSE = law("always (a -> eventually[0, 2 steps] b)")
PAST = law("always (once[0, 2 steps] a -> eventually[0, 1 steps] b)")


def light(end: int | None = None) -> Chain:
    third = Fraction(1, 3)
    rows: dict[int, dict[int, Any]] = {
        0: {0: third, 1: 2 * third},
        1: {1: third, 2: 2 * third},
        2: {2: 1},
    }
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
    half = Fraction(1, 2)
    rows: dict[int, dict[int, Any]] = {
        0: {0: half, 2: half},
        1: {2: Fraction(1)},
        2: {2: Fraction(1)},
    }
    chain = Chain.from_rows(["a", "b", "END"], rows, end=2)
    product = product_chain(chain, column(RESPONSE, 1, 2, 0), RESPONSE)
    ends = {s for s in product.states if s.startswith("END")}
    assert "END:2|idle" in ends and "END|wait:1" in ends
    for name in ("END:2|idle", "END|violated"):
        assert product.exact_row(product.index(name)) == {product.index(name): 1}


def test_without_an_initial_state_it_starts_everywhere() -> None:
    chain = Chain.from_rows(["x", "y"], {0: {0: 1.0}, 1: {1: 1.0}})
    product = product_chain(chain, column(RESPONSE, 0, 1), RESPONSE)
    assert product.initial is None
    assert {"x|idle", "y|wait:2", "y|wait:1", "y|violated"} == set(product.states)


@pytest.mark.parametrize(
    ("limit", "size"), [("MAX_STATES", 6), ("MAX_TRANSITIONS", 10)]
)
def test_a_product_that_is_too_large_is_refused(
    limit: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, letters = light(), column(RESPONSE, 0, 1, 2)
    monkeypatch.setattr(chain_module, limit, size)
    product = product_chain(chain, letters, RESPONSE)
    assert size in (product.n, len(product.indices))
    monkeypatch.setattr(chain_module, limit, size - 1)
    with pytest.raises(TooLarge, match="the product with the law: .* exceed the limit"):
        product_chain(chain, letters, RESPONSE)


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
    return from_dense(names, matrix, initial=0, end=n - 1 if end else None)


# -- against the definition, pair by pair ---------------------------------------------

Walker = tuple[int, int]
"""A state, and the letter read there: END's is that of the state before."""


def any_chain(rng: np.random.Generator) -> Chain:
    """A chain that begins in a state or anywhere, with END at any number or none."""
    n = int(rng.integers(2, 7))
    matrix = rng.dirichlet(np.full(n, 0.4), n) * (rng.random((n, n)) < 0.6)
    matrix[matrix.sum(axis=1) == 0] = np.eye(n)[0]
    matrix /= matrix.sum(axis=1, keepdims=True)
    end = int(rng.integers(0, n)) if rng.random() < 0.7 else None
    names = [f"s{i}" for i in range(n)]
    if end is not None:
        matrix[end] = np.eye(n)[end]
        names[end] = "END"
    initial = int(rng.integers(0, n)) if rng.random() < 0.5 else None
    return from_dense(
        names, matrix, initial=initial, end=end, labels={"even": set(range(0, n, 2))}
    )


class ByHand:
    """What a monitor reads along a chain, one walker at a time."""

    def __init__(self, chain: Chain, letters: np.ndarray) -> None:
        self.chain, self.letters = chain, letters.tolist()
        entering = {
            self.letters[s]
            for s in range(chain.n)
            if s != chain.end and chain.end in chain.row(s)
        }
        self.kinds = sorted(entering) or [0]

    def at(self, state: int) -> Walker:
        at_end = state == self.chain.end
        return state, self.kinds[0] if at_end else self.letters[state]

    def everywhere(self) -> list[Walker]:
        walkers = [self.at(state) for state in range(self.chain.n)]
        if self.chain.end is not None:
            walkers += [(self.chain.end, kind) for kind in self.kinds[1:]]
        return walkers

    def row(self, walker: Walker) -> dict[Walker, float]:
        state, letter = walker
        end = self.chain.end
        return {
            (j, letter if j == end else self.letters[j]): p
            for j, p in self.chain.row(state).items()
        }

    def name(self, walker: Walker) -> str:
        state, letter = walker
        copy = self.kinds.index(letter) if state == self.chain.end else 0
        return self.chain.states[state] + (f":{copy + 1}" if copy else "")

    def number(self, walker: Walker) -> int:
        state, letter = walker
        copy = self.kinds.index(letter) if state == self.chain.end else 0
        return self.chain.n + copy - 1 if copy else state


def read(chain: Chain, letters: np.ndarray, automaton: Automaton) -> Reading:
    return read_chain(chain.indptr, chain.indices, chain.end, letters, automaton)


@pytest.mark.parametrize("seed", range(40))
def test_a_chain_is_read_as_its_walkers_read_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = any_chain(rng)
    letters = rng.integers(0, 4, chain.n)
    by_hand = ByHand(chain, letters)
    reading = read(chain, letters, RESPONSE)
    walkers = by_hand.everywhere()
    assert reading.n == len(walkers) and reading.size == chain.n
    assert reading.letters.tolist() == [letter for _, letter in walkers]
    assert [by_hand.number(walker) for walker in walkers] == list(range(reading.n))
    ends = [i for i, (state, _) in enumerate(walkers) if state == chain.end]
    assert reading.ends.tolist() == ends
    weights, sources = reading.weights(chain.data).tolist(), reading.sources().tolist()
    assert len(weights) == len(sources) == reading.indices.size
    for i, walker in enumerate(walkers):
        at = slice(*reading.indptr[i : i + 2].tolist())
        assert set(sources[at]) == {i}
        expected = {by_hand.number(w): p for w, p in by_hand.row(walker).items()}
        assert reading.indices[at].tolist() == sorted(expected)
        assert weights[at] == [expected[j] for j in sorted(expected)]
    values = rng.random((3, reading.n))
    kept = values[:, : chain.n].copy()
    if chain.end is not None:
        kept[:, chain.end] = values[:, ends].max(axis=1)
    assert np.array_equal(reading.restore(values), kept)


@pytest.mark.parametrize("seed", range(40))
def test_the_product_is_that_of_walkers_and_monitor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = any_chain(rng)
    letters = rng.integers(0, 4, chain.n)
    by_hand = ByHand(chain, letters)
    found = product_chain(chain, letters, RESPONSE)

    def read(q: int, walker: Walker) -> tuple[Walker, int]:
        return walker, int(RESPONSE.step[q, walker[1]])

    initial = chain.initial
    starts = by_hand.everywhere() if initial is None else [by_hand.at(initial)]
    pairs = [read(0, walker) for walker in starts]
    named: dict[str, dict[str, float]] = {}
    labels: dict[str, set[str]] = {"even": set(), "pending": set(), "violated": set()}

    def name(pair: tuple[Walker, int]) -> str:
        return f"{by_hand.name(pair[0])}|{RESPONSE.names[pair[1]]}"

    for pair in pairs:
        (state, _), q = pair
        if name(pair) in named:
            continue
        row = {read(q, w): p for w, p in by_hand.row(pair[0]).items()}
        named[name(pair)] = {name(after): p for after, p in row.items()}
        pairs += row
        true = {
            "even": state % 2 == 0,
            "pending": RESPONSE.pending[q],
            "violated": q == RESPONSE.violated,
        }
        for label, holds in true.items():
            if holds:
                labels[label].add(name(pair))
    assert {
        found.states[i]: {found.states[j]: p for j, p in found.row(i).items()}
        for i in range(found.n)
    } == named
    assert {
        label: {found.states[i] for i in group} for label, group in found.labels.items()
    } == labels
    if initial is None:
        assert found.initial is None
    else:
        assert found.initial == 0 and found.states[0] == name(pairs[0])


def test_letters_that_do_not_fit_the_chain_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = light(end=2)
    for letters in ([0, -1, 0], [0, 4, 0]):
        with pytest.raises(
            InvalidModel,
            match=("a letter is outside the monitor's table, which has 4"),
        ):
            read(chain, np.array(letters), RESPONSE)
    with pytest.raises(InvalidModel, match="3 states, but 2 of them have letters"):
        read(chain, np.array([0, 1]), RESPONSE)
    # END's own letter is never looked at.
    given = np.array([0, 1, 99])
    assert read(chain, given, RESPONSE).letters.tolist() == [0, 1, 1]
    assert given.tolist() == [0, 1, 99]
    one_letter = compile_law(RESPONSE.formula, letters=[0])
    assert read(chain, np.zeros(3), one_letter).letters.tolist() == [0, 0, 0]
    monkeypatch.setattr(product_module, "MAX_PAIRS", 4 * 3)
    assert read(chain, np.array([0, 3, 0]), RESPONSE).n == 3
    monkeypatch.setattr(product_module, "MAX_PAIRS", 4 * 3 - 1)
    with pytest.raises(TooLarge, match="3 states with 4 monitor states make more than"):
        read(chain, np.array([0, 3, 0]), RESPONSE)


# -- against Storm --------------------------------------------------------------------


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
