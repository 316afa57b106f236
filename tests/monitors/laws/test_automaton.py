"""Automata against the meaning of laws, followed letter by letter."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidExpression, TooLarge
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.laws import automaton as module
from forewarn.monitors.laws.automaton import (
    Automaton,
    compile_law,
    possible_letters,
)
from forewarn.monitors.laws.formula import Formula, parse_formula
from forewarn.monitors.laws.monitor import Monitor, Violation, prefix_statuses, scan
from tests.semantics import Brute, first_bad, seen
from tests.strategies import laws, simple_expressions

BITS = {"a": 0, "b": 1}
WORDS = st.lists(st.integers(0, 3), max_size=8)


def law(text: str, **options: Any) -> Automaton:
    return compile_law(parse_formula(text), **options)


class Reader:
    """Reads letters over a and b with an automaton whatever its propositions are."""

    def __init__(self, automaton: Automaton, names: Sequence[str] = "ab") -> None:
        self.automaton = automaton
        tests = [compile_test(node) for node in automaton.propositions]
        self.columns: list[int] = []
        for letter in range(1 << len(names)):
            values = {name: bool(letter >> i & 1) for i, name in enumerate(names)}
            mask = sum(test(values) << i for i, test in enumerate(tests))
            self.columns.append(automaton.column(mask))

    def after(self, word: Iterable[int], state: int = 0) -> int:
        for letter in word:
            state = int(self.automaton.step[state, self.columns[letter]])
        return state

    def completes(self, row: int, word: Iterable[int]) -> int:
        for letter in word:
            row = int(self.automaton.complete[row, self.columns[letter]])
        return row


def differing_word(one: Automaton, other: Automaton) -> list[int] | None:
    """A shortest word that one of them takes for broken and the other does not."""
    readers = Reader(one), Reader(other)
    words: list[tuple[tuple[int, int], list[int]]] = [((0, 0), [])]
    met = {(0, 0)}
    for (p, q), word in words:
        if (p == one.violated) != (q == other.violated):
            return word
        for letter in range(4):
            pair = (readers[0].after([letter], p), readers[1].after([letter], q))
            if pair not in met:
                met.add(pair)
                words.append((pair, [*word, letter]))
    return None


# -- against the meaning ------------------------------------------------------------


def check_against_brute_force(formula: Formula, word: list[int]) -> None:
    automaton = compile_law(formula)
    reader = Reader(automaton)
    expected = first_bad(Brute(formula, range(4), BITS), word)
    for length in range(1, len(word) + 1):
        broken = reader.after(word[:length]) == automaton.violated
        assert broken == (expected is not None and length >= expected)


@settings(max_examples=120)
@given(laws(2, 2), WORDS)
def test_violated_from_the_first_bad_prefix_on(
    formula: Formula, word: list[int]
) -> None:
    """Never late, never early: not on the clauses' luck, but on the law's meaning."""
    check_against_brute_force(formula, word)


@pytest.mark.soak
@settings(max_examples=1500)
@given(laws(3, 3), WORDS)
def test_violated_from_the_first_bad_prefix_on_deeper(
    formula: Formula, word: list[int]
) -> None:
    check_against_brute_force(formula, word)


@settings(max_examples=80)
@given(
    st.sampled_from(
        [
            "always (a -> c until[1, 2 steps] b)",
            "always (a -> c until[0, 3 steps] b)",
            "always (a -> not (c until[1, 2 steps] b))",
            "always (a -> not (c until[0, 2 steps] b))",
            "always (a -> eventually[1, 2 steps] (b and next c))",
            "always ((a -> eventually[0, 2 steps] b) and (c -> F[1, 2 steps] b))",
            "always (a -> eventually[0, 2 steps] b or always[0, 2 steps] c)",
            "always (a -> always[1, 2 steps] (b -> eventually[0, 1 steps] c))",
            "always (eventually[0, 2 steps] a -> eventually[0, 1 steps] (b and c))",
            "always (c since[1, 2 steps] a -> b)",
        ]
    ),
    st.lists(st.integers(0, 7), max_size=9),
)
def test_obligations_that_overlap_are_kept_apart(text: str, word: list[int]) -> None:
    automaton = law(text)
    bits = {"a": 0, "b": 1, "c": 2}
    expected = first_bad(Brute(automaton.formula, range(8), bits), word)
    reader = Reader(automaton, "abc")
    for length in range(1, len(word) + 1):
        broken = reader.after(word[:length]) == automaton.violated
        assert broken == (expected is not None and length >= expected)


@given(laws(2, 2), st.lists(st.integers(0, 2), min_size=1, max_size=8))
def test_fewer_letters_make_more_words_certain(
    formula: Formula, word: list[int]
) -> None:
    """With a and b never together, what would need both is broken at once."""
    masks = set()
    full = compile_law(formula)
    for letter in (0, 1, 2):
        masks.add(full.letters[Reader(full).columns[letter]])
    automaton = compile_law(formula, letters=masks)
    tests = [compile_test(node) for node in automaton.propositions]
    expected = first_bad(Brute(formula, range(3), BITS), word)
    state, found = 0, None
    for length, letter in enumerate(word, start=1):
        values = {name: bool(letter >> bit & 1) for name, bit in BITS.items()}
        mask = sum(test(values) << i for i, test in enumerate(tests))
        state = int(automaton.step[state, automaton.column(mask)])
        if state == automaton.violated and found is None:
            found = length
    assert found == expected


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("eventually[0, 2 steps] a and always[0, 2 steps] not a", 2),
        ("always (a -> eventually[0, 3 steps] b) and always not b", 2),
        ("always (a -> next (a and b)) and always not (a and b)", 2),
        ("always (a -> next next b) and always (a -> next next not b)", 2),
        ("always false", 2),
        ("false", 2),
    ],
)
def test_an_unsatisfiable_law_is_violated_at_once(text: str, states: int) -> None:
    """Progression alone notices these contradictions only when time has run out."""
    automaton = law(text)
    assert automaton.n == states
    assert automaton.names == ("idle", "violated")
    assert automaton.left.tolist() == [1, 0]


@pytest.mark.parametrize(
    "text",
    [
        "always true",
        "always (a -> eventually[0, 3 steps] (b or not b))",
        "always (a -> eventually[0, 3 steps] true)",
        "always (a -> (true until b))",
        "always[0, 5 steps] (b -> once b)",
        "not false",
        "always (false -> always[0, 9 steps] a)",
    ],
)
def test_a_tautology_has_a_single_idle_state(text: str) -> None:
    automaton = law(text)
    assert automaton.names == ("idle",)
    assert automaton.violated == -1
    assert automaton.left.tolist() == [-1]
    assert not automaton.pending.any()
    assert automaton.owed.tolist() == [0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("always (a -> always b)", "always (once a -> b)"),
        ("always (a -> always[0, 2 steps] b)", "always (once[0, 2 steps] a -> b)"),
        ("always (a -> next b)", "always (once[1, 1 steps] a -> b)"),
        ("always (a -> eventually[0, 3 steps] b)",
         "always (once[3, 3 steps] a -> once[0, 3 steps] b)"),
        ("always (a -> eventually[0, 3 steps] b)",
         "always not (not b since[3, 3 steps] (a and not b))"),
        ("always (a -> b until[0, 2 steps] (a and b))",
         "always (a -> not (not b or false) until[0, 2 steps] (a and b))"),
        ("always always a", "always a"),
        ("always (a and next b)", "always a and next always b"),
        ("not eventually[0, 3 steps] a", "always[0, 3 steps] not a"),
        ("not (a until[1, 3 steps] b)",
         "not (a and next b) and not (a and next (a and next b))"
         " and not (a and next (a and next (a and next b)))"),
        ("eventually[0, 2 steps] eventually[1, 2 steps] a", "eventually[1, 4 steps] a"),
        ("always (true -> eventually[0, 3 steps] b)",
         "always eventually[0, 3 steps] b"),
        ("always historically[0, 3 steps] true", "always true"),
        ("always (b or once[0, 2 steps] (a -> false))",
         "always (b or once[0, 2 steps] not a)"),
        ("G (a -> F[0, 2 steps] b)", "always (a -> eventually[0, 2 steps] b)"),
        ("a U[0, 2 steps] X b", "a until[0, 2 steps] next b"),
    ],
)  # fmt: skip
def test_laws_that_mean_the_same_break_on_the_same_words(one: str, other: str) -> None:
    assert differing_word(law(one), law(other)) is None


def test_an_endless_until_breaks_when_both_sides_fail() -> None:
    automaton = law("always (a -> (not a until b))")
    assert differing_word(automaton, law("always (a -> b)")) is None
    reader = Reader(law("a until b"))
    violated = reader.automaton.violated
    assert reader.after([1] * 50) != violated
    assert reader.after([1, 1, 0]) == violated
    assert reader.after([1, 2, 0, 0]) != violated


# -- bounded response ---------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 100])
def test_bounded_response_is_exact(steps: int) -> None:
    automaton = law(f"always (a -> eventually[0, {steps} steps] b)")
    waits = [f"wait:{i}" for i in range(1, steps + 1)]
    assert automaton.names == ("idle", *waits, "violated")
    assert automaton.letters == (0, 1, 2, 3)
    assert [repr(node) for node in automaton.propositions] == ["a", "b"]
    last = steps + 1
    expected = [[0, steps or last, 0, 0]]
    expected += [[i - 1 or last, i - 1 or last, 0, 0] for i in range(1, steps + 1)]
    expected += [[last] * 4]
    assert automaton.step.tolist() == expected
    assert automaton.violated == last and automaton.initial == 0
    assert automaton.left.tolist() == [steps + 1, *range(1, steps + 1), 0]
    assert automaton.due.tolist() == [0, *range(1, steps + 1), 0]
    assert automaton.pending.tolist() == [False, *[True] * steps, False]
    # Row 0 owes nothing, row 1 is broken; no letter makes a new obligation.
    assert automaton.complete[:2].tolist() == [[0] * 4, [1] * 4]
    assert automaton.owed[0] == 0 and automaton.owed[last] == 1
    for i in range(1, steps + 1):
        after = automaton.owed[i - 1] if i > 1 else 1
        assert automaton.complete[automaton.owed[i]].tolist() == [after, after, 0, 0]
    assert len(automaton.complete) == steps + 2


# -- size -----------------------------------------------------------------------------


def equivalent_pairs(automaton: Automaton) -> list[tuple[int, int]]:
    """Pairs that no word tells apart, by filling in the table."""
    n, step = automaton.n, automaton.step.tolist()
    bad = automaton.violated
    pairs = {(p, q) for p in range(n) for q in range(p)}
    apart = {(p, q) for p, q in pairs if bad in (p, q)}
    grown = True
    while grown:
        grown = False
        for p, q in itertools.combinations(range(n), 2):
            pair = (q, p)
            if pair in apart:
                continue
            after = {
                (max(x, y), min(x, y)) for x, y in zip(step[p], step[q], strict=True)
            }
            if after & apart:
                apart.add(pair)
                grown = True
    return [(p, q) for p in range(n) for q in range(p) if (p, q) not in apart]


@given(laws(2, 3))
def test_the_automaton_is_minimal_and_complete(formula: Formula) -> None:
    automaton = compile_law(formula)
    n, step = automaton.n, automaton.step
    assert step.shape == (n, len(automaton.letters))
    assert ((0 <= step) & (step < n)).all()
    if n <= 40:
        assert equivalent_pairs(automaton) == []
    reached = {0}
    while not reached >= (more := {int(q) for p in reached for q in step[p]}):
        reached |= more
    assert reached == set(range(n))
    assert len(set(automaton.names)) == n
    if automaton.violated >= 0:
        assert automaton.violated == n - 1
        assert (step[n - 1] == n - 1).all()
        assert automaton.names[-1] == "violated"


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("always (a -> eventually[5, 20 steps] b)", 273),
        ("always (a -> eventually[0, 10 steps] b)"
         " and always (c -> eventually[0, 10 steps] d)", 122),
        ("always ((speed < 0.5 -> eventually[0, 20 steps] speed > 0.5)"
         " and (speed > 0.5 -> eventually[0, 20 steps] speed < 0.5))", 42),
    ],
)  # fmt: skip
def test_automata_have_the_known_sizes(text: str, states: int) -> None:
    assert law(text).n == states


def test_an_invariant_is_never_pending() -> None:
    assert law("always a").names == ("idle", "violated")
    assert law("always (a -> next a) and always a").names == ("idle", "violated")


def test_oldest_obligation_dates_the_violation() -> None:
    text = "always (eventually[0, 1 steps] always[0, 1 steps] a)"
    monitor = Monitor(law(text))
    for holds in (True, True, True, False):
        monitor.step({"a": holds})
    assert monitor.violations == [Violation(3, 2)]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("not eventually a", "always not a"),
        ("not not not eventually (a or b)", "always not (a or b)"),
        ("not (eventually a or eventually b)", "always not a and always not b"),
        ("not (a -> eventually b)", "a and always not b"),
        ("always not eventually a", "always always not a"),
        ("not eventually (a and not next b)", "always (a -> next b)"),
        ("always not (a or next b)", "always not a and always not next b"),
    ],
)
def test_a_law_is_the_same_however_it_is_written(text: str, plain: str) -> None:
    one, other = law(text), law(plain)
    assert one.names == other.names
    assert np.array_equal(one.step, other.step)
    assert np.array_equal(one.complete, other.complete)
    assert np.array_equal(one.owed, other.owed)


@pytest.mark.parametrize(
    "text", ["always (next a) and a", "not eventually a", "always a and next a"]
)
def test_a_scan_says_of_two_states_what_the_monitor_says(text: str) -> None:
    automaton = law(text)
    for length in range(1, 5):
        for word in itertools.product(automaton.letters, repeat=length):
            scanned = scan(automaton, np.array(word))
            statuses = prefix_statuses(automaton, word)
            assert scanned.status == statuses[-1]


@given(laws(2, 3))
def test_left_is_the_distance_to_the_violation(formula: Formula) -> None:
    automaton = compile_law(formula)
    distance = {automaton.violated: 0} if automaton.violated >= 0 else {}
    for _ in range(automaton.n):
        for state, row in enumerate(automaton.step.tolist()):
            near = [distance[after] + 1 for after in row if after in distance]
            if near and state != automaton.violated:
                distance[state] = min(near)
    assert automaton.left.tolist() == [distance.get(q, -1) for q in range(automaton.n)]
    assert ((automaton.due >= automaton.left) | ~automaton.pending).all()
    assert (automaton.pending == (automaton.due > 0)).all()


def test_time_left_is_that_of_the_pending_obligation() -> None:
    """An invariant beside it may break at once, but that is not what is waited for."""
    automaton = law("always (a -> eventually[0, 3 steps] b) and always c")
    assert automaton.names == ("idle", "wait:1", "wait:2", "wait:3", "violated")
    assert automaton.left.tolist() == [1, 1, 1, 1, 0]
    assert automaton.due.tolist() == [0, 1, 2, 3, 0]


# -- what is owed -------------------------------------------------------------------


@settings(max_examples=80)
@given(laws(2, 2), WORDS, WORDS.filter(bool))
def test_obligation_expires_no_sooner_than_the_law(
    formula: Formula, seen: list[int], then: list[int]
) -> None:
    automaton = compile_law(formula)
    reader = Reader(automaton)
    state = reader.after(seen)
    row = int(automaton.owed[state])
    assert (row == 1) == (state == automaton.violated) or not seen
    assert bool(automaton.pending[state]) == (row > 1)
    if reader.completes(row, then) == 1:
        assert reader.after(then, state) == automaton.violated


SINGLE = [
    "always (a -> eventually[0, 3 steps] b)",
    "always (a -> eventually[1, 3 steps] b)",
    "always (a -> next b)",
    "always (a -> not b until[0, 3 steps] (a and b))",
    "always (a -> eventually[0, 3 steps] once[1, 1 steps] b)",
    "eventually[0, 4 steps] a and always (a -> next b)",
    "always[0, 3 steps] (a -> eventually[0, 2 steps] b)",
]


def _all_words(longest: int) -> list[list[int]]:
    return [
        list(word)
        for length in range(longest + 1)
        for word in itertools.product(range(4), repeat=length)
    ]


@pytest.mark.parametrize("text", SINGLE)
def test_obligation_is_unmet_exactly_when_its_time_runs_out(text: str) -> None:
    automaton = law(text)
    reader = Reader(automaton)
    for before in _all_words(3):
        state = reader.after(before)
        residual = Brute(automaton.formula, range(4), BITS, until=len(before))
        for then in _all_words(3) if state != automaton.violated else ():
            unmet = reader.completes(int(automaton.owed[state]), then) == 1
            assert unmet == residual.is_bad(before + then), (before, then)


def test_obligation_that_needs_the_same_as_a_later_one_counts_as_met() -> None:
    """After a, and then a and b, both obligations need only b at the next step."""
    automaton = law("always (a -> eventually[0, 1 steps] always[0, 1 steps] b)")
    reader = Reader(automaton)
    pending = int(automaton.owed[reader.after([1])])
    assert reader.completes(pending, [3, 0]) == 0
    assert reader.completes(pending, [2, 0]) == 1, "no later obligation"
    assert reader.after([1, 3, 0]) == automaton.violated


def test_obligation_that_is_certain_to_arise_is_pending() -> None:
    automaton = law("always (once[0, 1 steps] a -> eventually[0, 2 steps] b)")
    reader = Reader(automaton)
    pending = int(automaton.owed[reader.after([3])])
    assert reader.completes(pending, [0, 0, 0]) == 1


# -- letters ------------------------------------------------------------------------


def test_only_letters_that_frames_can_show_are_kept() -> None:
    automaton = law("always (speed < 0.5 -> eventually[0, 2 steps] speed > 5)")
    assert automaton.letters == (0, 1, 2)
    assert automaton.column(2) == 2
    with pytest.raises(InvalidExpression, match=r"speed < 0\.5 and speed > 5"):
        automaton.column(3)
    with pytest.raises(InvalidExpression, match="compiled on the assumption"):
        automaton.column(-1)
    either = compile_law(automaton.formula, letters=[1, 2])
    neither = r"not \(speed < 0\.5\) and not \(speed > 5\) is true, but"
    with pytest.raises(InvalidExpression, match=neither):
        either.column(0)


def test_a_vocabulary_excludes_letters_too() -> None:
    driving = load_vocabulary("driving")
    formula = parse_formula("always (speed < 0 -> next speed >= 0)", driving)
    assert compile_law(formula, vocabulary=driving).letters == (2,)
    assert compile_law(formula, vocabulary=driving).violated == -1
    assert compile_law(formula).letters == (0, 1, 2)  # 0: none


def test_letters_may_be_given_in_any_order_and_more_than_once() -> None:
    formula = parse_formula("always (a -> eventually[0, 2 steps] b)")
    automaton = compile_law(formula, letters=iter([2, 0, 1, 0]))
    assert automaton.letters == (0, 1, 2)
    assert automaton.step.shape == (4, 3)


@given(st.lists(simple_expressions(), min_size=1, max_size=4, unique_by=repr))
def test_the_letters_are_exactly_those_that_frames_show(nodes: list[Formula]) -> None:
    assert set(possible_letters(nodes)) == seen(nodes)


def test_many_propositions_on_few_signals_have_few_letters() -> None:
    text = " or ".join(f"x > {i}" for i in range(30))
    nodes = parse_formula(text).children
    assert len(possible_letters(nodes)) == 31
    free = [parse_formula(f"p{i}") for i in range(13)]
    with pytest.raises(
        TooLarge, match="13 propositions give an alphabet of at least 8192"
    ):
        possible_letters(free)
    # Signals that have nothing to do with one another are not tried together.
    apart = [parse_formula(f"p{i} > 1 and p{i} < 2") for i in range(12)]
    assert len(possible_letters(apart)) == 4096


def test_letters_of_large_expressions_are_not_enumerated() -> None:
    """2^20 values are not tried: here even one that stands twice may hold just once."""
    every = " or ".join(f"s{i}" for i in range(20))
    nodes = [parse_formula(f"p{i} and ({every})") for i in range(13)]
    assert possible_letters([*nodes[:2], *nodes[:1]]) == list(range(8))
    assert len(possible_letters(nodes[:12])) == 4096
    with pytest.raises(TooLarge, match="combinations of .* exceed the limit"):
        possible_letters(nodes)


# -- refusals -----------------------------------------------------------------------


def test_oversized_law_is_rejected_with_a_suitable_clock() -> None:
    formula = parse_formula("always (a -> eventually[0, 300 s] b)")
    with pytest.raises(TooLarge) as caught:
        compile_law(formula, 0.1, max_states=2000)
    assert "needs more than 2000 states if checked every 0.1 s" in str(caught.value)
    assert "check it every 0.2 s" in caught.value.mend
    assert "1502 states" in caught.value.mend
    assert compile_law(formula, 0.2).n == 1502


def test_a_deadline_of_a_hundred_thousand_steps_is_refused() -> None:
    formula = parse_formula("always (a -> eventually[0, 100000 steps] b)")
    with pytest.raises(TooLarge, match="needs more than 20000 states"):
        compile_law(formula)


@pytest.mark.parametrize("times", [2, 5, 10, 20, 50, 100])
def test_the_finest_clock_that_fits_is_named(times: int) -> None:
    formula = parse_formula("always (a -> eventually[0, 100 s] b)")
    states = 1000 // times + 2
    assert compile_law(formula, times / 10, max_states=states).n == states
    with pytest.raises(TooLarge) as caught:
        compile_law(formula, 0.1, max_states=states)
    assert (
        f"check it every {times / 10:g} s" in caught.value.mend
        and f"{states} states" in caught.value.mend
    )


def test_an_oversized_law_without_fitting_clock_suggests_shorter_times() -> None:
    formula = parse_formula("always (a -> eventually[0, 100 s] b)")
    with pytest.raises(TooLarge) as caught:
        compile_law(formula, 0.1, max_states=11)
    assert caught.value.mend == "write shorter times, or split the law"


def test_a_law_of_too_many_propositions_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_PROPOSITIONS", 2)
    assert law("always (a -> next b)").n == 3
    with pytest.raises(TooLarge, match="3 propositions; the limit is 2"):
        law("always (a -> eventually[0, 1 steps] b and next c)")


def test_the_clock_that_fits_is_an_exact_multiple() -> None:
    """7 times 0.01 is 0.07 here, where 100 * 0.07 is 7.000000000000001 in floats."""
    formula = parse_formula("always (a -> eventually[0, 700 s] b)")
    with pytest.raises(TooLarge) as caught:
        compile_law(formula, 0.07, max_states=150)
    assert "check it every 7 s" in caught.value.mend and "102 " in caught.value.mend
    assert compile_law(formula, 7).n == 102


def test_too_many_steps_are_refused_without_a_clock() -> None:
    with pytest.raises(TooLarge, match="fewer, longer steps"):
        law("always (a -> eventually[0, 30 steps] b)", max_states=20)


@pytest.mark.parametrize("period", [0, -0.1, float("inf")])
def test_a_clock_that_does_not_tick_is_refused(period: float) -> None:
    with pytest.raises(InvalidExpression, match="a clock period of"):
        law("always (a -> eventually[0, 2 s] b)", period_s=period)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("eventually a", "can never be broken in a finite run"),
        ("always (a -> eventually b)", "can never be broken in a finite run"),
        ("always not always a", "can never be broken in a finite run"),
        ("always (a -> eventually[3 steps,] b)", "can never be broken in a finite run"),
        (
            "always once eventually[0, 2 steps] a",
            "refers to the future inside a past operator",
        ),
        ("always (a since next b)", "refers to the future inside a past operator"),
        ("always (a -> eventually[0, 2 s] b)", "a time in s needs a clock"),
        ("always (a -> eventually[0, 2000000 steps] b)", "is more than 1000000 steps"),
    ],
)
def test_laws_that_cannot_be_monitored_are_refused_with_a_mend(
    text: str, says: str
) -> None:
    with pytest.raises(InvalidExpression) as caught:
        law(text)
    assert says in str(caught.value)
    assert caught.value.mend


def test_a_law_of_a_million_steps_is_rejected_at_once() -> None:
    law = parse_formula("always(a -> eventually[0, 1000000 steps] b)")
    began = time.process_time()
    with pytest.raises(TooLarge, match="needs more than 20000 states"):
        compile_law(law, 0.1)
    assert time.process_time() - began < 0.5
