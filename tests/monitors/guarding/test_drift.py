"""The drift test stays quiet under the model and speaks up when the world changes."""

from fractions import Fraction

import numpy as np
import pytest

from forewarn.monitors.chains.model import Counts, Model, smoothed_chain
from forewarn.monitors.guarding import drift as module
from forewarn.monitors.guarding.drift import Drift

STATES = ("a", "b", "c")
TRUE = np.array([[0.9, 0.08, 0.02], [0.3, 0.6, 0.1], [0.5, 0.0, 0.5]])


def walk(rows: np.ndarray, steps: int, rng: np.random.Generator) -> list[int]:
    state, seen = 0, [0]
    edges = rows.cumsum(axis=1)
    for u in rng.random(steps):
        state = int(np.searchsorted(edges[state], u))
        seen.append(min(state, 2))
        state = seen[-1]
    return seen


def learned(steps: int, rng: np.random.Generator) -> Model:
    seen = walk(TRUE, steps, rng)
    rows: list[dict[int, int]] = [{}, {}, {}]
    for i, j in zip(seen, seen[1:], strict=False):
        rows[i][j] = rows[i].get(j, 0) + 1
    counts = Counts.from_rows(rows)
    chain, _ = smoothed_chain(STATES, counts, Fraction(0))
    return Model(chain, counts=counts, alpha=Fraction(0))


def found_at(model: Model, states: list[int | None]) -> int | None:
    drift = Drift.of(model, 0.05)
    assert drift is not None
    for state in states:
        drift.observe(state)
    return None if drift.found is None else drift.found.transitions


@pytest.mark.parametrize("training", [500, 20_000])
def test_quiet_in_the_world_that_it_was_learned_in(training: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        model = learned(training, rng)
        assert found_at(model, walk(TRUE, 20_000, rng)) is None


def test_speaks_up_in_a_changed_world() -> None:
    rng = np.random.default_rng(2)
    changed = np.array([[0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.5, 0.0, 0.5]])
    for _ in range(5):
        model = learned(20_000, rng)
        before = walk(TRUE, 2_000, rng)
        at = found_at(model, before + walk(changed, 2_000, rng))
        assert at is not None
        assert at > 2_000


def test_names_the_state_that_changed() -> None:
    rng = np.random.default_rng(3)
    changed = TRUE.copy()
    changed[1] = [0.05, 0.9, 0.05]
    drift = Drift.of(learned(20_000, rng), 0.05)
    assert drift is not None
    for state in walk(changed, 20_000, rng):
        drift.observe(state)
    assert drift.found is not None
    assert drift.found.state == "b"
    assert "no longer fits" in (drift.note() or "")


def test_states_outside_the_chain_count_against_the_model() -> None:
    rng = np.random.default_rng(4)
    model = learned(20_000, rng)
    seen: list[int | None] = []
    for state in walk(TRUE, 300, rng):
        seen += [state, None]
    assert found_at(model, seen) is not None


def test_episodes_are_not_joined() -> None:
    drift = Drift.of(learned(1_000, np.random.default_rng(5)), 0.05)
    assert drift is not None
    for _ in range(10):
        drift.reset()
        drift.observe(2)
    assert drift.transitions == 0


def test_without_counts_there_is_nothing_to_compare_with() -> None:
    model = learned(100, np.random.default_rng(6))
    assert Drift.of(Model(model.chain), 0.05) is None


def test_a_change_in_one_state_is_not_hidden_by_the_others() -> None:
    rng = np.random.default_rng(4)
    changed = np.array([[0.9, 0.08, 0.02], [0.3, 0.6, 0.1], [0.05, 0.0, 0.95]])
    for _ in range(5):
        model = learned(20_000, rng)
        at = found_at(model, walk(changed, 20_000, rng))
        assert at is not None and at < 2_000


def test_episodes_that_end_are_no_drift() -> None:
    """The last frame shows no END, so a state that lasts until then is not leaving."""
    rng = np.random.default_rng(5)
    rows: list[dict[int, int]] = [{0: 800, 1: 100, 3: 100}, {0: 90, 1: 10}, {}, {3: 0}]
    counts = Counts.from_rows(rows)
    chain, _ = smoothed_chain((*STATES, "END"), counts, Fraction(0), end=3)
    model = Model(chain, counts=counts, alpha=Fraction(0), end="absorb")
    drift = Drift.of(model, 0.05)
    assert drift is not None
    for _ in range(2000):
        drift.reset()
        state = 0
        while state != 3:
            drift.observe(state)
            row = rows[state]
            share = np.array(list(row.values())) / sum(row.values())
            state = int(rng.choice(list(row), p=share))
    assert drift.found is None


def test_what_was_seen_can_be_forgotten() -> None:
    rng = np.random.default_rng(6)
    model = learned(20_000, rng)
    drift = Drift.of(model, 0.05)
    assert drift is not None
    fresh = dict(drift.as_dict())
    for _ in range(50):
        drift.observe(0)
        drift.observe(None)
    assert drift.found is not None
    drift.forget()
    assert dict(drift.as_dict()) == fresh and drift.note() is None


def test_the_bets_are_those_of_an_estimate_that_forgets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_HEAVY", 3.0)
    row = module._Row({0: 0.5, 1: 0.7}, 0.2)
    rng = np.random.default_rng(5)
    share, total = {0: 0.0, 1: 0.0, 9: 0.0}, 0.0
    for after in rng.choice([0, 1, 9], 2_000, p=[0.6, 0.3, 0.1]).tolist():
        stake = (share[after] + 1 / 3) / (total + 1)
        expected = np.log(stake / {0: 0.5, 1: 0.7, 9: 0.2}[after])
        assert row.gain(after) == pytest.approx(expected, rel=1e-9)
        if total >= 200:
            share = {key: 0.995 * seen for key, seen in share.items()}
            total *= 0.995
        share[after] += 1
        total += 1
    assert row.weight <= 3.1
