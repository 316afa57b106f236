"""What traces in columns cost, each beside a bare part in the same run.

    python benchmarks/columns.py RUNS [FRAMES]

RUNS is a folder of JSON Lines, as `forewarn collect --format jsonl` writes them; FRAMES
is how many frames are made of them for what is to be large (default: a million).
"""

from __future__ import annotations

import gzip
import itertools
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from forewarn.abstractions.dataset.reading import part_of
from forewarn.abstractions.dataset.tables import RunTable, run_table
from forewarn.abstractions.dataset.writing import write_part
from forewarn.abstractions.readers import read_trace
from forewarn.abstractions.readers.stored import Stored, files_in, stored_runs
from forewarn.monitors.laws.judging import judge
from forewarn.monitors.trust.training import Training, encode_trace
from forewarn.scenarios.schema import load_scenario

WANTED = 30
MOST_FILES = 60


def spent(what: Callable[[], Any]) -> float:
    """The processor time of it, in seconds."""
    begun = time.process_time()
    what()
    return time.process_time() - begun


def row(what: str, rate: float, bar: float, unit: str, beside: str = "") -> None:
    held = "met" if rate >= bar else "missed"
    print(f"{what:<46} {rate:>12,.0f} {unit:<10} bar {bar:>11,.0f}  {held}  {beside}")


def main() -> None:
    runs = stored_runs(files_in(Path(sys.argv[1])))[:MOST_FILES]
    frames = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    traces = [run.trace() for run in runs]
    count = sum(map(len, traces))
    names = list(traces[0].header.provides)

    texts = [gzip.open(run.path).readlines() for run in runs]
    bare = spent(lambda: [orjson.loads(line) for text in texts for line in text])
    ours = spent(lambda: [run.kept(names[:WANTED]) for run in runs])
    beside = f"{bare / ours:.2f} of orjson's bare parse (bar 0.5)"
    row("JSON Lines to 30 columns", count / ours, 50_000, "frames/s", beside)
    whole = spent(lambda: [read_trace(run.path) for run in runs])
    row("JSON Lines to frames, all of them checked", count / whole, 0, "frames/s")

    scenario = load_scenario(traces[0].header.scenario)
    abstraction, law = scenario.abstraction, scenario.laws[0]
    tables: list[RunTable] = []

    def write() -> None:
        for run, trace in zip(runs, traces, strict=True):
            noted = ((f, trace.notes.get(i)) for i, f in enumerate(trace.frames))
            name = run.path.name.partition(".")[0]
            tables.append(run_table(name, trace.header, noted, trace.vocabulary))

    made = spent(write)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        put = spent(lambda: write_part(path, tables))
        row("frames to columns and a part", count / (made + put), 0, "frames/s")
        size = path.stat().st_size / count
        print(f"{'bytes a frame, all signals':<46} {size:>12.1f} bar 20")
        for number in range(1, max(1, frames // count)):
            shutil.copy(path, path.with_name(f"{number:05}.parquet"))
        parts = files_in(Path(folder))
        every = [Stored(part, run) for part in parts for run in _names(part)]
        total = count * len(parts)
        columns = ["time_s", *abstraction.signals]
        read = spent(lambda: [_bare(part, columns) for part in parts])
        seen = spent(
            lambda: [encode_trace(_kept(r, scenario), abstraction) for r in every]
        )
        beside = f"{read / seen:.2f} of pyarrow's bare read (bar 0.33)"
        row("columns to states", total / seen, 1_000_000, "frames/s", beside)
        training = Training()

        def learn() -> None:
            for run in every:
                training.add_trace(run, abstraction)

        row("learn from columns, counting", total / spent(learn), 500_000, "frames/s")
        judged = spent(
            lambda: [judge(law, r.kept(law.signals, law.vocabulary)) for r in every]
        )
        row(f"the law {law.name}", total / judged, 1_000_000, "frames/s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{total:,} frames in {len(every):,} runs; {peak:,.0f} MiB at most")


def _names(part: Path) -> list[str]:
    return [run.name for run in part_of(part).facts.runs]


def _bare(part: Path, columns: list[str]) -> None:
    file = pq.ParquetFile(part)
    for number in range(file.metadata.num_row_groups):
        group = file.read_row_group(number, columns=columns, use_threads=False)
        list(itertools.chain.from_iterable(c.chunks for c in group.columns))


def _kept(run: Stored, scenario: Any) -> Any:
    return run.kept(scenario.abstraction.signals, scenario.abstraction.vocabulary)


if __name__ == "__main__":
    main()
