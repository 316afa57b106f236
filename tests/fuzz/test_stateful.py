"""Runs the stateful tests of loops and agents with few steps; soak tests use many."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz import agents
from tests.fuzz.stateful import COUNTS, live


def lived(steps: int, seed: int, **length: int) -> None:
    COUNTS.clear()
    live(steps, seed, **length)
    assert COUNTS["steps"] >= steps
    # The test is meaningful only if frames pass and violations occur.
    assert COUNTS["passed"] > steps / 20
    assert COUNTS["violations"] > steps / 50
    assert COUNTS["records"] > 0


def test_no_life_of_a_guard_has_an_escape() -> None:
    lived(500, seed=1, examples=8, each=40)


def agents_lived(steps: int, seed: int) -> None:
    counts: Counter[str] = Counter()
    agents.live(steps, seed, counts, each=min(steps, 5_000))
    for what in ("passed", "withheld", "nested", "left running", "late", "taken back"):
        assert counts[what] > steps / 500, what


def test_no_life_of_agents_has_an_escape() -> None:
    agents_lived(2_000, seed=1)


@pytest.mark.soak
def test_no_long_life_of_agents_has_an_escape() -> None:
    agents_lived(100_000, seed=2)


@pytest.mark.soak
def test_no_long_life_of_a_guard_has_an_escape() -> None:
    lived(20_000, seed=2)
