"""What a benchmark reports, and how it measures."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Args:
        what: What was done.
        measured: Seconds, or how many a second if `rate`.
        bar: What it must not exceed, or must reach if `rate`; None: no bar.
        peer: Who else did the same in this run, or why nobody did.
        peer_measured: The peer's figure, in the same unit.
        least_ratio: How many times better than the peer it must be.
        rate: Whether more is better.
    """

    what: str
    measured: float
    bar: float | None = None
    peer: str = ""
    peer_measured: float | None = None
    least_ratio: float | None = None
    rate: bool = False

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer."""
        if self.peer_measured is None:
            return None
        if self.rate:
            return self.measured / self.peer_measured
        return self.peer_measured / self.measured

    def misses(self) -> list[str]:
        """In words, each bar that it falls short of."""
        found = []
        if self.bar is not None:
            worse = self.bar / self.measured if self.rate else self.measured / self.bar
            if worse > 1:
                found.append(f"{worse:.2g} times short of its bar")
        if self.ratio is not None and self.least_ratio is not None:
            if self.ratio < self.least_ratio:
                found.append(
                    f"only {self.ratio:.3g} times {self.peer}, not {self.least_ratio:g}"
                )
        return found


def seconds(
    run: Callable[[], object], *, repeat: int = 15, number: int = 1, first: int = 1
) -> float:
    """The median time of one call, over batches of `number` calls.

    Args:
        run: What to time.
        repeat: How many batches.
        number: How many calls in each.
        first: How many calls are made before, untimed.
    """
    for _ in range(first):
        run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(number):
            run()
        times.append((time.perf_counter() - start) / number)
    return statistics.median(times)


def installed(module: str) -> bool:
    return find_spec(module) is not None


def peer_seconds(script: str, **arguments: Any) -> float:
    """What a peer's own script measures, in a Python of its own."""
    done = subprocess.run(
        [sys.executable, str(PEERS / script), json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])
