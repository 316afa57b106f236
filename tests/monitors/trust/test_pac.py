"""The guarantees of a learned chain: the paper's, and the sound one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Counts, Model, smoothed_chain
from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk.product import product_chain
from forewarn.monitors.trust.pac import (
    conditioning,
    law_target,
    pac_report,
    spread,
    state_target,
    weissman_variation,
    weissman_weight,
)

FORK = [
    {0: 150, 1: 30, 2: 0, 4: 0},
    {0: 0, 1: 0, 3: 0, 4: 30},
    {0: 0, 2: 0, 3: 0, 4: 0},
    {1: 0, 2: 0, 3: 0, 4: 0},
    {4: 30},
]
"""The paper's Figure 2: thirty equal traces; s3 is the fork in the microwave."""


def learned(rows: Sequence[dict[int, int]], alpha: float = 1) -> Model:
    counts = Counts.from_rows(rows)
    names = [f"s{i}" for i in range(len(rows))]
    smoothing = Fraction(str(alpha))
    chain, unvisited = smoothed_chain(names, counts, smoothing)
    return Model(chain, counts, unvisited, alpha=smoothing, support="valid")


def reach(matrix: Any, goal: Any, steps: int | None = None) -> Any:
    values = goal.astype(float)
    for _ in range(20000 if steps is None else steps):
        values = np.where(goal, 1.0, matrix @ values)
    return values


# -- the worked example ---------------------------------------------------------------


def test_the_learned_rows_are_those_of_the_paper() -> None:
    row = learned(FORK).chain.exact_row(0)
    assert row == {
        0: Fraction(151, 184),
        1: Fraction(31, 184),
        2: Fraction(1, 184),
        4: Fraction(1, 184),
    }


def test_the_papers_bound_on_the_worked_example() -> None:
    report = pac_report(learned(FORK), 0.1, 0.05)
    assert report.ctl is not None
    assert report.ctl.steps == 1
    assert report.ctl.probability == pytest.approx(1 / 184)
    assert report.ctl.factor == pytest.approx(184)
    # (1.1 B)^2 = 40,966 times H* of 229.3 and 196.6.
    needed = {s.state: s.needed_ctl for s in report.states}
    assert needed["s2"] == needed["s3"] == pytest.approx(9.393e6, rel=1e-3)
    assert needed["s0"] == pytest.approx(8.052e6, rel=1e-3)
    assert needed["s4"] == 0
    assert report.ctl_holds is False and report.holds is False


def test_the_sound_bound_on_the_worked_example() -> None:
    model = learned(FORK)
    target = state_target(model.chain, [3], "the fork in the microwave")
    report = pac_report(model, 0.1, 0.05, target=target)
    assert report.steps == pytest.approx(6.848, abs=5e-4)
    weight = weissman_weight(np.array([4, 4, 4, 4, 1]), 0.025)
    assert weight[4] == 0
    assert report.steps**2 / (2 * 0.1**2) * weight[0] == pytest.approx(18_089, abs=1)
    # The rows that matter pay a little more, for smoothing; s1 less, whose transitions
    # one by one are known better than all together.
    needed = {s.state: s.needed for s in report.states}
    assert needed == {"s0": 18407, "s1": 12698, "s2": 18498, "s3": 0, "s4": 0}
    assert report.short == {"s0": 18227, "s1": 12668, "s2": 18498}
    first, assumes, ctl, smoothing = report.sentences()
    assert first == (
        "The guarantee does not hold: with probability 0.95 the probability of "
        "reaching the fork in the microwave should be off by at most 0.1; the visits "
        "so far leave it open. 3 of 5 states fall short: s2 has 0 visits of 18,498, "
        "s1 has 30 visits of 12,698, s0 has 180 visits of 18,407."
    )
    assert "(valid)" in assumes
    assert "B = 184 (state s3)" in ctl and "9,393,425 visits" in ctl
    assert smoothing.startswith("Smoothing moved a row by 0.176, more than the 0.01")


def test_published_condition_numbers(shared_data: Path) -> None:
    counts = json.loads((shared_data / "models" / "counts.json").read_text())
    for name, factor, most in (
        ("embodied_log_raw_t20", 184, 9.4e6),
        ("embodied_log_raw_t109", 35, 4.4e5),
        ("driving_s3", 3945, 6.2e9),
        ("driving_s2", 10304, 4.6e10),
    ):
        case = counts[name]
        rows = [
            {int(j): c for j, c in case["counts"].get(str(i), {}).items()}
            for i in range(case["n"])
        ]
        report = pac_report(learned(rows), 0.1, 0.05)
        assert report.ctl is not None
        assert report.ctl.factor == pytest.approx(factor, abs=0.6), name
        needed = max(s.needed_ctl or 0 for s in report.states)
        assert needed == pytest.approx(most, rel=0.02), name


# -- perturbation ---------------------------------------------------------------------


@st.composite
def chain_pairs(draw: st.DrawFn) -> Any:
    """Two chains of the same support; the last two states are absorbing."""
    n = draw(st.integers(3, 8))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    size = draw(st.sampled_from([0.01, 0.1, 0.8]))
    one, two = np.eye(n), np.eye(n)
    for i in range(n - 2):
        support = rng.choice(n, rng.integers(2, n + 1), replace=False)
        one[i], two[i] = 0, 0
        one[i, support] = rng.dirichlet(np.ones(len(support)))
        other = rng.dirichlet(np.ones(len(support)))
        two[i, support] = (1 - size) * one[i, support] + size * other
    return one, two


@given(chain_pairs(), st.sampled_from([None, 0, 1, 6]))
def test_no_pair_of_chains_differs_by_more_than_the_spread(
    pair: Any, horizon: int | None
) -> None:
    truth, estimate = pair
    n = len(truth)
    chain = Chain.from_dense([f"s{i}" for i in range(n)], estimate)
    target = state_target(chain, [n - 1])
    variation = np.abs(truth - estimate).sum(axis=1) / 2
    bound = spread(target, variation, horizon)
    off = np.abs(
        reach(truth, target.goal, horizon) - reach(estimate, target.goal, horizon)
    )
    assert (off <= bound.errors + 1e-9).all()
    assert bound.errors.max() <= bound.steps * variation.max() + 1e-9
    condition = conditioning(target)
    if condition is not None:
        assert bound.steps <= condition.factor + 1e-9


def test_many_small_shifts_in_one_row_add_up() -> None:
    # Twenty branches, each off by 0.02: the largest single error times B is too
    # small a bound (0.067); the row's total variation is what counts.
    n = 23
    estimate = np.eye(n)
    estimate[0] = [0, *[0.05] * 20, 0, 0]
    for i in range(1, 21):
        estimate[i] = np.eye(n)[22 if i <= 10 else 21]
    truth = estimate.copy()
    truth[0, 1:11] += 0.02
    truth[0, 11:21] -= 0.02
    target = state_target(Chain.from_dense([str(i) for i in range(n)], estimate), [22])
    off = np.abs(reach(truth, target.goal) - reach(estimate, target.goal)).max()
    bound = spread(target, np.abs(truth - estimate).sum(axis=1) / 2)
    condition = conditioning(target)
    assert condition is not None
    assert off == pytest.approx(0.2)
    assert condition.factor * 0.02 < off <= bound.errors[0] + 1e-12
    assert bound.errors[0] == pytest.approx(0.2)


def test_a_law_is_weighed_in_its_product() -> None:
    automaton = compile_law(parse_formula("always(a -> eventually[0,2 steps] b)"))
    rng = np.random.default_rng(0)
    matrix = np.eye(5)
    matrix[:4] = 0.95 * np.hstack([rng.dirichlet(np.ones(4), 4), np.zeros((4, 1))])
    matrix[:4, 4] = 0.05
    chain = Chain.from_dense(["none", "a", "b", "both", "END"], matrix, end=4)
    letters = np.array([automaton.letters.index(bits) for bits in (0, 1, 2, 3, 0)])
    variation = np.append(rng.random(4) * 0.1, 0.0)
    target = law_target(chain, letters, automaton, "a late b")
    bound = spread(target, variation)
    # The same from the product that other tools are given, state by state.
    product = product_chain(chain, letters, automaton)
    plain = state_target(product, sorted(product.labels["violated"]))
    of_chain = [name.split("|")[0].split(":")[0] for name in product.states]
    origin = np.array([chain.index(name) for name in of_chain])
    wanted = spread(replace(plain, origin=origin), variation)
    assert bound.steps == pytest.approx(wanted.steps)
    assert bound.errors.max() == pytest.approx(wanted.errors.max())
    counts = Counts.from_rows(
        [{j: 1000 for j in range(5)} for _ in range(4)] + [{4: 1}]
    )
    report = pac_report(Model(chain, counts), 0.1, 0.05, target=target)
    assert report.target == "a late b"
    assert report.steps == pytest.approx(wanted.steps)
    assert 0 < report.states[1].error < 1


def test_a_law_whose_product_is_too_large_is_refused() -> None:
    automaton = compile_law(parse_formula("always(a -> eventually[0,900 steps] b)"))
    n = 100
    chain = Chain.from_dense([str(i) for i in range(n)], np.full((n, n), 1 / n))
    with pytest.raises(TooLarge, match="9,020,000 transitions"):
        law_target(chain, np.zeros(n, int), automaton)


def test_large_chains_give_the_same_answer_as_small_ones() -> None:
    def walk(n: int) -> Chain:
        rows = {i: {i - 1: 0.3, i: 0.2, i + 1: 0.5} for i in range(1, n - 1)}
        ends = {0: {0: 1.0}, n - 1: {n - 1: 1.0}}
        return Chain.from_rows([str(i) for i in range(n)], {**rows, **ends})

    small, large = walk(299), walk(301)
    assert isinstance(state_target(small, [0]).matrix, np.ndarray)
    assert not isinstance(state_target(large, [0]).matrix, np.ndarray)
    ever = [spread(state_target(c, [0]), np.full(c.n, 0.01)) for c in (small, large)]
    # A walk that drifts away from the target by 0.2 a step leaves at the far end.
    assert ever[0].steps == pytest.approx(297 / 0.2, rel=0.05)
    assert ever[1].steps - ever[0].steps == pytest.approx(2 / 0.2, rel=0.01)
    assert ever[1].errors.max() == pytest.approx(ever[1].steps * 0.01)


def test_weissman_holds_for_frequencies() -> None:
    rng = np.random.default_rng(5)
    sizes, visits, delta = np.array([2, 5]), np.array([40, 40]), 0.1
    allowed = weissman_variation(sizes, visits, delta)
    truths = [np.array([0.5, 0.5]), np.full(5, 0.2)]
    missed = 0
    for _ in range(400):
        off = [
            np.abs(rng.multinomial(40, p) / 40 - p).sum() / 2 > a
            for p, a in zip(truths, allowed, strict=True)
        ]
        missed += any(off)
    assert missed / 400 <= delta
    assert weissman_variation(np.array([3, 1]), np.array([0, 0]), 0.1).tolist() == [
        1,
        0,
    ]


# -- what was never seen -------------------------------------------------------------


def careless(runs: int, careless_runs: int) -> Model:
    tally = Tally()
    for run in range(runs):
        tidy = ["start", "put"]
        tally.add_sequence(["start", "take", "heat"] if run < careless_runs else tidy)
    return learn(tally, Support("observed"), Fraction(0), "absorb")


def heating(model: Model) -> Any:
    automaton = compile_law(parse_formula("always not heat"))
    letters = np.array([int(name == "heat") for name in model.chain.states])
    return law_target(model.chain, letters, automaton, "a fork heated")


def test_what_was_never_seen_is_not_taken_for_impossible() -> None:
    model = careless(25, 0)
    report = pac_report(model, 0.1, 0.05, target=heating(model), horizon=4)
    assert not report.holds and report.error > 0.1
    assert report.unseen == pytest.approx(report.states[1].error)
    assert report.short.keys() == {"put", "start"}
    first, never, assumes = list(report.sentences())[:3]
    assert first.startswith("The guarantee does not hold")
    assert never.startswith("Nothing that was seen leads to a fork heated; it may yet")
    assert "never seen" in assumes


def test_seldom_is_reported_as_seen() -> None:
    model = careless(100, 2)
    report = pac_report(model, 0.1, 0.05, target=heating(model), horizon=4)
    assert report.unseen is None and not report.holds


def test_enough_clean_runs_bound_what_was_never_seen() -> None:
    model = careless(1000, 0)
    report = pac_report(model, 0.1, 0.05, target=heating(model), horizon=4)
    assert report.holds and report.unseen is not None
    # Two rows may be left unseen, each with the upper end of none of 1000.
    assert 0.5 * 0.05 / 1000 < report.unseen < 0.02


def test_a_chain_that_never_ends_bounds_nothing_for_ever() -> None:
    tally = Tally()
    tally.add_sequence(["a", "b"] * 5000)
    model = learn(tally, Support("observed"), Fraction(0), "ignore")
    ever = pac_report(model, 0.1, 0.05, target=heating(model))
    assert ever.error == 1.0 and not ever.holds and ever.steps == math.inf
    soon = pac_report(model, 0.1, 0.05, target=heating(model), horizon=3)
    assert soon.holds
    shown = json.loads(json.dumps(ever.as_dict(), allow_nan=False))
    assert shown["expected_steps"] is None and shown["states"]["a"]["needed"] is None


# -- the report -----------------------------------------------------------------------

TRUTH = np.array(
    [
        [0.5, 0.3, 0.1, 0.1],
        [0.6, 0.2, 0.0, 0.2],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 1.0],
    ]
)


def sampled(rng: Any, visits: int, alpha: float = 1) -> Model:
    rows = []
    for row in TRUTH:
        support = np.flatnonzero(row)
        seen = rng.multinomial(visits, row[support])
        rows.append(dict(zip(support.tolist(), seen.tolist(), strict=True)))
    return learned(rows, alpha)


def coverage(runs: int, visits: int, seed: int) -> tuple[float, float]:
    """How often the guaranteed error was kept, and how much of it was used at most."""
    rng = np.random.default_rng(seed)
    goal = np.eye(4)[2] > 0
    truth = reach(TRUTH, goal, 2000)
    kept, used = 0, 0.0
    for _ in range(runs):
        model = sampled(rng, visits)
        report = pac_report(
            model, 0.1, 0.05, target=state_target(model.chain, [2], "the goal")
        )
        matrix = model.chain.dense()
        solved = np.linalg.solve(np.eye(2) - matrix[:2, :2], matrix[:2, 2])
        off = np.abs(solved - truth[:2])
        allowed = np.array([s.error for s in report.states[:2]])
        kept += bool((off <= allowed).all())
        used = max(used, float((off / allowed).max()))
    return kept / runs, used


def test_the_guaranteed_error_is_kept() -> None:
    kept, used = coverage(runs=60, visits=200, seed=3)
    assert kept >= 0.95
    assert used > 0.02, "a bound fifty times too wide is not worth having"


@pytest.mark.slow
@pytest.mark.parametrize("visits", [20, 200, 5000])
def test_the_guaranteed_error_is_kept_in_many_runs(visits: int) -> None:
    assert coverage(runs=2000, visits=visits, seed=4)[0] >= 0.95


def test_it_holds_once_every_state_has_the_visits_it_needs() -> None:
    rng = np.random.default_rng(1)
    first = pac_report(sampled(rng, 100), 0.1, 0.05)
    assert not first.holds and set(first.short) == {"s0", "s1"}
    most = max(s.needed or 0 for s in first.states)
    later = pac_report(sampled(rng, 2 * most), 0.1, 0.05)
    assert later.holds and later.short == {} and later.error <= 0.1
    assert next(later.sentences()).startswith("The guarantee holds: with probability")


def test_the_papers_bound_holds_with_enough_visits_and_little_smoothing() -> None:
    rng = np.random.default_rng(1)
    first = pac_report(sampled(rng, 100), 0.1, 0.05)
    most = max(s.needed_ctl or 0 for s in first.states)
    assert first.ctl_holds is False and most > 100
    assert pac_report(sampled(rng, 2 * most), 0.1, 0.05).ctl_holds is True
    smoothed = pac_report(sampled(rng, 2 * most, alpha=most), 0.1, 0.05)
    assert smoothed.smoothing > smoothed.smoothing_allowed
    assert smoothed.ctl_holds is False


def test_a_short_horizon_needs_fewer_visits() -> None:
    model = sampled(np.random.default_rng(1), 100)
    target = state_target(model.chain, [2])
    ever = pac_report(model, 0.1, 0.05, target=target)
    soon = pac_report(model, 0.1, 0.05, target=target, horizon=2)
    assert soon.steps <= 2 < ever.steps
    assert soon.error < ever.error
    assert (soon.states[0].needed or 0) < (ever.states[0].needed or 0)
    assert "within 2 steps" in next(soon.sentences())


def test_the_smoothing_margin_is_checked_exactly() -> None:
    # One row with frequencies (1, 0): smoothing moves it by 2 alpha / (n + 2 alpha),
    # which is epsilon / 10 = 1/100 for n = 198 and alpha = 1.
    on = pac_report(learned([{0: 198, 1: 0}, {1: 1}]), 0.1, 0.05)
    over = pac_report(learned([{0: 197, 1: 0}, {1: 1}]), 0.1, 0.05)
    assert on.smoothing == pytest.approx(0.01, abs=1e-15)
    assert not any("Smoothing" in s for s in on.sentences())
    assert any("Smoothing moved" in s for s in over.sentences())


def test_without_smoothing_an_unseen_transition_voids_the_guarantee() -> None:
    model = learned([{0: 10**7, 1: 10**7, 2: 0}, {1: 5}, {2: 5}], alpha=0)
    report = pac_report(model, 0.1, 0.05)
    assert not report.holds and report.ctl_holds is False
    assert "alpha above 0" in next(report.sentences())


def test_states_that_lead_nowhere_need_nothing() -> None:
    report = pac_report(learned([{0: 5}, {}]), 0.1, 0.05)
    assert report.holds and report.error == 0 and report.ctl is None
    assert [s.needed for s in report.states] == [0, 0]


def test_the_report_as_json() -> None:
    report = pac_report(learned(FORK), 0.1, 0.05).as_dict()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert report["ctl"]["B"] == pytest.approx(184)
    assert report["states"]["s1"]["visits"] == 30


def test_what_cannot_be_reported_is_refused() -> None:
    chain = Chain.from_rows(["a"], {0: {0: 1.0}})
    with pytest.raises(InvalidModel, match="no counts"):
        pac_report(Model(chain), 0.1, 0.05)
    with pytest.raises(InvalidInput, match="epsilon is 2"):
        pac_report(learned(FORK), 2, 0.05)
    many = learned([{i: 1} for i in range(301)])
    with pytest.raises(InvalidInput, match="301 states.*name a target"):
        pac_report(many, 0.1, 0.05)
    report = pac_report(many, 0.1, 0.05, target=state_target(many.chain, [0]))
    assert report.ctl_holds is None and report.states[0].needed_ctl is None
    assert any("more than 300 states" in s for s in report.sentences())
