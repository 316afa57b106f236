"""Where risks likely lie: made of whole runs, kept with the model, judged by."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidModel
from forewarn.abstractions.trace import Kept
from forewarn.monitors.chains.formats.own import model_as_dict, parse_model
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model, load_model
from forewarn.monitors.evaluation.foretold import Foretold, calibrate
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.watch import load_watch
from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk.calibration import (
    Calibration,
    calibrated,
    corrected,
    likely_for,
)
from forewarn.monitors.risk.tables import RiskTable, solve_risk
from forewarn.monitors.trust.encoding import encode_trace
from forewarn.monitors.trust.hindsight import Judge
from forewarn.monitors.trust.resampling import (
    _Heights,
    _Redrawn,
    _seen,
    likely_risks,
)
from forewarn.scenarios.measuring.recorded import kept_runs, recorded_runs
from forewarn.scenarios.schema import load_scenario
from tests.scenarios import learned

ROAD, HORIZON_S, DRAWS = load_scenario("tiny-road"), 3.0, 20


@cache
def runs() -> tuple[Kept, ...]:
    """Those that the model was learned from."""
    return tuple(kept_runs(recorded_runs(learned.traces("tiny-road"))))


@cache
def plain() -> Model:
    return load_model(learned.model("tiny-road"))


def abstraction() -> Abstraction:
    return Abstraction.from_dict(dict(plain().abstraction or {}), "x")


@cache
def told() -> dict[str, list[Foretold]]:
    judge = Judge(plain(), abstraction(), ROAD.laws, [HORIZON_S], 0.1)
    found: dict[str, list[Foretold]] = {}
    fresh = recorded_runs(learned.traces("tiny-road", learned.FRESH))[:60]
    for number, run in enumerate(kept_runs(fresh)):
        for law, each in judge.look(number, run):
            found.setdefault(law, []).append(each)
    return found


@cache
def knowing() -> tuple[Model, dict[str, Calibration]]:
    curves = {law: calibrate(several, HORIZON_S) for law, several in told().items()}
    likely = likely_risks(plain(), ROAD.laws, HORIZON_S, runs(), told(), curves, DRAWS)
    return replace(plain(), likely=likely), curves


def test_a_draw_gives_the_chain_that_its_runs_would_have_given() -> None:
    model = plain()
    assert model.counts is not None
    redrawn = _Redrawn(model, model.counts, _seen(model, abstraction(), runs()))
    again = redrawn(np.ones(len(runs())))
    assert again.dense() == pytest.approx(model.chain.dense())
    random = np.random.default_rng(5)
    weight = random.multinomial(len(runs()), np.full(len(runs()), 1 / len(runs())))
    tally = Tally()
    for run, times in zip(runs(), weight.tolist(), strict=True):
        for _ in range(times):
            codes = encode_trace(run, abstraction())
            tally.add_codes(codes, abstraction().state_name)
    direct = learn(tally, alpha=model.alpha or Fraction(0), end=model.end).chain
    found = redrawn(weight.astype(float))
    for name in direct.states:
        ours = found.row(found.index(name))
        named = {found.states[state]: p for state, p in ours.items()}
        row = direct.row(direct.index(name))
        assert named == pytest.approx({direct.states[i]: p for i, p in row.items()})


def test_a_draw_calibrates_as_its_runs_would_have() -> None:
    several = told()["stop_at_red"]
    heights = _Heights.of(several, HORIZON_S)
    random = np.random.default_rng(6)
    table = random.random(100_000)
    weight = random.multinomial(60, np.full(60, 1 / 60)).astype(float)
    said, happened, run = list[float](), list[bool](), list[int]()
    count = 0
    for each, times in zip(several, weight.astype(int).tolist(), strict=True):
        known = each.pairs >= 0
        for _ in range(times):
            said += table[each.pairs[known]].tolist()
            happened += each.came_true(HORIZON_S)[known].tolist()
            run += [count] * int(known.sum())
            count += 1
    direct = calibrated(np.array(said), np.array(happened), np.array(run))
    found = heights.curve(table, weight)
    assert np.array(found.points) == pytest.approx(np.array(direct.points), abs=1e-3)


@pytest.mark.parametrize("firm", [3.0, 10.0, np.inf])
def test_pairs_that_are_off_by_themselves_widen_it_and_no_others_do(
    firm: float,
) -> None:
    """Risks that are right on average, and off in each pair by a known distribution."""
    random = np.random.default_rng(7)
    pairs, through = 400, 25
    said = random.uniform(0.05, 0.95, pairs)
    true = said if firm == np.inf else random.beta(firm * said, firm * (1 - said))
    run = np.tile(np.arange(through), pairs)
    pair = np.repeat(np.arange(pairs), through)
    frames = random.integers(1, 9, len(pair)).astype(float)
    happened = frames * (random.random(len(pair)) < true[pair])
    heights = _Heights(through, run, pair, frames, happened)
    spread = 0.02
    drawn = [said + random.normal(0, spread, pairs) for _ in range(DRAWS * 10)]
    drawn = [np.clip(each, 0, 1)[None] for each in drawn]
    assert heights.off(drawn) == pytest.approx(1 / (firm + 1), abs=0.06)
    heights.move(drawn, random)
    low, high = np.quantile(np.array(drawn)[:, 0], (0.025, 0.975), axis=0)
    if firm == np.inf:
        assert float((high - low).mean()) < 0.15
    assert float(((low <= true) & (true <= high)).mean()) >= 0.93


@pytest.mark.parametrize("through", [20, 60])
def test_what_came_of_many_runs_draws_it_in(through: int) -> None:
    """Draws lie far apart, as the truths do: runs tell which of them were right."""
    random = np.random.default_rng(9)
    pairs, spread = 300, 0.1
    middle = random.uniform(0.3, 0.7, pairs)
    true = np.clip(middle + random.normal(0, spread, pairs), 0, 1)
    run = np.tile(np.arange(through), pairs)
    pair = np.repeat(np.arange(pairs), through)
    happened = (random.random(len(pair)) < true[pair]).astype(float)
    heights = _Heights(through, run, pair, np.ones(len(pair)), happened)
    drawn = [np.clip(middle + random.normal(0, spread, pairs), 0, 1)[None]
             for _ in range(DRAWS * 10)]  # fmt: skip
    heights.move(drawn, random)
    low, high = np.quantile(np.array(drawn)[:, 0], (0.025, 0.975), axis=0)
    assert 0.92 <= float(((low <= true) & (true <= high)).mean()) <= 0.98
    # A normal distribution of that spread, and what so many runs make of it.
    known = 1 / (1 / spread**2 + through / 0.25) ** 0.5
    assert float((high - low).mean()) == pytest.approx(2 * 1.96 * known, rel=0.1)


def test_what_nobody_went_through_is_as_far_off_as_the_others() -> None:
    one = np.ones(5)
    heights = _Heights(5, np.arange(5), np.zeros(5, np.int64), one, one)
    drawn = [np.array([[0.5, 0.5]]) for _ in range(1000)]
    assert heights.off(drawn) == pytest.approx(0.99)
    heights.move(drawn, np.random.default_rng(8))
    low, high = np.quantile(np.array(drawn)[:, 0], (0.025, 0.975), axis=0)
    assert low[0] > 0.9, "five of five"
    assert (low[1], high[1]) == (pytest.approx(0, abs=0.01), pytest.approx(1, abs=0.01))


def test_a_model_keeps_it_and_a_guard_judges_by_it() -> None:
    model, curves = knowing()
    kept = parse_model(model_as_dict(model), "x")
    assert kept.likely == model.likely
    rules = {"no_collision": (Step("alert", 0.5),)}
    base = Policy(rules=rules, horizon_s=HORIZON_S, calibration=curves)
    names = [law.reference for law in ROAD.laws]
    watch = load_watch(kept, horizon_s=HORIZON_S, laws=names)
    Guard(watch, replace(base, judge_by="likely"))
    for law in watch.laws:
        for _low, point, _high, judged, ends in (p for row in law._risks for p in row):
            assert ends is not None and judged == ends[1]
            assert 0.0 <= ends[0] <= point <= ends[1] <= 1.0
    by_horizon = load_watch(kept, horizon_s=2.0, laws=names)
    other = replace(base, calibration={"no_collision": Calibration(((0.5, 0.9),))})
    for facts in ((by_horizon, base), (watch, other)):
        asked, policy = facts
        Guard(asked, policy)
        assert all(p[4] is None for row in asked.laws[-1]._risks for p in row)
        with pytest.raises(
            InvalidModel, match="stores no `likely` interval for the risk of"
        ):
            Guard(asked, replace(policy, judge_by="likely"))


def test_it_is_not_read_for_another_monitor() -> None:
    model, _ = knowing()
    law = ROAD.laws[0]
    watch = load_watch(model, horizon_s=HORIZON_S, laws=[law.reference]).laws[0]
    text, table = repr(law.formula), watch._table

    def found(letters: np.ndarray) -> object:
        return likely_for(model.likely, text, HORIZON_S, table.automaton, letters)

    assert found(table.letters) is not None
    assert found(table.letters[::-1].copy()) is None
    broken = {text: {**model.likely[text], "low": [[1]], "high": [[0]]}}
    with pytest.raises(
        InvalidModel,
        match=("the lower end of a `likely` interval is above the upper end"),
    ):
        likely_for(broken, text, HORIZON_S, table.automaton, table.letters)


@cache
def tiny_table() -> RiskTable:
    tally = Tally()
    tally.add_sequence(["0"])
    automaton = compile_law(parse_formula("always not bad"))
    chain = learn(tally, Support("observed"), Fraction(0), "absorb").chain
    return solve_risk(chain, np.zeros(chain.n, int), automaton, 1)


POINTS = st.lists(st.floats(0.001, 0.999), min_size=1, max_size=5, unique=True)


@given(POINTS, POINTS, st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_a_curve_never_draws_bounds_in(
    said: list[float], happened: list[float], figures: list[float]
) -> None:
    """An interval that holds on the chain is to hold beside any curve."""
    curve = Calibration(tuple(zip(sorted(said), sorted(happened), strict=False)))
    low, point, high = (np.array([each]) for each in sorted(figures))
    table = replace(tiny_table(), point=point, low=low, high=high)
    found = corrected(replace(table, observed=np.zeros(1, bool)), curve)
    assert (found.low <= low).all() and (high <= found.high).all()
    assert (found.low <= found.point).all() and (found.point <= found.high).all()
