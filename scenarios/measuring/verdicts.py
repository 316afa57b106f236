"""Evaluates laws on many recorded runs: verdicts and violation rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarn.abstractions.dataset.layout import ROWS, parquet
from forewarn.abstractions.errors import InvalidTrace
from forewarn.abstractions.files import atomic_bytes
from forewarn.abstractions.readers.stored import Stored, batches
from forewarn.abstractions.trace import Kept
from forewarn.monitors.laws.judging import judge
from forewarn.monitors.laws.lawbook import Law
from forewarn.scenarios.running.pools import (
    Pool,
    in_turn,
    shared,
)

VERDICTS = ("ok", "pending", "violated", "vacuous", "not applicable")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Share:
    """A batch of consecutive runs, and the laws to evaluate on them."""

    runs: Sequence[Stored]
    laws: Sequence[Law]
    period_s: float | None


def judged(
    runs: Sequence[Stored],
    laws: Sequence[Law],
    period_s: float | None,
    on: Pool,
    out: Path | None = None,
    watched: Callable[..., Iterator[Any]] = lambda items, *_: items,
) -> list[Row]:
    """Evaluates the laws on every run; returns each law's verdict counts and violation
    rate.

    Args:
        runs: The runs; at most one chunk of a file is held in memory.
        laws: The laws to evaluate.
        period_s: The period of the monitors' clock in seconds; None for each run's own.
        on: The pool that processes the runs; it does not affect the results.
        out: A Parquet file for the verdict and the first violation of every run.
        watched: Shows progress over the runs.
    """
    found: dict[str, Row] = {
        law.name: {
            "law": law.name,
            "runs": 0,
            **{key_of(verdict): 0 for verdict in VERDICTS},
            "violations": 0,
            "rate": 0.0,
            "first_run": None,
        }
        for law in laws
    }
    with _written(out) as write:
        each = _rows(runs, laws, period_s, on)
        for row in (
            row for rows in watched(each, "runs judged", len(runs)) for row in rows
        ):
            write(row)
            rate = found[row["law"]]
            rate["runs"] += 1
            rate[key_of(row["verdict"])] += 1
            rate["violations"] += row["violations"]
            rate["rate"] = rate["violated"] / rate["runs"]
            if row["verdict"] == "violated" and rate["first_run"] is None:
                rate["first_run"] = row["run"]
    return list(found.values())


def key_of(verdict: str) -> str:
    """Returns the name of the field that counts runs with this verdict."""
    return verdict.replace(" ", "_")


def _rows(
    runs: Sequence[Stored], laws: Sequence[Law], period_s: float | None, on: Pool
) -> Iterator[list[Row]]:
    """Yields the rows of each run, in the order of the runs."""
    shares = [_Share(part, laws, period_s) for part in shared(runs)]
    return (rows for found in in_turn(_judge_share, shares, on) for rows in found)


def _judge_share(share: _Share) -> list[list[Row]]:
    """Returns the rows of each run in a batch, one row per law."""
    laws = share.laws
    signals = dict.fromkeys(name for law in laws for name in law.signals)
    return [
        [_judged(run, kept, law, share.period_s) for law in laws]
        for batch in batches(share.runs, signals, laws[0].vocabulary, share.period_s)
        for run, kept in zip(batch.runs, batch.apart(), strict=True)
    ]


def _judged(run: Stored, kept: Kept, law: Law, period_s: float | None) -> Row:
    """Returns the verdict of a law on a run, and the first violation."""
    try:
        found = judge(law, kept, period_s)
    except InvalidTrace as error:
        place = f"run {run.run}" if run.run else ""
        raise error.within(str(run.path), place) from None
    first = found.violations[0] if found.violations else None
    return {
        "run": run.name,
        "seed": kept.header.seed,
        "law": law.name,
        "verdict": found.verdict,
        "violations": len(found.violations),
        "first_frame": None if first is None else first.frame,
        "first_violation_s": None if first is None else first.time_s,
        "since_s": None if first is None else first.since_s,
        "reason": found.reason or None,
    }


@contextmanager
def _written(path: Path | None) -> Iterator[Callable[[Row], None]]:
    """Provides a function that writes rows to a Parquet file; the file is created only
    if all rows are written.
    """
    if path is None:
        yield lambda row: None
        return
    pq = parquet()
    import pyarrow as pa

    text, whole, number = pa.string(), pa.int64(), pa.float64()
    types = {
        "run": text, "seed": whole, "law": text, "verdict": text, "violations": whole,
        "first_frame": whole, "first_violation_s": number, "since_s": number,
        "reason": text,
    }  # fmt: skip
    schema = pa.schema(types)
    some: list[Row] = []

    def write() -> None:
        writer.write_table(pa.Table.from_pylist(some, schema=schema))
        some.clear()

    def take(row: Row) -> None:
        some.append(row)
        if len(some) == ROWS:
            write()

    with atomic_bytes(path) as out, pq.ParquetWriter(out, schema) as writer:
        yield take
        write()
