"""Random expressions, frames and laws, drawn from the grammars."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from forewarn.abstractions.expression.tree import (
    And,
    Arithmetic,
    Call,
    Compare,
    Constant,
    Expression,
    Implies,
    IsNone,
    Name,
    Negative,
    Not,
    Number,
    ObjectPredicate,
    Or,
    Text,
)
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary, vocabulary_from
from forewarn.monitors.laws.formula import (
    Always,
    Eventually,
    Formula,
    Historically,
    Interval,
    Next,
    Once,
    Since,
    Until,
    is_temporal,
)

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
NUMBERS, TRUTHS, WORDS = ("x", "y", "z"), ("wet", "dark"), ("light",)
COLOURS = ("red", "green", "and", "two words", "always", "7")
FACTS = ("open(Door)", "inside(Cup, Box)")

VOCABULARY: Vocabulary = vocabulary_from(
    {
        "format": "forewarn.vocabulary/1",
        "name": "lanes",
        "signals": {
            "speed": {"type": "number", "unit": "km/h", "range": [0, 200]},
            "pace": {"type": "number", "unit": "m/s", "none": "nobody walks"},
            "gap": {"type": "number", "unit": "m", "none": "no car ahead"},
            "lanes": {"type": "number"},
            "wet": {"type": "bool"},
            "light": {
                "type": "enum",
                "values": ["red", "amber", "green"],
                "none": "no light",
            },
        },
        "predicates": {"open": {"arities": [1]}, "inside": {"arities": [2]}},
        "aliases": {"v": {"signal": "speed"}},
    },
    "lanes.yaml",
)


# -- expressions without units, to compare their evaluators --------------------------


def halves(low: int = -8, high: int = 8) -> st.SearchStrategy[float]:
    """Multiples of 0.5: signals often equal constants, and sums are exact."""
    return st.integers(2 * low, 2 * high).map(lambda n: n / 2)


@cache
def quantities(depth: int) -> st.SearchStrategy[Expression]:
    """Numeric expressions as the parser returns them, without negated constants."""
    leaf: st.SearchStrategy[Expression] = st.one_of(
        st.sampled_from(NUMBERS).map(Name), halves().map(Number)
    )
    if not depth:
        return leaf
    inner = quantities(depth - 1)
    operators = st.sampled_from("+-*/")
    return st.one_of(
        leaf,
        st.builds(Arithmetic, operators, inner, inner),
        inner.filter(lambda node: not isinstance(node, Number)).map(Negative),
        inner.map(lambda node: Call("abs", (node,))),
        st.builds(
            Call,
            st.sampled_from(("min", "max")),
            st.lists(inner, min_size=2, max_size=3).map(tuple),
        ),
    )


@cache
def comparisons(depth: int = 2) -> st.SearchStrategy[Expression]:
    """Comparisons of numbers; a constant is to the right of a signal."""
    drawn = st.builds(
        Compare, st.sampled_from(COMPARISONS), quantities(depth), quantities(depth)
    )
    return drawn.filter(
        lambda c: not (isinstance(c.left, Number) and isinstance(c.right, Name))
    )


@cache
def atoms(depth: int = 2) -> st.SearchStrategy[Expression]:
    return st.one_of(
        comparisons(depth),
        st.booleans().map(Constant),
        st.sampled_from(TRUTHS).map(Name),
        st.sampled_from(NUMBERS + WORDS + TRUTHS).map(lambda n: IsNone(Name(n))),
        st.sampled_from([ObjectPredicate("open", ("Door",)),
                         ObjectPredicate("inside", ("Cup", "Box"))]),
        st.builds(
            lambda operator, word: Compare(operator, Name("light"), Text(word)),
            st.sampled_from(("==", "!=")),
            st.sampled_from(COLOURS),
        ),
    )  # fmt: skip


def combined(
    leaf: st.SearchStrategy[Expression], max_leaves: int = 8
) -> st.SearchStrategy[Expression]:
    """Boolean expressions over the leaves."""

    def extend(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            inner.map(Not),
            parts.map(And),
            parts.map(Or),
            st.builds(Implies, inner, inner),
        )

    return st.recursive(leaf, extend, max_leaves=max_leaves)


@cache
def simple_expressions(max_leaves: int = 3) -> st.SearchStrategy[Expression]:
    """Boolean expressions that compare signals with constants and words."""
    leaf = st.one_of(
        st.builds(
            Compare,
            st.sampled_from(COMPARISONS),
            st.sampled_from("xy").map(Name),
            st.integers(-2, 2).map(float).map(Number),
        ),
        st.sampled_from(["x", "light"]).map(Name).map(IsNone),
        st.just(Name("wet")),
        st.builds(
            lambda operator, word: Compare(operator, Name("light"), Text(word)),
            st.sampled_from(("==", "!=")),
            st.sampled_from(("red", "green")),
        ),
    )
    return combined(leaf, max_leaves)


@cache
def expressions(max_leaves: int = 8) -> st.SearchStrategy[Expression]:
    return combined(atoms(), max_leaves)


def frames(none: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Frames with every signal that the expressions may use."""

    def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(st.none(), values) if none else values

    return st.fixed_dictionaries(
        {name: maybe(halves()) for name in NUMBERS}
        | {name: maybe(st.booleans()) for name in TRUTHS + FACTS}
        | {name: maybe(st.sampled_from((*COLOURS, "blue"))) for name in WORDS}
    )


# -- expressions over a vocabulary, with units --------------------------------------

_SIGNALS = {
    "speed": [Name("speed", "km/h"), Name("pace", "m/s")],
    "length": [Name("gap", "m")],
    "count": [Name("lanes")],
}
_UNITS = {"speed": ("km/h", "m/s", "mph"), "length": ("m", "km", "cm"), "count": ()}
_PLACES = st.integers(0, 3)


def plain_numbers() -> st.SearchStrategy[float]:
    """Numbers with few decimal places, as people write them."""
    drawn = st.tuples(st.integers(-4000, 4000), _PLACES)
    return drawn.map(lambda pair: float(f"{pair[0]}e-{pair[1]}"))


@cache
def measured(kind: str, depth: int) -> st.SearchStrategy[Expression]:
    """Expressions for quantities of one kind over `VOCABULARY`, in mixed units."""
    written = st.builds(Number, plain_numbers(), st.sampled_from(("", *_UNITS[kind])))
    leaf: st.SearchStrategy[Expression] = st.one_of(
        st.sampled_from(_SIGNALS[kind]), st.sampled_from(_SIGNALS[kind]), written
    )
    if not depth:
        return leaf
    inner = measured(kind, depth - 1)
    choices = [
        leaf,
        st.builds(Arithmetic, st.sampled_from("+-"), inner, inner),
        st.builds(Arithmetic, st.just("*"), inner, plain_numbers().map(Number)),
        st.builds(
            Call,
            st.sampled_from(("min", "max")),
            st.tuples(inner, inner),
        ),
        inner.filter(lambda node: not isinstance(node, Number)).map(Negative),
    ]
    if kind == "speed":
        time = st.builds(
            Number, plain_numbers().filter(bool), st.sampled_from(("s", "h", "ms"))
        )
        length = measured("length", 0).filter(
            lambda node: isinstance(node, Name) or bool(getattr(node, "unit", ""))
        )
        choices.append(st.builds(Arithmetic, st.just("/"), length, time))
    return st.one_of(choices)


@cache
def measured_comparisons(depth: int = 2) -> st.SearchStrategy[Expression]:
    def of(kind: str) -> st.SearchStrategy[Expression]:
        inner = measured(kind, depth)
        return st.builds(Compare, st.sampled_from(COMPARISONS), inner, inner)

    drawn: st.SearchStrategy[Any] = st.sampled_from(sorted(_SIGNALS)).flatmap(of)
    return drawn.filter(
        lambda c: not (isinstance(c.left, Number) and isinstance(c.right, Name))
    )


@cache
def measured_expressions() -> st.SearchStrategy[Expression]:
    """Boolean expressions over `VOCABULARY`."""
    leaf = st.one_of(
        measured_comparisons(),
        st.just(Name("wet")),
        st.sampled_from([Name("gap", "m"), Name("light")]).map(IsNone),
        st.builds(
            lambda operator, word: Compare(operator, Name("light"), Text(word)),
            st.sampled_from(("==", "!=")),
            st.sampled_from(("red", "amber", "green")),
        ),
        st.just(ObjectPredicate("inside", ("Cup#2", "Box"))),
    )
    return combined(leaf, 6)


def measured_frames() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "speed": plain_numbers().map(abs),
            "pace": st.one_of(st.none(), plain_numbers()),
            "gap": st.one_of(st.none(), plain_numbers()),
            "lanes": st.integers(0, 4),
        }
    )


# -- laws ---------------------------------------------------------------------------

A, B = Name("a"), Name("b")


def intervals(longest: int, low: bool = True) -> st.SearchStrategy[Interval]:
    ends = st.lists(st.integers(0, longest), min_size=2, max_size=2).map(sorted)
    begin = ends if low else ends.map(lambda pair: [0, pair[1]])
    return begin.map(lambda pair: Interval(pair[0], pair[1]))


@cache
def past_formulas(depth: int, longest: int = 2) -> st.SearchStrategy[Formula]:
    """Past formulas, with bounded or unbounded intervals."""
    leaf: st.SearchStrategy[Formula] = st.sampled_from([A, B, Not(A), And((A, B))])
    if not depth:
        return leaf
    inner = past_formulas(depth - 1, longest)
    endless = st.integers(0, longest).map(lambda low: Interval(low, None))
    bounds = st.one_of(intervals(longest), endless)
    return st.one_of(
        leaf,
        st.builds(Once, inner, bounds),
        st.builds(Historically, inner, bounds),
        st.builds(Since, inner, inner, bounds),
        inner.map(Not),
    )


@cache
def bounded_formulas(
    depth: int, longest: int = 2, past: bool = True
) -> st.SearchStrategy[Formula]:
    """Formulas with a bounded future; past operators contain no future operators."""
    leaf: st.SearchStrategy[Formula] = st.sampled_from(
        [A, B, Not(A), Or((Not(A), B)), Constant(True), Constant(False)]
    )
    if past:
        leaf = st.one_of(leaf, past_formulas(1, longest))
    if not depth:
        return leaf
    inner = bounded_formulas(depth - 1, longest, past)
    bounds = intervals(longest)
    return st.one_of(
        leaf,
        st.builds(Always, inner, bounds),
        st.builds(Eventually, inner, bounds),
        st.builds(Until, inner, inner, bounds),
        inner.map(Next),
        inner.map(Not),
        st.builds(lambda x, y: And((x, y)), inner, inner),
        st.builds(lambda x, y: Or((x, y)), inner, inner),
        st.builds(Implies, inner, inner),
    )


@cache
def laws(depth: int = 2, longest: int = 2) -> st.SearchStrategy[Formula]:
    """Laws about the start of a run, about every time, or about both."""
    body = bounded_formulas(depth, longest)
    response = st.builds(Implies, bounded_formulas(1, longest), body)
    always = st.one_of(body, response).map(Always)
    return st.one_of(
        always,
        always,
        body.filter(is_temporal),
        st.builds(lambda x, y: And((x, y)), body, always),
        st.builds(lambda x, y: And((x, y)), always, always),
    )
