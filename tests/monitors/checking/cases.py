"""Small random chains, and the golden files as chains and questions."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from forewarn.abstractions.files import read_yaml
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.properties import define

GOLDEN = Path(__file__).parents[2] / "golden" / "checking"


def golden(name: str) -> tuple[Chain, list[Mapping[str, Any]]]:
    """The chain of a golden file and what is asked of it."""
    content = read_yaml(GOLDEN / f"{name}.yaml")
    given = content["chain"]
    states = list(given["rows"])
    number = {state: i for i, state in enumerate(states)}
    chain = Chain.from_rows(
        states,
        {
            number[state]: {number[to]: Fraction(p) for to, p in row.items()}
            for state, row in given["rows"].items()
        },
        initial=number[given["initial"]],
        labels={
            label: frozenset(number[s] for s in group)
            for label, group in given["labels"].items()
        },
        variables={
            variable: np.array(values)
            for variable, values in given.get("variables", {}).items()
        },
    )
    return chain, content["questions"]


@st.composite
def chains(draw: st.DrawFn, most: int = 5) -> Chain:
    """Chains in fractions, with the labels a and b on any states."""
    n = draw(st.integers(1, most))
    rows: dict[int, dict[int, Fraction]] = {}
    for state in range(n):
        weights = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        if any(weights):
            total = sum(weights)
            rows[state] = {j: Fraction(w, total) for j, w in enumerate(weights)}
    some = st.frozensets(st.integers(0, n - 1))
    labels = {"a": draw(some), "b": draw(some)}
    return Chain.from_rows([f"s{i}" for i in range(n)], rows, initial=0, labels=labels)


def labelled(chain: Chain, *definitions: str) -> Labelling:
    labelling = Labelling(chain)
    for definition in definitions:
        define(labelling, definition)
    return labelling


BOUNDS = ["", "<=0", "<=1", "<=3", "<2"]
OPERANDS = ['"a"', '!"b"', '("a" | "b")', "true", "false"]


def paths(bounds: list[str]) -> st.SearchStrategy[str]:
    """Path formulas over a and b, as text."""
    operand, bound = st.sampled_from(OPERANDS), st.sampled_from(bounds)
    return st.one_of(
        st.builds("X {}".format, operand),
        st.builds("{}{} {}".format, st.sampled_from("FG"), bound, operand),
        st.builds("{} U{} {}".format, operand, bound, operand),
    )
