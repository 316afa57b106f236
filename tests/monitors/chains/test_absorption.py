"""Systems solved without subtraction, against fractions and closed forms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import TooLarge
from forewarn.monitors.chains import absorption
from forewarn.monitors.chains.absorption import Floats, Ints, absorbed, absorbed_full

System = tuple[Ints, Ints, Floats, Floats, Floats]


def fractions(system: System) -> list[Fraction]:
    """The solution by Gauss and Jordan."""
    source, target, weight, left, gain = system
    n = len(left)
    table = [[Fraction(0)] * (n + 1) for _ in range(n)]
    for i in range(n):
        table[i][i], table[i][n] = Fraction(left[i]), Fraction(gain[i])
    for i, j, w in zip(source.tolist(), target.tolist(), weight, strict=True):
        table[i][i] += Fraction(w)
        table[i][j] -= Fraction(w)
    for k in range(n):
        at = next(i for i in range(k, n) if table[i][k])
        table[k], table[at] = table[at], table[k]
        table[k] = [x / table[k][k] for x in table[k]]
        for i in range(n):
            if i != k and table[i][k]:
                share = table[i][k]
                table[i] = [
                    x - share * y for x, y in zip(table[i], table[k], strict=True)
                ]
    return [row[n] for row in table]


@st.composite
def systems(draw: st.DrawFn, most: int = 9) -> System:
    """Chains with weights of very different sizes, loops among them."""
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    pairs = np.argwhere(rng.random((n, n)) < rng.choice([0.2, 0.5, 1.0]))
    weight = 10.0 ** -rng.integers(0, 14, len(pairs)) * rng.random(len(pairs))
    left = 10.0 ** -rng.integers(0, 14, n) * rng.random(n)
    return pairs[:, 0], pairs[:, 1], weight, left, left * rng.random(n)


@given(systems())
def test_every_digit_holds(system: System) -> None:
    wanted = [float(x) for x in fractions(system)]
    assert absorbed(*system) == pytest.approx(wanted, rel=1e-13, abs=0)


@pytest.mark.parametrize(("full", "few"), [(1, 10**6), (4, 10**6), (1, -(10**6))])
def test_every_method_gives_the_same_probabilities(
    full: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    n = 60
    source, target = np.repeat(np.arange(n), 3), rng.integers(0, n, 3 * n)
    left = rng.random(n) * 0.1
    system = (source, target, rng.random(3 * n), left, left * rng.random(n))
    wanted = absorbed(*system)
    monkeypatch.setattr(absorption, "FULL_STATES", full)
    monkeypatch.setattr(absorption, "FEW_EDGES", few)
    # The third way is iteration, whose error is held to a bound.
    accuracy = 1e-13 if few > 0 else absorption.SOUND
    assert absorbed(*system) == pytest.approx(wanted, rel=accuracy)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_blocks_of_a_full_matrix(n: int) -> None:
    rng = np.random.default_rng(n)
    matrix, left = rng.random((n, n)), rng.random(n)
    gain = rng.random((n, 2))
    system = np.diag(matrix.sum(axis=1) + left) - matrix
    found = absorbed_full(matrix, left, gain)
    assert found == pytest.approx(np.linalg.solve(system, gain), rel=1e-11)


def ruin(n: int) -> tuple[System, Floats]:
    """A gambler with `n` coins to win or to lose, and his chances."""
    inner = np.arange(n - 1)
    source = np.concatenate([inner[1:], inner[:-1]])
    target = np.concatenate([inner[:-1], inner[1:]])
    left, gain = np.zeros(n - 1), np.zeros(n - 1)
    left[[0, -1]], gain[-1] = 0.5, 0.5
    weight = np.full(source.size, 0.5)
    return (source, target, weight, left, gain), np.arange(1, n) / n


@pytest.mark.parametrize("n", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_long_walks_are_solved(n: int) -> None:
    system, wanted = ruin(n)
    assert absorbed(*system) == pytest.approx(wanted, rel=1e-10)


def test_iteration_that_does_not_converge_returns_none() -> None:
    system, _ = ruin(5_000)
    assert absorption._iterated(*system[:4], system[4][:, None]) is None


@pytest.mark.parametrize("n", [4_000, pytest.param(12_000, marks=pytest.mark.slow)])
def test_well_mixed_states_are_iterated_with_a_known_error(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if n < 5_000:
        monkeypatch.setattr(absorption, "FEW_EDGES", 0)
    rng = np.random.default_rng(0)
    source, target = np.repeat(np.arange(n), 3), rng.integers(0, n, 3 * n)
    left, gain = np.full(n, 0.1), np.full(n, 0.04)
    found = absorbed(source, target, np.full(3 * n, 0.3), left, gain)
    assert found == pytest.approx(np.full(n, 0.4), abs=absorption.SOUND)


def test_systems_too_large_for_a_known_error_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system, _ = ruin(2_000)
    monkeypatch.setattr(absorption, "MAX_EDGES", 10)
    monkeypatch.setattr(absorption, "FEW_EDGES", -(10**6))
    with pytest.raises(TooLarge, match="1,999 states are too many to solve with a"):
        absorbed(*system)
