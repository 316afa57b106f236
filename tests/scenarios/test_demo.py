"""The demo's traces: small, reproducible, and with something to find in them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from forewarn.abstractions.abstraction import load_abstraction
from forewarn.abstractions.readers import read_trace
from forewarn.scenarios import demo
from tests.scenarios.demo_traces import WORLDS, generate

SHIPPED = Path(demo.__file__).parent


def test_the_generator_writes_the_shipped_traces_again(tmp_path: Path) -> None:
    generate(tmp_path)
    shipped = {path.relative_to(SHIPPED): path for path in SHIPPED.rglob("*.gz")}
    again = {path.relative_to(tmp_path): path for path in tmp_path.rglob("*.gz")}
    assert shipped.keys() == again.keys() and len(shipped) == 240
    for name, path in shipped.items():
        # Unpacked: another zlib may pack the same text differently.
        assert gzip.decompress(path.read_bytes()) == gzip.decompress(
            again[name].read_bytes()
        )


def test_the_shipped_traces_are_small() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*.gz")) < 300_000


@pytest.mark.parametrize("world", WORLDS)
def test_every_state_of_the_traces_is_valid(world: str) -> None:
    abstraction = load_abstraction(SHIPPED / f"{world}.abstraction.yaml")
    seen = set()
    for path in sorted((SHIPPED / world / "train").iterdir()):
        trace = read_trace(path)
        assert trace.header.period_s == abstraction.period_s
        states = [abstraction.encode(frame.values) for frame in trace.frames]
        assert all(map(abstraction.may_follow, states, states[1:]))
        seen |= set(states)
    assert len(seen) >= 10
