"""The drift test stays quiet under the model and speaks up when the world changes."""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import from_expressions
from forewarn.monitors.chains.intervals import IntervalChain, model_intervals
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


def found_at(model: Model, states: Sequence[int | None]) -> int | None:
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


HIGHEST = st.dictionaries(
    st.integers(0, 4), st.floats(0.01, 1.0), min_size=1, max_size=4
)


@given(
    HIGHEST,
    st.floats(0.001, 1.0),
    st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=30),
)
def test_at_the_highest_odds_a_bet_wins_what_it_loses(
    highest: dict[int, float], outside: float, history: list[int | None]
) -> None:
    """So no world within the bounds makes the bets win on average."""
    row = module._Row(highest, outside)
    for after in history:
        row.gain(after)

    def paid(after: int | None) -> float:
        return math.exp(copy.deepcopy(row).gain(after))

    even = sum(p * paid(j) for j, p in highest.items()) + outside * paid(None)
    assert even == pytest.approx(1.0)


def test_a_state_with_one_successor_is_left_for_others_as_often_as_counts_allow() -> (
    None
):
    rng = np.random.default_rng(7)
    drift = Drift.of(alternating(300), 0.05)
    assert drift is not None
    most = 1 - (0.05 / 2) ** (1 / 300)
    for leaves in rng.random(5_000) < most:
        drift.reset()
        drift.observe(0)
        drift.observe(None if leaves else 1)
    assert drift.found is None


def test_where_the_world_differs_is_said_by_what_holds_there() -> None:
    abstraction = from_expressions(["wet"]).as_dict()
    model = replace(alternating(300, ("0", "1")), abstraction=abstraction)
    drift = Drift.of(model, 0.05)
    assert drift is not None
    for _ in range(40):
        drift.observe(1)
    note = drift.note()
    assert note is not None and "its counts, most where wet; " in note


def alternating(visits: int, states: tuple[str, str] = ("a", "b")) -> Model:
    counts = Counts.from_rows([{1: visits}, {0: visits}])
    chain, _ = smoothed_chain(states, counts, Fraction(0))
    return Model(chain, counts=counts, alpha=Fraction(0))


class Bets:
    """What stands in the module's first lines, for less than 200 transitions a state.

    A list of gains is the whole account: it is worth its best sum of last gains.
    """

    def __init__(self, odds: list[dict[int | None, float]], rate: float) -> None:
        self.odds = odds
        self.seen = [dict.fromkeys(row, 0) for row in odds]
        self.gains: list[float] = []
        self.against: list[list[float]] = [[] for _ in odds]
        self.limit = math.log(2 / rate)
        self.limit_of_state = math.log(2 * len(odds) / rate)

    def see(self, state: int, after: int | None) -> None:
        odds, seen = self.odds[state], self.seen[state]
        after = after if after in odds else None
        total = sum(seen.values())
        gain = math.log((seen[after] + 1 / len(odds)) / (total + 1) / odds[after])
        seen[after] += 1
        self.gains.append(gain)
        self.against[state].append(gain)

    def evidence(self) -> float:
        return max(
            best_sum_of_last(self.gains) / self.limit,
            max(map(best_sum_of_last, self.against)) / self.limit_of_state,
        )


def best_sum_of_last(gains: list[float]) -> float:
    return max(sum(gains[i:]) for i in range(len(gains) + 1))


@pytest.mark.parametrize("seed", range(6))
def test_the_evidence_is_what_the_bets_have_won(seed: int) -> None:
    """With END in the model, rows that all go there, and states never seen before."""
    rng = np.random.default_rng(seed)
    # "c" may end each time; "d" was never left, so anything may follow.
    high = {
        0: {0: 0.9, 1: 0.3},
        1: {0: 0.5, 2: 0.4, 4: 0.2},
        2: {0: 0.6, 4: 1.0},
        3: {3: 1.0},
        4: {4: 1.0},
    }
    outside = [0.05, 0.9, 0.1, 1.0, 1.0]
    indices = [j for row in high.values() for j in row]
    bounds = np.array([p for row in high.values() for p in row.values()])
    ends = np.cumsum([0, *map(len, high.values())])
    intervals = IntervalChain(
        ("a", "b", "c", "d", "END"), ends, np.array(indices), 0 * bounds, bounds
    )
    drift = Drift(intervals, outside, end=4, rate=0.01)
    bets = Bets(
        [
            {0: 0.9, 1: 0.3, None: 0.05},
            {0: 0.5 / 0.8, 2: 0.4 / 0.8, None: 1.0},
            {0: 1.0, None: 1.0},
            {3: 1.0, None: 1.0},
            {None: 1.0},
        ],
        rate=0.01,
    )
    assert [row.highest | {None: row.outside} for row in drift._rows] == bets.odds
    assert drift.as_dict() == {
        "transitions": 0, "found_at": None, "state": None, "evidence": 0.0,
    }  # fmt: skip
    before: int | None = None
    found: tuple[int, str] | None = None
    p = [0.2, 0.35, 0.3, 0.1, 0.05] if seed % 2 else [0.75, 0.1, 0.1, 0.03, 0.02]
    for after in rng.choice(np.array([0, 1, 2, 3, None]), 150, p=p).tolist():
        drift.observe(after)
        if before is not None:
            bets.see(before, after)
        before = after
        assert drift.as_dict()["evidence"] == pytest.approx(bets.evidence())
        assert drift.transitions == len(bets.gains)
        if found is None and bets.evidence() > 1:
            most = [best_sum_of_last(gains) for gains in bets.against]
            found = drift.transitions, "abcd"[int(np.argmax(most))]
        report = drift.as_dict()
        assert (report["found_at"], report["state"]) == (found or (None, None))


def test_the_odds_are_the_upper_bounds_of_the_counts() -> None:
    """What was never seen in n visits is as likely as (1 - p)^n = delta / states."""
    rng = np.random.default_rng(8)
    model = learned(200, rng)
    drift = Drift.of(model, 0.05)
    assert drift is not None and model.counts is not None
    bounds = model_intervals(model, 0.05)
    for state, visits in enumerate(model.counts.visits.tolist()):
        row = drift._rows[state]
        assert (1 - row.outside) ** visits == pytest.approx(0.05 / 3)
        at = slice(*bounds.indptr[state : state + 2])
        assert list(row.highest.values()) == bounds.high[at].tolist()
