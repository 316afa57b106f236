"""Interval chains against published figures, brute force, Storm and simulation."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import (
    IntervalChain,
    RobustStep,
    clopper_pearson,
    model_intervals,
    open_rows,
)
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Counts, Model
from forewarn.monitors.checking import reaching

TOLERANCE = 1e-8


def learned(rows: Mapping[int, Mapping[int, int]], n: int, delta: float = 0.05) -> Any:
    """An interval chain from counts; a state without a row is absorbing."""
    counts = Counts.from_rows([rows.get(i, {}) for i in range(n)])
    return clopper_pearson([f"s{i}" for i in range(n)], counts, delta)


def bounded_rows(rows: Mapping[int, Mapping[int, tuple[float, float]]]) -> Any:
    n = len(rows)
    flat = [(j, *rows[i][j]) for i in range(n) for j in sorted(rows[i])]
    return IntervalChain(
        tuple(f"s{i}" for i in range(n)),
        np.cumsum([0, *(len(rows[i]) for i in range(n))]),
        np.array([j for j, _, _ in flat]),
        np.array([low for _, low, _ in flat]),
        np.array([high for _, _, high in flat]),
    )


def dense(chain: IntervalChain) -> tuple[np.ndarray, np.ndarray]:
    """The bounds as two square matrices."""
    rows = np.repeat(np.arange(chain.n), np.diff(chain.indptr))
    low, high = np.zeros((2, chain.n, chain.n))
    low[rows, chain.indices], high[rows, chain.indices] = chain.low, chain.high
    return low, high


def robust_reach(
    chain: IntervalChain,
    targets: Any,
    steps: int | None = None,
    *,
    maximise: bool,
    avoid: Any = slice(0),
) -> np.ndarray:
    """The minimum or maximum probability of reaching the targets from each state."""
    goal, lost = (np.zeros(chain.n, bool) for _ in range(2))
    goal[targets], lost[avoid] = True, True
    return reaching.bounds(chain, reaching.Path(~lost, goal, steps))[maximise]


@st.composite
def interval_chains(draw: st.DrawFn, exact: bool = False) -> Any:
    """Small chains with intervals around a true row; the last state is absorbing."""
    n = draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    rows: dict[int, dict[int, tuple[float, float]]] = {n - 1: {n - 1: (1.0, 1.0)}}
    for i in range(n - 1):
        support = rng.choice(n, rng.integers(1, n + 1), replace=False)
        truth = rng.dirichlet(np.ones(len(support)))
        below, above = rng.random((2, len(support))) * rng.choice([0.0, 0.1, 1.0])
        if exact or len(support) == 1:
            below = above = np.zeros(len(support))
        low, high = np.maximum(truth - below, 0), np.minimum(truth + above, 1)
        bounds = zip(low, high, strict=True)
        rows[i] = {
            int(j): (float(a), float(b))
            for j, (a, b) in zip(support, bounds, strict=True)
        }
    return bounded_rows(rows)


def best_by_every_order(chain: Any, state: int, values: Any, maximise: bool) -> float:
    """An extreme point of the row fills the successors in some order."""
    span = range(chain.indptr[state], chain.indptr[state + 1])
    found = []
    for order in itertools.permutations(span):
        left = 1.0 - chain.low[list(span)].sum()
        total = sum(chain.low[e] * values[chain.indices[e]] for e in span)
        for e in order:
            more = min(left, chain.high[e] - chain.low[e])
            total += more * values[chain.indices[e]]
            left -= more
        found.append(total)
    return max(found) if maximise else min(found)


# -- against the published figures ------------------------------------------------


def published(
    shared_data: Path,
) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    models = json.loads((shared_data / "models" / "intervals.json").read_text())
    counts = json.loads((shared_data / "models" / "counts.json").read_text())
    return [(key, case, counts[key.split("|")[0]]) for key, case in models.items()]


def test_published_intervals_and_bounded_reachability(
    shared_data: Path,
) -> None:
    for key, case, counts in published(shared_data):
        rows = {
            int(i): {int(j): c for j, c in row.items()}
            for i, row in counts["counts"].items()
        }
        chain = learned(rows, counts["n"], case["delta"])
        low, high = dense(chain)
        assert np.abs(low - case["low_intervals"]).max() < TOLERANCE, key
        assert np.abs(high - case["high_intervals"]).max() < TOLERANCE, key
        for steps, bounds in case["bounded"].items():
            for side, name in ((False, "low"), (True, "high")):
                got = robust_reach(chain, case["unsafe"], int(steps), maximise=side)
                assert np.abs(got - bounds[name]).max() < TOLERANCE, (key, steps, name)


# -- our own golden case ----------------------------------------------------------


def test_delta_is_split_over_the_intervals_that_are_needed() -> None:
    # Three intervals for row 0, one for row 1, none for rows 2 and 3.
    chain = learned({0: {0: 6, 1: 3, 2: 0}, 1: {0: 2, 3: 8}, 2: {3: 4}}, 4, 0.04)
    low, high = dense(chain)
    tail = 0.04 / 4 / 2
    assert high[0, 2] == pytest.approx(1 - tail ** (1 / 9), abs=1e-12)
    assert low[0, 2] == 0.0
    # Both ends of a binomial bound, by its definition.
    n, k, p = 10, 8, low[1, 3]
    upper = sum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1))
    assert upper == pytest.approx(tail, rel=1e-9)
    assert high[1, 0] == pytest.approx(1 - low[1, 3], abs=1e-12)
    assert low[2, 3] == high[2, 3] == low[3, 3] == 1.0


def test_a_row_without_visits_may_be_anything() -> None:
    chain = learned({0: {0: 0, 1: 0, 2: 0}, 1: {1: 1}, 2: {2: 1}}, 3)
    low, high = dense(chain)
    assert low[0].tolist() == [0, 0, 0] and high[0].tolist() == [1, 1, 1]
    assert robust_reach(chain, [1], maximise=False).tolist() == [0, 1, 0]
    assert robust_reach(chain, [1], maximise=True).tolist() == [1, 1, 0]


# -- laws ---------------------------------------------------------------------------


@given(interval_chains(), st.integers(0, 10**6), st.booleans())
def test_backup_is_the_best_of_all_orders(chain: Any, seed: int, side: bool) -> None:
    values = np.random.default_rng(seed).integers(0, 4, chain.n) / 3
    got = RobustStep(chain, maximise=side)(values)
    for state in range(chain.n):
        best = best_by_every_order(chain, state, values, side)
        assert got[state] == pytest.approx(best, abs=1e-12)


@given(interval_chains(), st.integers(0, 10**6), st.booleans())
def test_a_remembered_choice_is_as_good_as_a_new_one(
    chain: Any, seed: int, side: bool
) -> None:
    rng = np.random.default_rng(seed)
    step = RobustStep(chain, maximise=side)
    values = rng.random((3, chain.n))
    for _ in range(6):
        fresh = RobustStep(chain, maximise=side)(values)
        assert np.abs(step(values) - fresh).max() < 1e-12
        assert np.abs(step.choice.sum(axis=-1) - 1).max() < 1e-12
        values = np.where(rng.random(values.shape) < 0.3, rng.random(), values)


@given(interval_chains(), st.booleans())
def test_unbounded_reachability_is_the_limit_of_bounded(chain: Any, side: bool) -> None:
    ever = robust_reach(chain, [chain.n - 1], maximise=side)
    within = robust_reach(chain, [chain.n - 1], 3000, maximise=side)
    further = robust_reach(chain, [chain.n - 1], 6000, maximise=side)
    assert (within <= ever + 1e-9).all()
    # Where value iteration has settled, the two agree.
    if np.abs(further - within).max() < 1e-12:
        assert np.abs(ever - further).max() < 1e-7


@given(interval_chains(exact=True), st.booleans())
def test_certain_intervals_give_the_chain_itself(chain: Any, side: bool) -> None:
    matrix, _ = dense(chain)
    values = np.zeros(chain.n)
    values[-1] = 1.0
    for steps in range(5):
        got = robust_reach(chain, [chain.n - 1], steps, maximise=side)
        assert np.abs(got - values).max() < 1e-12
        values = matrix @ values
        values[-1] = 1.0


@given(interval_chains(), st.sampled_from([0, 1, 7, None]))
def test_bounds_are_ordered_and_more_targets_never_lower_them(
    chain: Any, steps: int | None
) -> None:
    for side in (False, True):
        one = robust_reach(chain, [chain.n - 1], steps, maximise=side)
        two = robust_reach(chain, [chain.n - 1, 0], steps, maximise=side)
        assert (one <= two + 1e-12).all()
    low = robust_reach(chain, [chain.n - 1], steps, maximise=False)
    high = robust_reach(chain, [chain.n - 1], steps, maximise=True)
    assert (low <= high + 1e-12).all() and (low >= 0).all() and (high <= 1).all()


@given(interval_chains(), st.sampled_from([3, None]), st.booleans())
def test_avoided_states_are_absorbing(
    chain: Any, steps: int | None, side: bool
) -> None:
    mask = np.zeros(chain.n, bool)
    mask[0] = True
    got = robust_reach(chain, [chain.n - 1], steps, maximise=side, avoid=mask)
    low, high = dense(chain)
    rows = {
        i: {j: (low[i, j], high[i, j]) for j in range(chain.n) if high[i, j] > 0}
        for i in range(chain.n)
    }
    absorbed = bounded_rows({**rows, 0: {0: (1.0, 1.0)}})
    wanted = robust_reach(absorbed, [chain.n - 1], steps, maximise=side)
    assert np.abs(got - wanted).max() < 1e-12


@given(interval_chains(), st.sampled_from([1, 4, None]), st.booleans())
def test_unseen_probability_acts_like_an_extra_state(
    chain: Any, steps: int | None, side: bool
) -> None:
    n = chain.n
    unseen = np.linspace(0.3, 0.0, n)
    low, high = dense(chain)
    rows = {
        i: {j: (low[i, j], high[i, j]) for j in range(n) if high[i, j] > 0}
        for i in range(n)
    }
    beyond = {i: {**row, n: (0.0, unseen[i])} for i, row in rows.items()}
    explicit = bounded_rows({**beyond, n: {n: (1.0, 1.0)}})
    wanted = robust_reach(
        explicit, [n - 1, n] if side else [n - 1], steps, maximise=side
    )
    got = robust_reach(replace(chain, unseen=unseen), [n - 1], steps, maximise=side)
    assert np.abs(got - wanted[:n]).max() < 1e-9


# -- what a model leaves open ---------------------------------------------------------


def seen(*traces: str, support: str = "observed", **facts: Any) -> Model:
    tally = Tally()
    for trace in traces:
        tally.add_sequence(trace.split())
    rows = None
    if support == "declared":
        rows = {"a": ["a", "b"], "b": ["a"]}
    return learn(tally, Support(support, rows), Fraction(0), "absorb", **facts)


def test_every_visited_state_has_one_way_out_that_was_never_seen() -> None:
    model = seen(*["a a b"] * 20)
    chain = model_intervals(model, 0.04)
    assert chain.unseen is not None
    # Three ways out of a, two of b: four intervals, and only the upper end is used.
    tail = 0.04 / 4
    assert chain.unseen == pytest.approx(
        [1 - tail ** (1 / 40), 1 - tail ** (1 / 20), 0.0]
    )
    assert chain.high.max() == 1.0 and chain.low[chain.indptr[2]] == 1.0
    high = robust_reach(chain, [1], 1, maximise=True)
    assert high[2] == 0.0 and high[0] > model.chain.row(0)[1]
    closed = model_intervals(model, 0.04, closed_support=True)
    assert closed.unseen is None
    # b always ended, which is certain only of a closed support.
    assert closed.low[closed.indptr[1]] == 1.0 > chain.low[chain.indptr[1]]


def test_a_declared_support_is_closed_but_for_ends() -> None:
    model = seen(*["a b a"] * 5, support="declared")
    assert not open_rows(model).any()
    chain = model_intervals(model, 0.05)
    assert chain.unseen is None
    # No trace ended in b, and still one may.
    assert chain.indices[chain.indptr[1] : chain.indptr[2]].tolist() == [0, 2]
    assert 0 < chain.high[chain.indptr[1] + 1] < 1


def test_validity_closes_what_is_impossible_by_definition() -> None:
    abstraction = Abstraction.from_dict(
        {
            "format": "forewarn.abstraction/1",
            "name": "test",
            "predicates": ["hit"],
            "irreversible": ["hit"],
        },
        "test",
    )
    content = abstraction.as_dict()
    model = seen("0 0 1", "0 1 1", abstraction=content)
    # From 0 both were seen; from 1 there is only 1.
    assert not open_rows(model).any()
    assert open_rows(seen("0 0 0", abstraction=content)).tolist() == [True, False]
    assert open_rows(seen("0 0 1", "0 1 1")).tolist() == [True, True, False]


def test_self_loops_may_last_for_ever_only_in_the_minimum() -> None:
    # State 0 may stay for ever; the least probability is 0 although every chain in
    # the inside of the intervals reaches the target with probability 1.
    chain = bounded_rows({0: {0: (0.0, 1.0), 1: (0.0, 1.0)}, 1: {1: (1.0, 1.0)}})
    assert robust_reach(chain, [1], maximise=False).tolist() == [0, 1]
    assert robust_reach(chain, [1], maximise=True).tolist() == [1, 1]


def test_slow_chains_are_solved_and_not_swept() -> None:
    stay = 1 - 1e-7
    chain = bounded_rows(
        {
            0: {0: (stay, stay), 1: (0.2e-7, 0.6e-7), 2: (0.4e-7, 0.8e-7)},
            1: {1: (1.0, 1.0)},
            2: {2: (1.0, 1.0)},
        }
    )
    assert robust_reach(chain, [1], maximise=False)[0] == pytest.approx(0.2, rel=1e-6)
    assert robust_reach(chain, [1], maximise=True)[0] == pytest.approx(0.6, rel=1e-6)


def test_many_states_use_the_sparse_solver() -> None:
    n = 400
    step, back = (0.4, 0.6), (0.4, 0.6)
    rows = {i: {i - 1: back, i + 1: step} for i in range(1, n - 1)}
    chain = bounded_rows({0: {0: (1, 1)}, **rows, n - 1: {n - 1: (1, 1)}})
    high = robust_reach(chain, [n - 1], maximise=True)
    # Gambler's ruin with odds 2:3 against, at its most favourable.
    ratio = 0.4 / 0.6
    wanted = (1 - ratio ** np.arange(n)) / (1 - ratio ** (n - 1))
    assert np.abs(high - wanted).max() < 1e-10


# -- what is refused --------------------------------------------------------------


def test_a_model_without_counts_has_no_intervals() -> None:
    chain = Chain.from_rows(["a"], {0: {0: 1.0}})
    with pytest.raises(InvalidModel, match="need transition counts"):
        model_intervals(Model(chain), 0.05)


def test_rows_too_wide_to_pad_are_refused() -> None:
    n = 6000
    with pytest.raises(TooLarge, match="6000 states with up to 6000 successors"):
        learned({0: {j: 1 for j in range(n)}}, n)


# -- against Storm ------------------------------------------------------------------


@pytest.mark.needs("stormpy")
@pytest.mark.parametrize("seed", range(4))
def test_storm_agrees_within_a_number_of_steps(seed: int, tmp_path: Path) -> None:
    import stormpy

    rng = np.random.default_rng(seed)
    n = 7
    rows: dict[int, dict[int, tuple[float, float]]] = {n - 1: {n - 1: (1.0, 1.0)}}
    for i in range(n - 1):
        support = rng.choice(n, 4, replace=False)
        truth = rng.dirichlet(np.ones(4))
        width = rng.random(4) * 0.2
        rows[i] = {
            int(j): (float(max(p - w, p / 2)), float(min(p + w, 1.0)))
            for j, p, w in zip(support, truth, width, strict=True)
        }
    body = "".join(
        f"[] s={i} -> "
        + " + ".join(f"[{a!r},{b!r}] : (s'={j})" for j, (a, b) in rows[i].items())
        + ";\n"
        for i in range(n - 1)
    )
    chain = bounded_rows(rows)
    mode = stormpy.UncertaintyResolutionMode
    for initial in range(n - 1):
        path = tmp_path / f"{initial}.prism"
        path.write_text(
            f"dtmc\nmodule m\ns : [0..{n - 1}] init {initial};\n{body}"
            f"[] s={n - 1} -> (s'={n - 1});\nendmodule\n"
        )
        program = stormpy.parse_prism_program(str(path))
        for steps in (1, 5, 20):
            text = f"P=? [F<={steps} s={n - 1}]"
            prop = stormpy.parse_properties(text, program)[0]
            model = stormpy.build_model[stormpy.Interval](program, [prop])
            for side, asked in ((False, mode.MINIMIZE), (True, mode.MAXIMIZE)):
                result = stormpy.model_checking(
                    model, prop, uncertainty_resolution_mode=asked
                )
                theirs = result.get_value(model.initial_states[0])
                ours = robust_reach(chain, [n - 1], steps, maximise=side)
                assert ours[initial] == pytest.approx(theirs, abs=1e-9)


# -- coverage by simulation ---------------------------------------------------------


def coverage(runs: int, seed: int, delta: float, traces: int) -> float:
    """How often [low, high] contains the truth from all states at once."""
    rng = np.random.default_rng(seed)
    truth = np.array(
        [
            [0.90, 0.07, 0.02, 0.01, 0.0],
            [0.30, 0.50, 0.15, 0.0, 0.05],
            [0.20, 0.30, 0.40, 0.10, 0.0],
            [0.0, 0.0, 0.0, 1.0, 0.0],
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    wanted = {}
    for steps in (10, 4000):
        values = np.eye(5)[3]
        for _ in range(steps):
            values = np.maximum(truth @ values, np.eye(5)[3])
        wanted[steps] = values
    edges = truth.cumsum(axis=1)
    held = 0
    for _ in range(runs):
        state = rng.integers(0, 3, traces)
        rows = {i: {int(j): 0 for j in np.flatnonzero(truth[i])} for i in range(5)}
        for _ in range(12):
            further = (edges[state] < rng.random((traces, 1))).sum(axis=1)
            for i, j in zip(state, further, strict=True):
                rows[int(i)][int(j)] += 1
            state = further
        chain = learned(rows, 5, delta)
        inside = []
        for steps, asked in ((10, 10), (4000, None)):
            low = robust_reach(chain, [3], asked, maximise=False)
            high = robust_reach(chain, [3], asked, maximise=True)
            truth_in = (low - 1e-9 <= wanted[steps]) & (wanted[steps] <= high + 1e-9)
            inside.append(truth_in)
        held += bool(np.all(inside))
    return held / runs


def test_intervals_cover_the_truth() -> None:
    assert coverage(runs=60, seed=1, delta=0.05, traces=20) >= 0.95


@pytest.mark.soak
@pytest.mark.parametrize(("delta", "traces"), [(0.05, 5), (0.05, 200), (0.5, 40)])
def test_intervals_cover_the_truth_in_many_runs(delta: float, traces: int) -> None:
    assert coverage(runs=3000, seed=2, delta=delta, traces=traces) >= 1 - delta


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.3])
def test_one_interval_covers_exactly_as_much_as_it_says(delta: float) -> None:
    # All outcomes of 25 visits, weighed exactly: at least the nominal coverage for
    # every truth, and for some truth hardly more, so the interval is not just wide.
    n = 25
    bounds = [
        dense(learned({0: {1: k, 2: n - k}}, 3, delta))[side][0, 1]
        for side in (0, 1)
        for k in range(n + 1)
    ]
    low, high = np.reshape(bounds, (2, n + 1))
    covered = [
        sum(
            math.comb(n, k) * p**k * (1 - p) ** (n - k)
            for k in range(n + 1)
            if low[k] <= p <= high[k]
        )
        for p in np.linspace(0.001, 0.999, 999)
    ]
    assert 1 - delta <= min(covered) <= 1 - delta / 2
