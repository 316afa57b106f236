"""The order and dwell tests: exact small cases, size and power by simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.trust.memory import (
    Sequences,
    benjamini_hochberg,
    dwell_test,
    order_test,
)

LEVEL = 0.05


def order_p(*traces: Any, states: int = 3) -> Any:
    names = [f"s{i}" for i in range(states)]
    return order_test(Sequences.of(names, traces), 0, LEVEL)


# -- exact cases ----------------------------------------------------------------------


def test_the_likelihood_ratio_by_hand() -> None:
    # Around s1: (s0 -> s0) 30, (s0 -> s2) 10, (s2 -> s0) 12, (s2 -> s2) 28.
    table = {(0, 0): 30, (0, 2): 10, (2, 0): 12, (2, 2): 28}
    traces = [[a, 1, c] for (a, c), times in table.items() for _ in range(times)]
    (finding,) = order_p(*traces)
    rows, columns = {0: 40, 2: 40}, {0: 42, 2: 38}
    ratio = 2 * sum(
        n * math.log(n * 80 / (rows[a] * columns[c])) for (a, c), n in table.items()
    )
    # Chi-square with one degree of freedom is a squared normal.
    assert finding.p_value == pytest.approx(math.erfc(math.sqrt(ratio / 2)), rel=1e-9)
    assert finding.method == "chi-square" and finding.visits == 80
    assert finding.effect == pytest.approx((30 / 40 - 42 / 80 + 42 / 80 - 12 / 40) / 2)
    assert finding.predecessor in ("s0", "s2")


def test_small_counts_are_permuted_and_agree_with_the_exact_test() -> None:
    # Fisher's lady: 3 of 4 and 1 of 4; tables as extreme have probability 34/70.
    table = {(0, 0): 3, (0, 2): 1, (2, 0): 1, (2, 2): 3}
    traces = [[a, 1, c] for (a, c), times in table.items() for _ in range(times)]
    (finding,) = order_p(*traces)
    assert finding.method == "permutation"
    assert finding.p_value == pytest.approx(34 / 70, abs=0.15)
    assert finding.predecessor_effect == pytest.approx(0.25)


def test_a_strong_dependence_is_decided_by_more_draws() -> None:
    traces = [[a, 1, a] for a in (0, 2) for _ in range(8)]
    (finding,) = order_p(*traces)
    assert finding.method == "permutation"
    # 2 of 12,870 tables are as extreme; 999 draws can say little less than 1/1000.
    assert finding.p_value < 0.005
    assert finding.effect == pytest.approx(0.5)


def test_what_cannot_differ_is_not_tested() -> None:
    assert order_p([0, 1, 2, 0, 1, 2, 0, 1, 2]) == []
    assert order_p([0, 1], [2], []) == []
    assert order_p() == [] and dwell_test(Sequences.of(["a"], [])) == []


def test_windows_do_not_cross_from_trace_to_trace() -> None:
    apart = order_p(*[[0, 1, 0]] * 30, *[[2, 1, 2]] * 30)
    assert apart[0].visits == 60 and len(apart) == 1


@given(st.integers(0, 10**6))
def test_renaming_states_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    traces = [rng.integers(0, 3, 400) for _ in range(4)]
    other = rng.permutation(3)
    names = ["a", "b", "c"]
    plain = order_test(Sequences.of(names, traces), 0, LEVEL)
    moved = [names[i] for i in np.argsort(other)]
    renamed = order_test(
        Sequences.of(moved, [other[trace] for trace in traces]), 0, LEVEL
    )
    assert {f.state: round(f.p_value, 9) for f in plain} == {
        f.state: round(f.p_value, 9) for f in renamed
    }


def test_a_state_of_fixed_length_is_told_by_its_dwell() -> None:
    trace = ([0] * 10 + [1] * 3) * 40
    findings = {f.state: f for f in dwell_test(Sequences.of(["a", "b"], [trace]))}
    assert findings["a"].mean_steps == pytest.approx(10)
    assert findings["a"].early_rate == 0 and findings["a"].late_rate > 0.2
    assert findings["a"].p_value < 1e-6 and findings["a"].effect > 0.4
    assert findings["a"].runs == 40 and findings["b"].runs == 39
    said = "a lasts 10 steps on average, but is not left at a constant rate: 0 per step"
    assert findings["a"].sentence().startswith(said)


def test_a_mixture_of_short_and_long_runs_ends_ever_less_likely() -> None:
    rng = np.random.default_rng(4)
    stays = np.where(rng.random(300) < 0.5, 1, rng.geometric(0.05, 300))
    trace = np.concatenate([[0] * stay + [1] for stay in stays])
    (finding,) = dwell_test(Sequences.of(["a", "b"], [trace]))
    assert finding.early_rate > 0.2 > 0.07 > finding.late_rate > 0.03
    assert finding.p_value < 1e-6


def test_runs_cut_short_by_the_end_of_a_trace_count_while_they_were_watched() -> None:
    # Traces of 12 frames that start in a geometric run of mean 10: ignoring the runs
    # that were cut would make them look far too short and even.
    rng = np.random.default_rng(8)
    stays = rng.geometric(0.1, 600)
    traces = [([0] * stay + [1] * 12)[:12] for stay in stays]
    finding = dwell_test(Sequences.of(["a", "b"], traces))[0]
    assert finding.mean_steps == pytest.approx(10, rel=0.1)
    assert finding.p_value > 0.01


def test_few_or_single_runs_are_not_tested() -> None:
    assert dwell_test(Sequences.of(["a", "b"], [[0, 1] * 100])) == []
    assert dwell_test(Sequences.of(["a", "b"], [[0, 0, 0, 1] * 20])) == []


def test_unknown_states_are_refused() -> None:
    with pytest.raises(InvalidInput, match="number 5, but there are 2"):
        Sequences.of(["a", "b"], [[0, 5]])


def test_false_discoveries_are_limited() -> None:
    flagged = benjamini_hochberg([0.001, 0.8, 0.039, 0.02, 0.9], 0.05)
    assert flagged.tolist() == [True, False, False, True, False]
    assert benjamini_hochberg([], 0.05).tolist() == []
    # A large p-value counts as soon as enough smaller ones stand beside it.
    assert benjamini_hochberg([0.01, 0.02, 0.05], 0.05).all()


# -- size and power -------------------------------------------------------------------


def random_rows(rng: Any, n: int, k: int) -> Any:
    matrix = np.zeros((n, n))
    for row in matrix:
        row[rng.choice(n, k, replace=False)] = rng.dirichlet(np.full(k, 0.7))
    return matrix


def walks(rng: Any, matrix: Any, traces: int, length: int) -> Any:
    edges, state = matrix.cumsum(axis=1), np.zeros(traces, int)
    seen = [state]
    for _ in range(length - 1):
        drawn = (edges[state] < rng.random((traces, 1))).sum(axis=1)
        state = np.minimum(drawn, len(matrix) - 1)
        seen.append(state)
    return np.stack(seen, axis=1)


def order_rates(n: int, k: int, traces: int, length: int, runs: int) -> Any:
    """How often any state is flagged in chains, and the split one in others."""
    rng = np.random.default_rng(n)
    names = [str(i) for i in range(n)]
    wrong = found = 0
    for run in range(runs):
        fair = walks(rng, random_rows(rng, n, k), traces, length)
        findings = order_test(Sequences.of(names, list(fair)), run, LEVEL)
        wrong += int(benjamini_hochberg([f.p_value for f in findings], LEVEL).any())
        # A hidden copy of state 1 with a row of its own looks the same.
        hidden = walks(rng, random_rows(rng, n + 1, k), traces, length)
        findings = order_test(
            Sequences.of(names, list(np.where(hidden == n, 1, hidden))), run, LEVEL
        )
        flagged = benjamini_hochberg([f.p_value for f in findings], LEVEL)
        found += any(
            f.state == "1" for f, y in zip(findings, flagged, strict=True) if y
        )
    return wrong / runs, found / runs


@pytest.mark.parametrize(
    ("n", "k", "traces", "length", "power"),
    [(5, 3, 30, 15, 0.45), (9, 4, 100, 20, 0.75), (17, 5, 100, 20, 0.75)],
)
def test_order_test_size_and_power(
    n: int, k: int, traces: int, length: int, power: float
) -> None:
    wrong, found = order_rates(n, k, traces, length, runs=40)
    assert wrong <= 0.15
    assert found >= power


@pytest.mark.soak
@pytest.mark.parametrize(
    ("n", "k", "traces", "length", "power"),
    [(5, 3, 30, 15, 0.6), (9, 4, 30, 15, 0.5), (17, 5, 1000, 30, 0.95)],
)
def test_order_test_size_and_power_in_many_runs(
    n: int, k: int, traces: int, length: int, power: float
) -> None:
    wrong, found = order_rates(n, k, traces, length, runs=500)
    assert wrong <= 0.08
    assert found >= power


def phases(rng: Any, traces: int, length: int, fixed: bool) -> list[Any]:
    """Three phases of twenty steps: of roughly fixed length, or geometric."""
    found = []
    for _ in range(traces):
        trace, state = list[int](), 0
        while len(trace) < length:
            stay = rng.normal(20, 5) if fixed else rng.geometric(1 / 20)
            trace += [state] * max(1, int(stay))
            state = (state + (1 if rng.random() < 0.8 else 2)) % 3
        found.append(trace[:length])
    return found


def dwell_rates(traces: int, length: int, runs: int) -> tuple[float, float, float]:
    """Flagged by dwell in chains and in fixed phases; by order in fixed phases."""
    rng = np.random.default_rng(traces)
    rates = np.zeros(3)
    for _ in range(runs):
        for column, fixed in enumerate((False, True)):
            data = Sequences.of("abc", phases(rng, traces, length, fixed))
            p_values = [f.p_value for f in dwell_test(data)]
            rates[column] += benjamini_hochberg(p_values, LEVEL).any()
        p_values = [f.p_value for f in order_test(data, 0, LEVEL)]
        rates[2] += benjamini_hochberg(p_values, LEVEL).any()
    return tuple(rates / runs)


def test_dwell_test_size_and_power() -> None:
    wrong, found, by_order = dwell_rates(traces=10, length=300, runs=40)
    assert wrong <= 0.15
    assert found == 1.0
    assert by_order < 0.5, "which is why there is a dwell test"


@pytest.mark.soak
@pytest.mark.parametrize(("traces", "length"), [(30, 300), (100, 100), (300, 30)])
def test_dwell_test_size_and_power_in_many_runs(traces: int, length: int) -> None:
    wrong, found, _ = dwell_rates(traces, length, runs=300)
    assert wrong <= 0.08
    assert found >= 0.99
