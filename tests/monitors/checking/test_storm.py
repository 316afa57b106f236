"""The built-in engine against Storm, which reads and decides properties its own way."""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidProperty, MissingDependency
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking import storm
from forewarn.monitors.checking.builtin import Builtin
from forewarn.monitors.checking.evaluation import check
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.language.parser import parse_property
from tests.monitors.checking.cases import BOUNDS, OPERANDS, chains, paths

needs_storm = pytest.mark.needs("stormpy")


def native(chain: Chain, text: str) -> list[Fraction]:
    """Storm's own answer to a whole property, on a model of its own."""
    import stormpy
    from stormpy import datastructures, environments, models

    matrix = datastructures.SparseMatrixBuilder[stormpy.Rational](chain.n, chain.n)
    for state in range(chain.n):
        for successor, p in chain.exact_row(state).items():
            matrix.add_next_value(state, successor, stormpy.Rational(str(p)))
    labels = models.StateLabeling(chain.n)
    for label, group in chain.labels.items():
        labels.add_label(label)
        for state in group:
            labels.add_label_to_state(label, state)
    parts = models.SparseModelComponents[stormpy.Rational](
        transition_matrix=matrix.build(), state_labeling=labels
    )
    model = models.SparseDtmc[stormpy.Rational](parts)
    result = stormpy.model_checking(
        model, stormpy.parse_property(text), environment=environments.exact()
    )
    return [Fraction(str(result.get_value(i))) for i in range(chain.n)]


def storms_path() -> st.SearchStrategy[str]:
    """What both languages have: X, F, U, with and without an upper bound, and G."""
    operands = [text for text in OPERANDS if "=>" not in text]
    operand = st.sampled_from(operands)
    upper = st.sampled_from(["", "<=0", "<=3"])
    bound = st.one_of(upper, st.sampled_from(["[1,3]", "[2,2]"]))
    return st.one_of(
        st.builds("X {}".format, operand),
        st.builds("G {}".format, operand),
        st.builds("F{} {}".format, bound, operand),
        st.builds("{} U{} {}".format, operand, upper, operand),
    )


@needs_storm
@given(chains(), storms_path())
@settings(max_examples=200)
def test_numbers_agree_with_storms_own(chain: Chain, path: str) -> None:
    text = f"P=? [{path}]"
    expected = [float(p) for p in native(chain, text)]
    found = check(parse_property(text), Labelling(chain), Builtin(chain)).values
    assert found == pytest.approx(expected, abs=1e-12)


@needs_storm
@given(chains(), storms_path(), storms_path(), st.sampled_from(["<", ">", "<=", ">="]))
def test_nested_formulas_agree_with_storms_own(
    chain: Chain, outer: str, inner: str, relation: str
) -> None:
    nested = f"(P{relation}0.5 [{inner}])"
    text = f"P=? [{outer}]".replace('"a"', nested, 1)
    expected = [float(p) for p in native(chain, text)]
    found = check(parse_property(text), Labelling(chain), Builtin(chain)).values
    assert found == pytest.approx(expected, abs=1e-12)


@needs_storm
@given(chains(), paths(BOUNDS), st.booleans())
def test_the_storm_engine_answers_every_operator(
    chain: Chain, path: str, exact: bool
) -> None:
    formula, labelling = parse_property(f"P=? [ {path} ]"), Labelling(chain)
    try:
        found = check(formula, labelling, storm.Storm(chain, exact=exact))
    except InvalidProperty as error:
        assert "[" in path and "Storm is wrong about an until" in str(error)
        return
    expected = check(formula, labelling, Builtin(chain)).values
    assert found.values == pytest.approx(expected, abs=1e-12)
    assert (found.exact is not None) == exact


@needs_storm
def test_storm_is_wrong_where_we_refuse_it() -> None:
    """When this fails, Storm has been mended and the refusal can go."""
    chain = Chain.from_rows(["s0"], {}, labels={"a": frozenset({0}), "b": frozenset()})
    assert native(chain, 'P=? ["b" U[1,3] "a"]') == [1]
    formula = parse_property('P=? [ "b" U[1,3] "a" ]')
    assert check(formula, Labelling(chain), Builtin(chain)).values.tolist() == [0.0]
    with pytest.raises(InvalidProperty, match="Storm is wrong"):
        check(formula, Labelling(chain), storm.Storm(chain))


@needs_storm
def test_larger_random_chains_agree() -> None:
    rng = np.random.default_rng(11)
    for n in (20, 60, 450):
        rows = {}
        for state in range(n - 2):
            successors = rng.choice(n, 4, replace=False)
            rows[state] = dict(zip(successors.tolist(), rng.dirichlet(np.ones(4)),
                                   strict=True))  # fmt: skip
        labels = {"a": frozenset({n - 1}), "b": frozenset(range(0, n, 7))}
        chain = Chain.from_rows([str(i) for i in range(n)], rows, labels=labels)
        for path in ('F "a"', 'F<=40 "a"', '!"b" U "a"', 'G<=10 !"b"'):
            formula, labelling = parse_property(f"P=? [ {path} ]"), Labelling(chain)
            ours = check(formula, labelling, Builtin(chain)).values
            storms = check(formula, labelling, storm.Storm(chain)).values
            assert ours == pytest.approx(storms, abs=1e-10)


@needs_storm
def test_storm_writes_nothing_between_the_lines(
    capfd: pytest.CaptureFixture[str],
) -> None:
    chain = Chain.from_rows(["s0"], {}, labels={"a": frozenset({0})})
    check(parse_property('P=? [ F "a" ]'), Labelling(chain), storm.Storm(chain))
    assert capfd.readouterr() == ("", "")


@needs_storm
def test_long_fractions_come_through() -> None:
    p = Fraction(1, 10**30)
    chain = Chain.from_rows(
        ["s0", "s1"], {0: {0: 1 - p, 1: p}}, labels={"a": frozenset({1})}
    )
    engine = storm.Storm(chain, exact=True)
    answer = check(parse_property('P=? [ F<=300 "a" ]'), Labelling(chain), engine)
    assert answer.exact is not None
    assert answer.exact[0] == 1 - (1 - p) ** 300


def test_without_stormpy_the_mend_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stormpy", None)
    chain = Chain.from_rows(["s0"], {})
    with pytest.raises(MissingDependency, match=r"pip install 'forewarn\[storm\]'"):
        storm.Storm(chain)
