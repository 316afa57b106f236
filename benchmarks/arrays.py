"""Whole traces at once: encoding, counting and monitoring."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from measuring import Row, seconds
from online import LAW, PREDICATES

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.chain import count_matrix
from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.monitor import scan

LENGTH = 1_000_000


def rows(quick: bool) -> Iterator[Row]:
    repeat = 5 if quick else 15
    rng = np.random.default_rng(1)
    vocabulary = load_vocabulary("driving")
    law = compile_law(parse_formula(LAW, vocabulary), 0.1, vocabulary=vocabulary)
    letters = np.where(rng.random(LENGTH) < 0.002, 1, 0)
    letters[rng.random(LENGTH) < 0.05] = 2
    whole = seconds(lambda: scan(law, letters), repeat=repeat)
    yield Row("one law over a million samples, a sample", whole / LENGTH, 8e-9)

    states = np.repeat(rng.integers(0, 35, LENGTH // 10), 10)
    spent = seconds(lambda: count_matrix(states, 35), repeat=repeat)
    yield Row(
        "transitions counted, 35 states",
        (LENGTH - 1) / spent,
        250e6,
        "a dictionary in Python",
        counted_by_dictionary(states[: LENGTH // 5].tolist()),
        rate=True,
    )

    columns = {
        "speed": rng.uniform(0, 50, LENGTH),
        "stop_line_distance": rng.uniform(0, 150, LENGTH),
        "lead_distance": np.where(rng.random(LENGTH) < 0.2, np.nan, 30.0),
        "traffic_light": np.array(["red", "green"], object)[rng.integers(0, 2, LENGTH)],
        "brake": rng.uniform(0, 30, LENGTH),
        "required_deceleration": rng.uniform(0, 6, LENGTH),
        "in_junction": rng.random(LENGTH) < 0.1,
    }
    abstraction = from_expressions(PREDICATES, vocabulary)
    spent = seconds(lambda: abstraction.encode_arrays(columns, LENGTH), repeat=repeat)
    what = f"frames encoded from arrays, {len(PREDICATES)} predicates"
    yield Row(f"{what}, one an enum", LENGTH / spent, None, rate=True)
    numeric = [p for p in PREDICATES if "traffic" not in p] + ["speed < 45 km/h"]
    plain = from_expressions(numeric, vocabulary)
    spent = seconds(lambda: plain.encode_arrays(columns, LENGTH), repeat=repeat)
    yield Row(what, LENGTH / spent, 15e6, rate=True)


def counted_by_dictionary(states: list[int]) -> float:
    start = time.perf_counter()
    counts: dict[tuple[int, int], int] = {}
    for pair in zip(states, states[1:], strict=False):
        counts[pair] = counts.get(pair, 0) + 1
    return len(states) / (time.perf_counter() - start)
