"""`forewarn monitor` over many runs: a verdict each, and rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarn.cli.support import progress, table

if TYPE_CHECKING:
    from forewarn.abstractions.readers.stored import Stored
    from forewarn.monitors.laws.lawbook import Law

VERDICTS = ("ok", "pending", "violated", "vacuous", "not applicable")


def judged_runs(
    runs: Sequence[Stored], laws: Sequence[Law], period_s: float | None
) -> Iterator[dict[str, Any]]:
    """Of every run and every law a row: the verdict and the first violation."""
    from forewarn.abstractions.errors import InvalidTrace
    from forewarn.monitors.laws.judging import judge

    signals = dict.fromkeys(name for law in laws for name in law.signals)
    for run in progress(runs, "runs judged", len(runs)):
        kept = run.kept(signals, laws[0].vocabulary)
        for law in laws:
            try:
                found = judge(law, kept, period_s)
            except InvalidTrace as error:
                place = f"run {run.run}" if run.run else ""
                raise error.within(str(run.path), place) from None
            first = found.violations[0] if found.violations else None
            yield {
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


def write_verdicts(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The rows as a Parquet file, whole or not at all."""
    from forewarn.abstractions.dataset.layout import parquet
    from forewarn.abstractions.files import atomic_bytes

    pq = parquet()
    import pyarrow as pa

    text, whole, number = pa.string(), pa.int64(), pa.float64()
    types = {
        "run": text, "seed": whole, "law": text, "verdict": text, "violations": whole,
        "first_frame": whole, "first_violation_s": number, "since_s": number,
        "reason": text,
    }  # fmt: skip
    with atomic_bytes(path) as out:
        pq.write_table(pa.Table.from_pylist(list(rows), schema=pa.schema(types)), out)


def rates(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By law how many runs had which verdict, and how often it was broken."""
    found = []
    for law in dict.fromkeys(row["law"] for row in rows):
        of_law = [row for row in rows if row["law"] == law]
        counts = {v: sum(row["verdict"] == v for row in of_law) for v in VERDICTS}
        first = [row for row in of_law if row["verdict"] == "violated"]
        found.append(
            {
                "law": law,
                "runs": len(of_law),
                **{v.replace(" ", "_"): count for v, count in counts.items()},
                "violations": sum(row["violations"] for row in of_law),
                "rate": counts["violated"] / len(of_law),
                "first_run": first[0]["run"] if first else None,
            }
        )
    return found


def rate_lines(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The rates for people."""
    head = ["law", "runs", *VERDICTS, "violations", "rate", "first in"]
    rows = [
        (
            each["law"], each["runs"],
            *(each[v.replace(" ", "_")] for v in VERDICTS),
            each["violations"], f"{each['rate']:.3f}", each["first_run"] or "-",
        )
        for each in found
    ]  # fmt: skip
    yield from table(head, rows)
