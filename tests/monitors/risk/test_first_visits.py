"""First visits: counted by hand, bounded exactly, kept in files and shown by guards."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.errors import InvalidModel
from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.formats.own import model_as_dict, parse_model
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.watch import load_watch
from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk.calibration import Calibration, corrected
from forewarn.monitors.risk.evidence import assess
from forewarn.monitors.risk.first_visits import FirstVisits
from forewarn.monitors.trust.visiting import count_first_visits
from tests.oracles.first import coverage

LAW = compile_law(parse_formula("always not bad"))
GOOD, BAD = (LAW.column(LAW.letters[i]) for i in (0, 1))
LETTERS = np.array([GOOD, GOOD, BAD])
RESPONSE = compile_law(parse_formula("always (t -> eventually[0, 2 steps] d)"))


def counted(*runs: tuple[list[int], bool], horizon_s: float = 2.0) -> FirstVisits:
    each = ((np.array(states), whole) for states, whole in runs)
    return count_first_visits(LAW, LETTERS, each, horizon_s, 1.0)


def test_each_run_counts_once_in_a_pair_and_before_its_first_violation() -> None:
    found = counted(([0, 0, 1, 2, 0], True), ([0, 1, 1, 1], True), ([1, 2], True))
    # The first run first comes to 0 three steps before it breaks, so not within two.
    assert found.pairs.tolist() == [[0, 0, 2, 0, 0], [0, 1, 3, 2, 0]]


def test_states_after_a_cut_run_are_unknown() -> None:
    runs = [0, 0, 0, 1], [0, 1, 2]
    cut = counted(*((states, False) for states in runs))
    # One run is seen for long enough; the other broke, so all of it is known.
    assert cut.pairs.tolist() == [[0, 0, 2, 1, 0], [0, 1, 2, 1, 1]]
    possible = np.ones((LAW.n, 3), bool)
    low, high = cut.bounds(possible, 0.05)
    whole = counted(*((states, True) for states in runs)).bounds(possible, 0.05)
    assert low[0, 1] <= whole[0][0, 1] and high[0, 1] == 1.0
    assert np.isnan(low[0, 2])


def test_obligations_pending_at_a_cut_are_unknown() -> None:
    letters = np.array([RESPONSE.column(mask) for mask in (0, 1)])
    runs = [(np.array([0, 0, 1, 0]), False)]
    found = count_first_visits(RESPONSE, letters, runs, 1.0, 1.0)
    assert found.pairs[:, 3].tolist() == [0, 0, 0]
    assert found.pairs[:, 4].tolist() == [0, 1, 1]


@pytest.mark.parametrize(("came", "runs"), [(0, 7), (3, 7), (7, 7)])
def test_bounds_are_those_of_clopper_and_pearson(came: int, runs: int) -> None:
    visits = FirstVisits(1.0, "", np.array([[0, 0, runs, came, 0]]))
    low, high = visits.bounds(np.ones((2, 2), bool), 0.08)
    each = 0.01
    least = beta.ppf(each, came, runs - came + 1) if came else 0.0
    most = beta.ppf(1 - each, came + 1, runs - came) if came < runs else 1.0
    assert (low[0, 0], high[0, 0]) == (pytest.approx(least), pytest.approx(most))


def model() -> Model:
    """One bit, and runs that begin without it."""
    tally = Tally()
    for _ in range(40):
        tally.add_sequence(["0", "0", "0"])
    tally.add_sequence(["0", "1"])
    learned = learn(
        tally, Support("observed"), Fraction(0), "absorb",
        abstraction=from_expressions(["bad"], period_s=1.0).as_dict(), period_s=1.0,
        laws=("always not bad",),
    )  # fmt: skip
    place = {name: i for i, name in enumerate(learned.chain.states)}
    letters = np.array([BAD if name == "1" else GOOD for name in learned.chain.states])
    runs = [(np.array([place["0"]] * 3), True)] * 40
    runs.append((np.array([place["0"], place["1"]]), True))
    kept = count_first_visits(LAW, letters, runs, 2.0, 1.0).as_dict()
    return replace(learned, first_visits={repr(LAW.formula): kept})


def test_the_guard_shows_the_bounds_of_first_visits_at_their_horizon() -> None:
    found = parse_model(model_as_dict(model()))
    without = replace(found, first_visits={})
    shown = {}
    for name, each in (("first", found), ("chain", without)):
        for horizon_s in (2.0, 3.0):
            watch = load_watch(each, horizon_s=horizon_s)
            watch.read(Frame(0.0, 0, {"bad": False}))
            (law,) = watch.laws
            shown[name, horizon_s] = law.low, law.high
    # One pair can occur short of a violation, so all of delta is spent on it.
    least, most = beta.ppf(0.025, 1, 41), beta.ppf(0.975, 2, 40)
    assert shown["first", 2.0] == (pytest.approx(least), pytest.approx(most))
    assert shown["first", 2.0] != shown["chain", 2.0]
    assert shown["first", 3.0] == shown["chain", 3.0]


def test_a_curve_does_not_widen_what_was_observed() -> None:
    law = repr(LAW.formula)
    table = assess(model(), LAW, 2, law=law)
    said = corrected(table, Calibration(((0.2, 0.6),)))
    assert table.low is not None and table.high is not None
    pair = tuple(np.argwhere(table.observed)[0])
    assert said.high[pair] == max(table.high[pair], said.point[pair])
    none = np.zeros_like(table.observed)
    wide = corrected(replace(table, observed=none), Calibration(((0.2, 0.6),)))
    assert wide.high[pair] >= said.high[pair]


def test_a_file_with_more_outcomes_than_visits_is_rejected() -> None:
    content = model_as_dict(model())
    (kept,) = content["first_visits"].values()
    kept["pairs"] = [[0, 0, 3, 2, 2]]
    with pytest.raises(InvalidModel, match="more outcomes than visits"):
        load_watch(parse_model(content), horizon_s=2.0)
    kept["pairs"] = [[0, 99, 3, 2, 0]]
    with pytest.raises(InvalidModel, match="an unknown pair of states"):
        load_watch(parse_model(content), horizon_s=2.0)


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [
        ([[0, 0, 42, 0, 0]], "a higher count than there are training runs"),
        ([[0, 0, 1 << 53, 0, 0]], "a higher count than there are training runs"),
        ([[0, 0, 3, 0, 0], [0, 0, 41, 0, 0]], "pair of states twice"),
        ([[0, 0, 3, -1, 0]], "pairs"),
        ([[0, 0, 1 << 60, 0, 0]], "pairs"),
        ([[0, 0, 3, 0]], "pairs"),
        ([[0, 0, 3.5, 0, 0]], "pairs"),
    ],
)
def test_first_visits_that_training_cannot_have_had_are_rejected(
    pairs: list[list[float]], problem: str
) -> None:
    content = model_as_dict(model())
    (kept,) = content["first_visits"].values()
    kept["pairs"] = pairs
    with pytest.raises(InvalidModel, match=problem):
        load_watch(parse_model(content), horizon_s=2.0)


@pytest.mark.parametrize("memory", [False, True])
def test_bounds_of_first_visits_hold_in_simulation(memory: bool) -> None:
    chains = 1 if memory else 8
    found = coverage(3, chains, (20,), memory)
    kept = [each for (kind, *_), each in found.items() if kind == "first visits"]
    assert sum(each.covered for each in kept) >= sum(each.tables for each in kept) - 1


@pytest.mark.soak
def test_bounds_of_first_visits_hold_at_length() -> None:
    for (kind, law, size), each in coverage(2, 250).items():
        if kind == "first visits":
            assert each.share >= 0.95 - 0.02, (law, size)
