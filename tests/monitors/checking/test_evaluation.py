"""Properties on chains: by paths, by the logic's laws, by golden and known values."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import (
    InvalidInput,
    InvalidModel,
    InvalidProperty,
    TooLarge,
)
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.checking import builtin
from forewarn.monitors.checking.builtin import Builtin
from forewarn.monitors.checking.engines import Engine
from forewarn.monitors.checking.evaluation import Answer, check, make_engine
from forewarn.monitors.checking.exact import Exact, fraction_text
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.language.parser import parse_property
from forewarn.monitors.checking.language.properties import Probability, Temporal
from tests.monitors.checking.cases import (
    BOUNDS,
    GOLDEN,
    chains,
    golden,
    labelled,
    paths,
)

ENGINES: dict[str, Callable[[Chain], Engine]] = {"builtin": Builtin, "exact": Exact}
STORM = pytest.param("storm", marks=pytest.mark.needs("stormpy"))


def ask(text: str, chain: Chain, engine: Engine | None = None) -> Answer:
    return check(parse_property(text), Labelling(chain), engine or Exact(chain))


def number(text: str, chain: Chain) -> list[Fraction]:
    """The exact answer to `P=? [ ... ]`."""
    answer = ask(f"P=? [ {text} ]", chain)
    assert answer.exact is not None
    return list(answer.exact)


def truth(text: str, chain: Chain) -> list[bool]:
    found: list[bool] = ask(text, chain).values.tolist()
    return found


def path_of(text: str) -> Temporal:
    formula = parse_property(f"P=? [ {text} ]")
    assert isinstance(formula, Probability)
    return formula.path


# Against what the formulas mean


def satisfied(path: Temporal, left: Sequence[bool], right: Sequence[bool]) -> bool:
    """Whether a path satisfies a bounded formula, by each operator's definition."""
    if path.operator == "X":
        return right[1]
    assert path.bound.high is not None
    moments = range(path.bound.low, path.bound.high + 1)
    match path.operator:
        case "F":
            return any(right[j] for j in moments)
        case "G":
            return all(right[j] for j in moments)
        case "U":
            return any(right[j] and all(left[:j]) for j in moments)
        case "R":
            return all(right[j] or any(left[:j]) for j in moments)
        case _:
            return all(
                left[j] or right[j] or not all(left[:j]) or any(right[:j])
                for j in moments
            )


def by_enumeration(path: Temporal, chain: Chain) -> list[Fraction]:
    """The probability of a bounded path formula, path by path."""
    left, right = (truth(str(operand), chain) for operand in (path.left, path.right))
    steps = 1 if path.operator == "X" else path.bound.high or 0
    found = []
    for start in range(chain.n):
        total = Fraction(0)
        for tail in itertools.product(range(chain.n), repeat=steps):
            states = (start, *tail)
            chance = Fraction(1)
            for here, there in itertools.pairwise(states):
                chance *= chain.exact_row(here).get(there, 0)
            if chance and satisfied(
                path, [left[s] for s in states], [right[s] for s in states]
            ):
                total += chance
        found.append(total)
    return found


@given(chains(most=4), paths([b for b in BOUNDS if b]))
def test_bounded_paths_are_counted_right(chain: Chain, text: str) -> None:
    expected = by_enumeration(path_of(text), chain)
    assert number(text, chain) == expected
    doubles = ask(f"P=? [ {text} ]", chain, Builtin(chain)).values
    assert doubles == pytest.approx([float(p) for p in expected], abs=1e-14)


@given(chains(), st.sampled_from(['F "a"', '"b" U "a"', '!"a" U "b"']))
def test_unbounded_until_is_the_least_solution(chain: Chain, text: str) -> None:
    path = path_of(text)
    hold, goal = (truth(str(operand), chain) for operand in (path.left, path.right))
    found = number(text, chain)
    reaching = truth(f"E [ {text} ]", chain)
    for state in range(chain.n):
        if goal[state]:
            assert found[state] == 1
        elif not reaching[state]:
            assert found[state] == 0
        else:
            assert hold[state]
            row = chain.exact_row(state)
            assert found[state] == sum(p * found[j] for j, p in row.items())


@given(chains(), st.sampled_from("EA"), paths([b for b in BOUNDS if b]))
def test_bounded_quantifiers_ask_for_possible_paths(
    chain: Chain, quantifier: str, text: str
) -> None:
    likely = by_enumeration(path_of(text), chain)
    expected = [p > 0 if quantifier == "E" else p == 1 for p in likely]
    assert truth(f"{quantifier} [ {text} ]", chain) == expected


# Laws of the logic


@given(chains(), paths([*BOUNDS, ">=1", ">=3"]))
def test_the_built_in_engine_agrees_with_the_exact_one(chain: Chain, text: str) -> None:
    exact = [float(p) for p in number(text, chain)]
    doubles = ask(f"P=? [ {text} ]", chain, Builtin(chain)).values
    assert doubles == pytest.approx(exact, abs=1e-13)


@given(chains(), paths([*BOUNDS, ">=2"]))
def test_a_path_or_its_opposite(chain: Chain, text: str) -> None:
    one, other = number(text, chain), number(f"!({text})", chain)
    assert all(p + q == 1 for p, q in zip(one, other, strict=True))
    some, every = truth(f"E [ {text} ]", chain), truth(f"A [ !({text}) ]", chain)
    assert [not holds for holds in every] == some


@given(chains(), st.sampled_from(['F "a"', 'F<=2 "a"', '"b" U "a"', 'X "a"']))
def test_quantifiers_and_probabilities(chain: Chain, text: str) -> None:
    likely = number(text, chain)
    assert truth(f"E [ {text} ]", chain) == [p > 0 for p in likely]
    for every, p in zip(truth(f"A [ {text} ]", chain), likely, strict=True):
        assert p == 1 or not every
    safe = truth('A [ G "a" ]', chain)
    assert safe == [p == 1 for p in number('G "a"', chain)]


@given(chains())
def test_globally_for_ever_needs_a_trap(chain: Chain) -> None:
    """Staying in b for ever is possible along a path before it has a probability."""
    possible, likely = truth('E [ G "b" ]', chain), truth('P>0 [ G "b" ]', chain)
    assert all(e or not p for e, p in zip(possible, likely, strict=True))
    after = truth('E [ "b" U A [ G "b" ] ]', chain)
    assert likely == after


@given(chains(), paths(BOUNDS), st.randoms(use_true_random=False))
def test_the_numbering_of_states_does_not_matter(
    chain: Chain, text: str, random: Any
) -> None:
    order = list(range(chain.n))
    random.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    shuffled = Chain.from_rows(
        [f"renamed {chain.states[old]}" for old in order],
        {
            place[i]: {place[j]: p for j, p in chain.exact_row(i).items()}
            for i in range(chain.n)
        },
        labels={
            name: frozenset(place[i] for i in group)
            for name, group in chain.labels.items()
        },
    )
    answer = number(text, shuffled)
    assert [answer[place[old]] for old in range(chain.n)] == number(text, chain)


@given(chains(), st.integers(0, 4), st.sampled_from(["", "<=0", "<=2", "<=5"]))
def test_another_unsafe_state_never_lowers_the_risk(
    chain: Chain, extra: int, bound: str
) -> None:
    labels = {**chain.labels, "more": chain.labels["a"] | {extra % chain.n}}
    wider = replace(chain, labels=labels)
    less, more = number(f'F{bound} "a"', wider), number(f'F{bound} "more"', wider)
    assert all(p <= q for p, q in zip(less, more, strict=True))


@given(chains(), st.integers(0, 6))
def test_the_risk_grows_with_the_bound(chain: Chain, steps: int) -> None:
    for text in ('F{} "a"', '"b" U{} "a"'):
        within, longer = (
            number(text.format(f"<={k}"), chain) for k in (steps, steps + 1)
        )
        ever = number(text.format(""), chain)
        for p, q, r in zip(within, longer, ever, strict=True):
            assert p <= q <= r


@given(chains(), paths(BOUNDS))
def test_rounding_never_decides_a_comparison(chain: Chain, text: str) -> None:
    for state, p in enumerate(number(text, chain)):
        verdicts = {"<": False, "<=": True, ">=": True, ">": False}
        for relation, expected in verdicts.items():
            found = ask(f"P{relation}{p} [ {text} ]", chain, Builtin(chain))
            assert found.values[state] == expected
            assert not found.warnings


# Golden and published values


def questions() -> list[Any]:
    names = sorted(path.stem for path in GOLDEN.glob("*.yaml"))
    return [
        pytest.param(name, i, id=f"{name}: {question['property']}")
        for name in names
        for i, question in enumerate(golden(name)[1])
    ]


@pytest.mark.parametrize("engine", ["builtin", "exact", STORM])
@pytest.mark.parametrize(("name", "number"), questions())
def test_golden(name: str, number: int, engine: str) -> None:
    chain, asked = golden(name)
    question = asked[number]
    maker = make_engine(
        "storm" if engine == "storm" else "builtin", chain, exact=engine == "exact"
    )
    if engine == "storm" and "F>=" in question["property"]:
        with pytest.raises(InvalidProperty, match="Storm has no horizon from below"):
            asked_of(question, chain, maker)
        return
    if "error" in question:
        with pytest.raises(InvalidInput) as caught:
            asked_of(question, chain, maker)
        assert question["error"] in str(caught.value)
        return
    answer = asked_of(question, chain, maker)
    for state, expected in question["values"].items():
        place = chain.states.index(str(state))
        if isinstance(expected, bool):
            assert answer.values[place] == expected, state
        elif answer.exact is not None:
            assert answer.exact[place] == Fraction(expected), state
        else:
            value = answer.values[place]
            assert value == pytest.approx(float(Fraction(expected)), abs=1e-12), state


def asked_of(question: Mapping[str, Any], chain: Chain, engine: Engine) -> Answer:
    labelling = labelled(chain, *question.get("define", ()))
    formula = parse_property(question["property"])
    labelling.require(formula)
    return check(formula, labelling, engine)


def published(shared_data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (shared_data / "models" / "values.json").read_text()
    )
    return found


def test_published_values(shared_data: Path) -> None:
    for name, model in published(shared_data)["models"].items():
        chain = load_model(shared_data / "models" / f"{name}.prism").chain
        for unsafe in model["unsafe_sets"].values():
            goal = "|".join(f"s={state}" for state in unsafe["states"])
            answer = ask(f"P=? [ F {goal} ]", chain, Builtin(chain))
            assert answer.values == pytest.approx(unsafe["unbounded"], abs=1e-13), name
            expected = [Fraction(text) for text in unsafe["unbounded_exact"]]
            assert number(f"F {goal}", chain) == expected, name
            for steps, values in unsafe["bounded"].items():
                within = f"P=? [ F<={steps} {goal} ]"
                for engine in (Builtin(chain), Exact(chain)):
                    found = ask(within, chain, engine).values
                    assert found == pytest.approx(values, abs=1e-13), name


# Numbers that are hard


def rounded(*rows: Sequence[float]) -> Chain:
    names = [f"s{i}" for i in range(len(rows))]
    return Chain.from_dense(names, np.array(rows), labels={"a": frozenset({1})})


def test_what_nearly_always_stays_keeps_its_digits() -> None:
    tiny = Fraction(1, 10**15)
    rows = {0: {0: 1 - 3 * tiny, 1: tiny, 2: 2 * tiny}}
    chain = Chain.from_rows(["s0", "s1", "s2"], rows, labels={"a": frozenset({1})})
    found = ask('P=? [ F "a" ]', chain, Builtin(chain)).values[0]
    assert found == pytest.approx(1 / 3, rel=1e-12)


def test_rounded_probabilities_decide_with_a_warning() -> None:
    third = 1 / 3
    chain = rounded([third, third, third], [0, 1, 0], [0, 0, 1])
    answer = ask('P>=1/2 [ F "a" ]', chain, Builtin(chain))
    assert (
        "in state s0 a probability is within 1e-09 of its limit" in answer.warnings[0]
    )
    assert not ask('P>=0.3 [ F "a" ]', chain, Builtin(chain)).warnings


def test_exact_arithmetic_refuses_rounded_rows() -> None:
    third = 1 / 3
    with pytest.raises(InvalidModel, match=r"row of state 's0' sums to .* not to 1"):
        Exact(rounded([third, third, third], [0, 1, 0], [0, 0, 1]))
    decimals = rounded([0.1, 0.2, 0.7], [0, 1, 0], [0, 0, 1])
    assert number('F "a"', decimals)[0] == Fraction(2, 9)


def test_exact_arithmetic_refuses_what_would_take_for_ever() -> None:
    chain = Chain.from_rows(
        ["s0", "s1"],
        {0: {0: Fraction(1, 7**40), 1: 1 - Fraction(1, 7**40)}},
        labels={"a": frozenset({1})},
    )
    with pytest.raises(TooLarge, match="10000000 exact steps .* without --exact"):
        number('F<=10000000 "a"', chain)


def test_long_fractions_print() -> None:
    value = Fraction(1, 3**10_000)
    top, bottom = fraction_text(value).split("/")
    assert top == "1"
    assert len(bottom) == 4772
    assert bottom.startswith("163135018534262587430325672918")
    assert fraction_text(Fraction(14, 349)) == "14/349"
    assert fraction_text(Fraction(1)) == "1"


@pytest.fixture
def mixed() -> Chain:
    """Fifty states, each with three successors, among them two that absorb."""
    rng = np.random.default_rng(7)
    rows: dict[int, dict[int, float | Fraction]] = {}
    for state in range(48):
        weights = rng.integers(1, 9, 3).tolist()
        targets = rng.choice(50, 3, replace=False).tolist()
        total = sum(weights)
        rows[state] = {
            j: Fraction(w, total) for j, w in zip(targets, weights, strict=True)
        }
    names = [f"s{i}" for i in range(50)]
    labels = {"a": frozenset({49}), "b": frozenset(range(0, 50, 3))}
    return Chain.from_rows(names, rows, labels=labels)


@pytest.mark.parametrize("bound", ["", "<=30", "[5,9]", "<=100000", ">=70"])
def test_large_chains_take_another_way_to_the_same_values(
    mixed: Chain, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'P=? [ !"b" U{bound} "a" ]'
    expected = ask(text, mixed, Builtin(mixed)).values
    monkeypatch.setattr(builtin, "DENSE_STATES", 10)
    found = ask(text, mixed, Builtin(mixed)).values
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("leak", [1e-9, 1e-13, 1e-15, 1e-300])
def test_a_cycle_that_hardly_leaks_loses_no_digits(leak: float) -> None:
    rows: dict[int, dict[int, float | Fraction]] = {
        0: {1: 1.0 - leak, 2: leak},
        1: {0: 1.0 - 3 * leak, 3: 3 * leak},
    }
    chain = Chain.from_rows(["a", "b", "u", "g"], rows)
    on, back = 1.0 - leak, 1.0 - 3 * leak
    wanted = leak / (leak + on * 3 * leak / (back + 3 * leak))
    found = ask('P=? [ F "u" ]', chain, Builtin(chain)).values
    assert found[0] == pytest.approx(wanted, rel=1e-12)


def test_steps_beyond_counting_end_where_nothing_moves(mixed: Chain) -> None:
    ever = ask('P=? [ F "a" ]', mixed, Builtin(mixed)).values
    within = ask('P=? [ F<=10000000 "a" ]', mixed, Builtin(mixed)).values
    assert within == pytest.approx(ever, abs=1e-9)
