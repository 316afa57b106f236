"""Properties over interval chains: published bounds, and the chains inside them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import IntervalChain, model_intervals
from forewarn.monitors.chains.model import Counts, Model, smoothed_chain
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.properties import check, parse_property
from forewarn.monitors.checking.reaching import Floats
from forewarn.monitors.checking.reaching import bounds as bounds_of
from tests.monitors.checking.cases import BOUNDS, chains, paths


def bounds(text: str, chain: Chain, intervals: IntervalChain) -> tuple[Floats, Floats]:
    path = parse_property(text, Labelling(chain)).path
    assert path is not None
    return bounds_of(intervals, path)


def value_of(text: str, chain: Chain) -> Floats:
    labelling = Labelling(chain)
    values = check(parse_property(text, labelling), labelling).values
    return np.asarray(values, dtype=np.float64)


def around(chain: Chain, share: float) -> IntervalChain:
    """Intervals that hold the chain: each probability may move by this share."""
    room = share * np.minimum(chain.data, 1 - chain.data)
    return IntervalChain(
        chain.states, chain.indptr, chain.indices, chain.data - room, chain.data + room
    )


@given(chains(), paths(BOUNDS), st.sampled_from([0.0, 0.3, 0.9]))
def test_the_chain_itself_lies_between_the_bounds(
    chain: Chain, path: str, share: float
) -> None:
    text = f"P=? [ {path} ]"
    found = bounds(text, chain, around(chain, share))
    value = value_of(text, chain)
    assert (found[0] <= value + 1e-9).all()
    assert (value <= found[1] + 1e-9).all()
    if share == 0:
        assert found[0] == pytest.approx(found[1], abs=1e-9)


@given(chains(), paths(BOUNDS), st.integers(0, 1000))
def test_another_chain_inside_lies_between_them_too(
    chain: Chain, path: str, seed: int
) -> None:
    intervals = around(chain, 0.8)
    rng = np.random.default_rng(seed)
    rows = {}
    for state in range(chain.n):
        at = slice(chain.indptr[state], chain.indptr[state + 1])
        moved = rng.dirichlet(np.ones(len(chain.data[at])))
        towards = 1.0
        for old, new, low, high in zip(
            chain.data[at], moved, intervals.low[at], intervals.high[at], strict=True
        ):
            room = (high - old) if new > old else (old - low)
            towards = min(towards, room / abs(new - old)) if new != old else towards
        mixed = chain.data[at] + 0.999 * towards * (moved - chain.data[at])
        rows[state] = dict(zip(chain.indices[at].tolist(), mixed.tolist(), strict=True))
    other = Chain.from_rows(chain.states, rows, labels=chain.labels)
    text = f"P=? [ {path} ]"
    found = bounds(text, chain, intervals)
    value = value_of(text, other)
    assert (found[0] <= value + 1e-9).all()
    assert (value <= found[1] + 1e-9).all()


def test_published_intervals(shared_data: Path) -> None:
    models = shared_data / "models"
    counted = json.loads((models / "counts.json").read_text())
    for key, case in json.loads((models / "intervals.json").read_text()).items():
        given_counts = counted[key.split("|")[0]]
        n = given_counts["n"]
        rows = [
            {int(j): c for j, c in given_counts["counts"].get(str(i), {}).items()}
            for i in range(n)
        ]
        counts = Counts.from_rows(rows)
        names = [str(i) for i in range(n)]
        chain, unvisited = smoothed_chain(names, counts, Fraction(1))
        model = Model(chain=chain, counts=counts, unvisited=unvisited)
        intervals = model_intervals(model, case["delta"], closed_support=True)
        goal = "|".join(f"s={state}" for state in case["unsafe"])
        for steps, expected in case["bounded"].items():
            found = bounds(f"P=? [ F<={steps} {goal} ]", chain, intervals)
            assert found[0] == pytest.approx(expected["low"], abs=1e-8), key
            assert found[1] == pytest.approx(expected["high"], abs=1e-8), key
