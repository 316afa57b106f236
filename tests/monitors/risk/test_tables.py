"""Risk against its definition, by enumerating paths and in published values."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import IntervalChain
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk import product, reaching, tables
from forewarn.monitors.risk.tables import (
    guard_bound,
    guard_risk,
    solve_risk,
    violation_ever,
    violation_within,
)
from tests.dense import from_dense

LAWS = (
    "always (a -> eventually[0, 2 steps] b)",
    "always (a -> eventually[1, 3 steps] b)",
    "always (not a)",
    "always (a -> next (not b))",
    "always (historically[0, 2 steps] a -> b)",
    "always (once[0, 2 steps] a -> eventually[0, 1 steps] b)",
    "always ((a -> eventually[0, 2 steps] b) and (b -> eventually[0, 1 steps] a))",
    "always (a -> (not a until b))",
    "eventually[0, 2 steps] b",
)
INVARIANTS = ("always (not a)", "always (a -> b)", "always (not (a and b))")
BOUNDED = [law for law in LAWS if "until" not in law]


def law(text: str, **options: Any) -> Automaton:
    return compile_law(parse_formula(text), **options)


@st.composite
def chains(draw: st.DrawFn, most: int = 4, end: bool | None = None) -> Chain:
    """Small chains in fractions, with an END if asked for (None: perhaps)."""
    n = draw(st.integers(2, most))
    has_end = draw(st.booleans()) if end is None else end
    rows: dict[int, dict[int, Fraction]] = {}
    for state in range(n - has_end):
        weights = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        if not any(weights):
            weights[draw(st.integers(0, n - 1))] = 1
        total = sum(weights)
        rows[state] = {j: Fraction(w, total) for j, w in enumerate(weights) if w}
    if has_end:
        rows[n - 1] = {n - 1: Fraction(1)}
    names = [f"s{i}" for i in range(n - has_end)] + ["END"] * has_end
    return Chain.from_rows(names, rows, end=n - 1 if has_end else None, initial=0)


def letters_for(automaton: Automaton, chain: Chain) -> st.SearchStrategy[Any]:
    column = st.integers(0, len(automaton.letters) - 1)
    letters = st.lists(column, min_size=chain.n, max_size=chain.n)
    return letters.map(lambda drawn: np.array(drawn, dtype=np.int64))


def random_chain(rng: np.random.Generator, n: int, stay: float = 0.5) -> Chain:
    matrix = rng.dirichlet(np.full(n, 0.3), n)
    matrix[matrix < 1e-4] = 0
    matrix = (1 - stay) * matrix / matrix.sum(axis=1, keepdims=True)
    matrix += stay * np.eye(n)
    return from_dense([f"s{i}" for i in range(n)], matrix, initial=0)


class Paths:
    """The definitions, followed path by path in exact arithmetic.

    END is not a state here: a path that enters it goes on reading its last letter.
    """

    def __init__(self, chain: Chain, letters: Any, automaton: Automaton) -> None:
        self.chain, self.automaton = chain, automaton
        self.letters = letters.tolist()

    def next(self, state: int, ended: bool) -> list[tuple[Fraction, int, bool]]:
        if ended:
            return [(Fraction(1), state, True)]
        row = self.chain.exact_row(state).items()
        return [
            (p, state if j == self.chain.end else j, j == self.chain.end)
            for j, p in row
        ]

    def literal(self, state: int, q: int, steps: int, ended: bool = False) -> Fraction:
        if q == self.automaton.violated:
            return Fraction(1)
        if steps == 0:
            return Fraction(0)
        return sum(
            (
                p * self.literal(j, self.read(self.automaton.step, q, j), steps - 1, e)
                for p, j, e in self.next(state, ended)
            ),
            Fraction(),
        )

    def guard(self, state: int, q: int, steps: int, ended: bool = False) -> Fraction:
        if q == self.automaton.violated:
            return Fraction(1)
        if steps == 0:
            return self.unmet(state, int(self.automaton.owed[q]), ended, 8)
        return sum(
            (
                p * self.guard(j, self.read(self.automaton.step, q, j), steps - 1, e)
                for p, j, e in self.next(state, ended)
            ),
            Fraction(),
        )

    def unmet(self, state: int, row: int, ended: bool, fuel: int) -> Fraction:
        if row in (0, 1):
            return Fraction(row)
        assert fuel, "the laws here settle within 8 steps"
        table = self.automaton.complete
        return sum(
            (
                p * self.unmet(j, self.read(table, row, j), e, fuel - 1)
                for p, j, e in self.next(state, ended)
            ),
            Fraction(),
        )

    def read(self, table: Any, row: int, state: int) -> int:
        return int(table[row, self.letters[state]])


def pairs_to_check(chain: Chain, automaton: Automaton) -> list[tuple[int, int]]:
    return [
        (q, s) for q in range(automaton.n) for s in range(chain.n) if s != chain.end
    ]


@given(data=st.data())
def test_literal_risk_is_what_the_paths_give(data: st.DataObject) -> None:
    automaton = law(data.draw(st.sampled_from(LAWS)))
    chain = data.draw(chains())
    letters = data.draw(letters_for(automaton, chain))
    steps = data.draw(st.integers(0, 4))
    values = violation_within(chain, letters, automaton, steps)
    paths = Paths(chain, letters, automaton)
    for q, s in pairs_to_check(chain, automaton):
        assert values[q, s] == pytest.approx(float(paths.literal(s, q, steps)), 1e-12)


@given(data=st.data())
def test_guard_risk_is_what_the_paths_give(data: st.DataObject) -> None:
    automaton = law(data.draw(st.sampled_from(BOUNDED)))
    chain = data.draw(chains(most=3))
    letters = data.draw(letters_for(automaton, chain))
    steps = data.draw(st.integers(0, 3))
    values = guard_risk(chain, letters, automaton, steps)
    paths = Paths(chain, letters, automaton)
    for q, s in pairs_to_check(chain, automaton):
        assert values[q, s] == pytest.approx(float(paths.guard(s, q, steps)), 1e-12)


@given(data=st.data())
def test_guard_risk_of_a_response_by_its_meaning(data: st.DataObject) -> None:
    """No automaton here: which of the obligations of a path go unmet?"""
    k, horizon = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 3))
    automaton = law(f"always (a -> eventually[0, {k} steps] b)")
    chain = data.draw(chains(most=3, end=False))
    letters = data.draw(letters_for(automaton, chain))
    values = guard_risk(chain, letters, automaton, horizon)
    masks = [automaton.letters[i] for i in letters]
    a, b = ([m >> i & 1 for m in masks] for i in (0, 1))

    def unmet(path: list[int], left: int) -> bool:
        pending = left > 0 and not any(b[s] for s in path[1 : left + 1])
        arising = any(
            a[path[t]] and not any(b[s] for s in path[t : t + k + 1])
            for t in range(1, horizon + 1)
        )
        return pending or arising

    def walk(path: list[int], left: int) -> Fraction:
        if len(path) == horizon + k + 1:
            return Fraction(unmet(path, left))
        row = chain.exact_row(path[-1]).items()
        return sum((p * walk([*path, j], left) for j, p in row), Fraction())

    for q, name in enumerate(automaton.names[:-1]):
        left = 0 if name == "idle" else int(name.removeprefix("wait:"))
        for s in range(chain.n):
            assert values[q, s] == pytest.approx(float(walk([s], left)), 1e-12)


@given(data=st.data())
def test_at_END_the_last_state_repeats_for_ever(data: st.DataObject) -> None:
    """The chain with END is as risky as one in which each state has its own END."""
    automaton = law(data.draw(st.sampled_from(LAWS)))
    chain = data.draw(chains(end=True))
    letters = data.draw(letters_for(automaton, chain))
    n, end = chain.n, chain.n - 1
    rows = {n + s: {n + s: Fraction(1)} for s in range(n)}
    for s in range(n):
        rows[s] = {
            j if j != end or s == end else n + s: p
            for j, p in chain.exact_row(s).items()
        }
    unrolled = Chain.from_rows([f"{i}" for i in range(2 * n)], rows)
    twice = np.concatenate([letters, letters])
    for with_end, without in (
        (
            violation_ever(chain, letters, automaton),
            violation_ever(unrolled, twice, automaton),
        ),
        (
            violation_within(chain, letters, automaton, 3),
            violation_within(unrolled, twice, automaton, 3),
        ),
        (
            guard_risk(chain, letters, automaton, 3),
            guard_risk(unrolled, twice, automaton, 3),
        ),
    ):
        assert with_end[:, :end] == pytest.approx(without[:, :end], abs=1e-12)


def test_pending_obligation_at_END_is_decided_by_the_last_state() -> None:
    """A trigger alone ends unmet, a response ends met; nothing owed ends well."""
    automaton = law("always (a -> eventually[0, 5 steps] b)")
    column = {mask: i for i, mask in enumerate(automaton.letters)}
    rows = {0: {3: 1.0}, 1: {3: 1.0}, 2: {3: 1.0}, 3: {3: 1.0}}
    chain = Chain.from_rows(["a", "b", "none", "END"], rows, end=3)
    letters = np.array([column[1], column[2], column[0], 0])
    idle, waiting = automaton.names.index("idle"), automaton.names.index("wait:5")
    for values in (
        violation_ever(chain, letters, automaton),
        guard_risk(chain, letters, automaton, 0),
        violation_within(chain, letters, automaton, 5),
    ):
        assert values[waiting, :3].tolist() == [1, 0, 1]
        assert values[idle, 1:3].tolist() == [0, 0]
    assert violation_within(chain, letters, automaton, 4)[waiting, 0] == 0


@given(data=st.data())
def test_risk_within_grows_with_the_horizon(data: st.DataObject) -> None:
    automaton = law(data.draw(st.sampled_from(LAWS)))
    chain = data.draw(chains())
    letters = data.draw(letters_for(automaton, chain))
    ever = violation_ever(chain, letters, automaton)
    for risk in (guard_risk, violation_within):
        before = np.zeros_like(ever)
        for steps in (0, 1, 2, 5, 40):
            now = risk(chain, letters, automaton, steps)
            assert (now >= before - 1e-12).all()
            before = now
        assert (ever >= before - 1e-12).all()


@given(data=st.data())
def test_names_and_numbers_of_states_do_not_matter(data: st.DataObject) -> None:
    automaton = law(data.draw(st.sampled_from(LAWS)))
    chain = data.draw(chains())
    letters = data.draw(letters_for(automaton, chain))
    order = data.draw(st.permutations(range(chain.n)))
    place = {old: new for new, old in enumerate(order)}
    renamed = Chain.from_rows(
        [f"other {chain.states[old]}" for old in order],
        {
            place[s]: {place[j]: p for j, p in chain.exact_row(s).items()}
            for s in range(chain.n)
        },
        end=None if chain.end is None else place[chain.end],
    )
    for risk in (violation_ever, partial(guard_risk, steps=4)):
        ours = risk(chain, letters, automaton)
        theirs = risk(renamed, letters[list(order)], automaton)
        assert ours[:, list(order)] == pytest.approx(theirs, abs=1e-12)


@given(data=st.data())
def test_one_more_unsafe_state_never_lowers_the_risk(data: st.DataObject) -> None:
    automaton = law("always (not a)")
    chain = data.draw(chains())
    letters = data.draw(letters_for(automaton, chain))
    column = {mask: i for i, mask in enumerate(automaton.letters)}
    worse = letters.copy()
    worse[data.draw(st.integers(0, chain.n - 1))] = column[1]
    for risk in (violation_ever, partial(guard_risk, steps=3)):
        assert (
            risk(chain, worse, automaton) >= risk(chain, letters, automaton) - 1e-12
        ).all()


@given(data=st.data())
def test_for_invariants_the_guards_risk_is_the_literal_one(data: st.DataObject) -> None:
    automaton = law(data.draw(st.sampled_from(INVARIANTS)))
    chain = data.draw(chains())
    letters = data.draw(letters_for(automaton, chain))
    steps = data.draw(st.integers(0, 6))
    literal = violation_within(chain, letters, automaton, steps)
    guards = guard_risk(chain, letters, automaton, steps)
    assert guards == pytest.approx(literal, abs=1e-12)


@given(data=st.data())
def test_bounds_hold_the_point_and_meet_it_when_they_close(
    data: st.DataObject,
) -> None:
    automaton = law(data.draw(st.sampled_from(LAWS)))
    chain = data.draw(chains())
    letters = data.draw(letters_for(automaton, chain))
    point = guard_risk(chain, letters, automaton, 3)
    for width, tolerance in ((0.0, 1e-8), (0.1, None)):
        low, high = (
            guard_bound(_widened(chain, width), chain.end, letters, automaton, 3, most)
            for most in (False, True)
        )
        assert (low <= point + 1e-9).all() and (point <= high + 1e-9).all()
        if tolerance is not None and "until" not in repr(automaton.formula):
            assert low == pytest.approx(point, abs=tolerance)
            assert high == pytest.approx(point, abs=tolerance)


@given(data=st.data())
def test_no_chain_within_the_intervals_leaves_the_bounds(data: st.DataObject) -> None:
    automaton = law(data.draw(st.sampled_from(LAWS)))
    chain = data.draw(chains())
    letters = data.draw(letters_for(automaton, chain))
    intervals = _widened(chain, 0.2)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    low, high = (
        guard_bound(intervals, chain.end, letters, automaton, 3, most)
        for most in (False, True)
    )
    for _ in range(3):
        other = _chain_within(rng, intervals, chain)
        point = guard_risk(other, letters, automaton, 3)
        kept = [s for s in range(chain.n) if s != chain.end]
        assert (low <= point + 1e-9)[:, kept].all()
        assert (point <= high + 1e-9)[:, kept].all()


@pytest.mark.parametrize(
    ("text", "worst", "best"),
    [
        ("always (not a)", "a", ""),
        ("always (a -> eventually[0, 2 steps] b)", "a", "b"),
        ("always (a -> next (not b))", "ab", ""),
        ("always (a -> b until c)", "a", "c"),
    ],
)
@pytest.mark.parametrize("end", [False, True])
def test_unseen_probability_acts_like_the_worst_or_best_state(
    text: str, worst: str, best: str, end: bool
) -> None:
    automaton = law(text)
    bits = {repr(p): 1 << i for i, p in enumerate(automaton.propositions)}
    rng = np.random.default_rng(11)
    for _ in range(5):
        chain = random_chain(rng, 5, 0.5)
        if end:
            rows = {i: chain.row(i) for i in range(5)}
            ended = {i: {j: p * 0.8 for j, p in row.items()} for i, row in rows.items()}
            whole = {i: {**row, 5: 0.2} for i, row in ended.items()} | {5: {5: 1.0}}
            chain = Chain.from_rows([*chain.states, "END"], whole, end=5)
        n, letters = chain.n, rng.integers(0, len(automaton.letters), chain.n)
        closed = _widened(chain, 0.1)
        unseen = rng.random(n) * 0.3 * (rng.random(n) < 0.7)
        if chain.end is not None:
            unseen[chain.end] = 0.0
        opened = replace(closed, unseen=unseen)
        (open_,) = np.nonzero(unseen)
        places = closed.indptr[1:][open_]
        indices = np.append(np.insert(closed.indices, places, n), n)
        low = np.append(np.insert(closed.low, places, 0.0), 1.0)
        high = np.append(np.insert(closed.high, places, unseen[open_]), 1.0)
        added = np.append(0, np.cumsum(unseen > 0))
        indptr = np.append(closed.indptr + added, len(indices))
        names = (*chain.states, "elsewhere")
        beyond = IntervalChain(names, indptr, indices, low, high)
        for steps in (0, 1, 4):
            for most, shown in ((True, worst), (False, best)):
                column = automaton.column(sum(bits[name] for name in shown))
                found = guard_bound(opened, chain.end, letters, automaton, steps, most)
                wanted = guard_bound(
                    beyond, chain.end, np.append(letters, column), automaton, steps,
                    most,
                )  # fmt: skip
                kept = [s for s in range(n) if s != chain.end]
                live = automaton.left > 0
                assert found[live][:, kept] == pytest.approx(
                    wanted[live][:, kept], abs=1e-8
                )


def _widened(chain: Chain, width: float) -> IntervalChain:
    low = np.maximum(chain.data - width, 0.0)
    high = np.minimum(chain.data + width, 1.0)
    return IntervalChain(chain.states, chain.indptr, chain.indices, low, high)


def _chain_within(
    rng: np.random.Generator, intervals: IntervalChain, like: Chain
) -> Chain:
    """A chain drawn from the intervals: room given out in a random order."""
    data = intervals.low.copy()
    for state in range(intervals.n):
        row = np.arange(intervals.indptr[state], intervals.indptr[state + 1])
        slack = 1 - data[row].sum()
        for at in rng.permutation(row):
            more = min(slack, intervals.high[at] - data[at])
            data[at] += more
            slack -= more
    rows = {
        s: {
            int(j): float(p)
            for j, p in zip(
                intervals.indices[intervals.indptr[s] : intervals.indptr[s + 1]],
                data[intervals.indptr[s] : intervals.indptr[s + 1]],
                strict=True,
            )
        }
        for s in range(intervals.n)
    }
    return Chain.from_rows(like.states, rows, end=like.end)


@pytest.mark.parametrize("text", LAWS)
def test_elimination_and_the_sparse_system_agree(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    automaton = law(text)
    rng = np.random.default_rng(7)
    for n, stay in ((5, 0.0), (20, 0.997)):
        chain = random_chain(rng, n, stay)
        letters = rng.integers(0, len(automaton.letters), n)
        values = violation_ever(chain, letters, automaton)
        with monkeypatch.context() as patch:
            patch.setattr(reaching, "_is_dense", lambda reading: False)
            patch.setattr(reaching, "DENSE_STATES", 0)
            sparse = violation_ever(chain, letters, automaton)
            within = violation_within(chain, letters, automaton, 20)
        assert values == pytest.approx(sparse, abs=1e-11)
        dense = violation_within(chain, letters, automaton, 20)
        assert within == pytest.approx(dense, abs=1e-12)


def test_risk_where_nothing_can_be_violated() -> None:
    automaton = law("always (a or not a)")
    chain = from_dense(["x"], np.eye(1))
    letters = np.zeros(1, dtype=np.int64)
    table = solve_risk(chain, letters, automaton, 5)
    assert table.point.max() == 0
    assert violation_within(chain, letters, automaton, 5).max() == 0
    assert violation_ever(chain, letters, automaton).max() == 0


def published(shared_data: Path) -> tuple[Chain, dict[str, Any]]:
    folder = shared_data / "models"
    content = json.loads((folder / "values.json").read_text())
    chain = load_model(folder / "driving_s3.model.json").chain
    return chain, content["products"]["driving_s3"]


def test_published_products_in_both_semantics(shared_data: Path) -> None:
    chain, products = published(shared_data)
    for name, case in products["cases"].items():
        # The paper waits one step longer.
        steps = case["K"] + ("paper" in name)
        automaton = law(f"always (a -> eventually[0, {steps} steps] b)")
        assert automaton.n == case["monitor_states"]
        column = {mask: i for i, mask in enumerate(automaton.letters)}
        letters = np.full(chain.n, column[0])
        letters[products["trigger_states"]] = column[1]
        letters[products["target_states"]] = column[2]
        values = violation_ever(chain, letters, automaton)
        for q, expected in case["unbounded"].items():
            assert values[int(q)] == pytest.approx(expected, abs=1e-10), name
        for within, by_monitor in case["bounded"].items():
            values = violation_within(chain, letters, automaton, int(within))
            for q, expected in by_monitor.items():
                assert values[int(q)] == pytest.approx(expected, abs=1e-10), name


def test_golden_values_of_a_small_crossing() -> None:
    """Values worked out by hand: a light that turns red, a driver who may stop."""
    states = ["green", "red", "red, stopped"]
    rows = {
        0: {0: Fraction(3, 4), 1: Fraction(1, 4)},
        1: {1: Fraction(1, 2), 2: Fraction(1, 2)},
        2: {0: Fraction(1)},
    }
    chain = Chain.from_rows(states, rows)
    automaton = law("always (red -> eventually[0, 2 steps] stopped)")
    column = {mask: i for i, mask in enumerate(automaton.letters)}
    letters = np.array([column[0], column[1], column[3]])
    table = solve_risk(chain, letters, automaton, 1)
    idle, one, two = (automaton.names.index(q) for q in ("idle", "wait:1", "wait:2"))
    # From red with 2 steps left: miss twice, 1/2 * 1/2.
    assert table.point[[two, one], 1].tolist() == [1 / 4, 1 / 2]
    # From green the light turns red in the next step (1/4), then as above.
    assert table.point[idle, 0] == 1 / 16
    assert violation_within(chain, letters, automaton, 1)[idle, 0] == 0
    ever = violation_ever(chain, letters, automaton)
    assert ever[:, 0] == pytest.approx(1)
    assert table.lookup(two, 1) == 1 / 4
    assert table.bounds(two, 1) is None
    assert table.n == 3 and "flat" not in repr(table)
    assert not table.consistent[idle, 1] and table.consistent[two, 1]


def test_a_table_has_bounds_around_its_points() -> None:
    rng = np.random.default_rng(4)
    chain, automaton = random_chain(rng, 5), law(LAWS[0])
    letters = rng.integers(0, 4, 5)
    table = solve_risk(chain, letters, automaton, 4, _widened(chain, 0.05))
    for q in range(automaton.n):
        for s in range(chain.n):
            bounds = table.bounds(q, s)
            assert bounds is not None
            assert 0 <= bounds[0] <= table.lookup(q, s) <= bounds[1] <= 1


def test_mismatched_chains_letters_and_intervals_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = random_chain(np.random.default_rng(5), 3)
    automaton = law(LAWS[0])
    with pytest.raises(InvalidModel, match="3 states, but 2 of them have letters"):
        violation_ever(chain, np.array([0, 1]), automaton)
    with pytest.raises(
        InvalidModel, match=("a letter is outside the monitor's table, which has 4")
    ):
        violation_ever(chain, np.array([0, 1, 4]), automaton)
    with pytest.raises(
        InvalidInput, match=("the intervals were not computed for this chain")
    ):
        other = replace(chain, states=("x", "y", "z"))
        solve_risk(chain, np.zeros(3, int), automaton, 1, _widened(other, 0.1))
    monkeypatch.setattr(product, "MAX_PAIRS", 10)
    with pytest.raises(TooLarge, match="more than 10 pairs"):
        violation_ever(chain, np.array([0, 1, 2]), automaton)


def test_computations_longer_than_a_minute_are_rejected_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred thousand states with K = 100; ninety thousand with their bounds."""
    automaton = law("always (a -> eventually[0, 100 steps] b)")

    def begun(*_: Any) -> Any:
        raise AssertionError("it was begun")

    for name in ("ever", "expectation", "RobustStep"):
        monkeypatch.setattr(tables, name, begun)

    def loop(n: int) -> Chain:
        indices = np.stack([np.arange(n), np.roll(np.arange(n), -1)], axis=1)
        indices.sort(axis=1)
        names = tuple(f"s{i}" for i in range(n))
        return Chain(names, 2 * np.arange(n + 1), indices.ravel(), np.full(2 * n, 0.5))

    chain = loop(100_000)
    letters = np.zeros(chain.n, np.int64)
    with pytest.raises(TooLarge, match="102 monitor states make more than 10,000,000"):
        solve_risk(chain, letters, automaton, 50)
    chain, letters = loop(90_000), letters[:90_000]
    with pytest.raises(TooLarge, match="101 monitor states with 180,000 transitions"):
        solve_risk(chain, letters, automaton, 50, _widened(chain, 0.1))
    with pytest.raises(TooLarge, match="over 1,000 steps") as caught:
        solve_risk(chain, letters, automaton, 1_000)
    assert "a shorter horizon" in str(caught.value.mend)
    with pytest.raises(TooLarge, match="over 1,000 steps"):
        violation_within(chain, letters, automaton, 1_000)


def test_as_much_work_as_may_be_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = random_chain(np.random.default_rng(5), 3)
    automaton, letters = law(LAWS[0]), np.array([0, 1, 2])
    size, states = len(chain.data), np.count_nonzero(automaton.left > 0)
    intervals = _widened(chain, 0.1)
    robust = states * intervals.successors.size
    for limit, work in (
        ("MAX_WORK", 4 * states * size),
        ("MAX_ROBUST_WORK", 4 * robust),
        ("MAX_CELLS", robust),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(tables, limit, work)
            solve_risk(chain, letters, automaton, 4, intervals)
            patch.setattr(tables, limit, work - 1)
            with pytest.raises(TooLarge, match="more than a minute to solve"):
                solve_risk(chain, letters, automaton, 4, intervals)


def test_risk_within_a_horizon_when_the_unbounded_one_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(6)
    chain, automaton = random_chain(rng, 5), law(LAWS[6])
    letters = rng.integers(0, len(automaton.letters), 5)
    monkeypatch.setattr(reaching, "_is_dense", lambda reading: False)
    monkeypatch.setattr(reaching, "MAX_UNKNOWNS", 0)
    monkeypatch.setattr(reaching, "MAX_SPARSE_TRANSITIONS", 10)
    table = solve_risk(chain, letters, automaton, 4)
    assert table.point.max() > 0
    with pytest.raises(TooLarge):
        violation_ever(chain, letters, automaton)


# -- what may stay pending for ever ---------------------------------------------------


def endless() -> Automaton:
    """A law whose monitor waits without a deadline, and that taken as pending.

    It is how obligations that overlap without end are followed in a large automaton.
    """
    automaton = law("always (c -> a until b)")
    row = np.array([0, 2, 1])[automaton.step[1]]
    met, unmet = np.zeros_like(row), np.ones_like(row)
    return replace(
        automaton,
        pending=np.array([False, True, False]),
        complete=np.stack([met, unmet, row]).astype(np.int32),
        owed=np.array([0, 2, 1], np.int32),
    )


UNTIL = endless()


def waiting(
    stay: tuple[float, float], met: tuple[float, float], unmet: tuple[float, float]
) -> tuple[IntervalChain, Any, int]:
    """A state that waits, one that ends it well and one that does not; bounds on them.

    Gives also the letters, and the state of the monitor in which something is owed.
    """
    low, high = ([*(bound[i] for bound in (stay, met, unmet)), 1, 1] for i in (0, 1))
    intervals = IntervalChain(
        ("waits", "met", "unmet"),
        np.array([0, 3, 4, 5]),
        np.array([0, 1, 2, 1, 2]),
        np.array(low, dtype=float),
        np.array(high, dtype=float),
    )
    bit = {repr(p): 1 << i for i, p in enumerate(UNTIL.propositions)}
    letters = [UNTIL.column(mask) for mask in (bit["a"], bit["b"], 0)]
    (owed,) = np.flatnonzero(UNTIL.pending).tolist()
    return intervals, np.array(letters), owed


def test_bounds_on_what_may_stay_pending_for_ever() -> None:
    """Of what leaves the waiting state, between 1/4 and 3/4 ends it badly."""
    intervals, letters, owed = waiting((0.6, 0.8), (0.1, 0.3), (0.1, 0.3))
    for steps in (0, 1, 5):
        low, high = (
            guard_bound(intervals, None, letters, UNTIL, steps, most)
            for most in (False, True)
        )
        assert low[owed] == pytest.approx([1 / 4, 0, 1], abs=1e-8)
        assert high[owed] == pytest.approx([3 / 4, 0, 1], abs=1e-8)
        # Both come from the safe side.
        assert low[owed, 0] <= 1 / 4 + 1e-15 and high[owed, 0] >= 3 / 4 - 1e-15
        assert low[0].max() == high[0].max() == 0


def test_the_greatest_bound_leaves_out_what_cannot_go_unmet() -> None:
    intervals, letters, owed = waiting((0.6, 0.8), (0.2, 0.4), (0.0, 0.2))
    letters[2] = letters[1]
    assert guard_bound(intervals, None, letters, UNTIL, 2, True)[owed].max() == 0


@pytest.mark.parametrize("limit", ["ROBUST_SWEEPS", "MAX_ROBUST_WORK"])
def test_sweeps_that_take_too_long_leave_a_bound_that_holds(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    intervals, letters, owed = waiting((1 - 4e-4,) * 2, (2e-4,) * 2, (2e-4,) * 2)
    cells = int(np.count_nonzero(UNTIL.left > 0)) * intervals.successors.size
    each = cells if limit == "MAX_ROBUST_WORK" else 1
    monkeypatch.setattr(tables, limit, 500 * each)
    low, high = (
        float(guard_bound(intervals, None, letters, UNTIL, 0, most)[owed, 0])
        for most in (False, True)
    )
    assert 0.05 < low < 0.5 < high < 0.95
    assert high - 0.5 == pytest.approx(0.5 - low) == pytest.approx(0.5 * 0.8187, 1e-3)


def test_a_point_outside_its_intervals_widens_them() -> None:
    matrix = np.random.default_rng(8).dirichlet(np.ones(4), 4)
    chain, automaton = from_dense("wxyz", matrix), law(LAWS[0])
    letters = np.array([0, 1, 1, 2])
    elsewhere = from_dense("wxyz", np.full((4, 4), 0.25))
    table = solve_risk(chain, letters, automaton, 3, _widened(elsewhere, 0.01))
    assert table.low is not None and table.high is not None
    assert (table.low <= table.point).all() and (table.point <= table.high).all()
    low, high = (
        guard_bound(_widened(elsewhere, 0.01), None, letters, automaton, 3, most)
        for most in (False, True)
    )
    assert np.array_equal(table.low, np.minimum(low, table.point))
    assert np.array_equal(table.high, np.maximum(high, table.point))
    assert (low > table.point).any() and (high < table.point).any()
