"""Figures of docs/columns.md: the cost of traces in columns, compared with bare
libraries.

    python benchmarks/columns.py RUNS [FRAMES]

RUNS is a folder of JSON Lines written by `forewarn collect --format jsonl`. FRAMES is
the number of frames generated from these runs for the large tests (default: ten
million, which take about 300 MB and several minutes). All times are processor times.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner
from run import least_cpu

from forewarn.abstractions.dataset.layout import FORMAT, PartFacts
from forewarn.abstractions.dataset.reading import part_of
from forewarn.abstractions.dataset.tables import RunTable, run_table
from forewarn.abstractions.dataset.writing import write_part
from forewarn.abstractions.readers.stored import batches, files_in, stored_runs
from forewarn.abstractions.trace import Trace
from forewarn.cli import main as main_command
from forewarn.monitors.trust.encoding import encode
from forewarn.scenarios.running.campaign import campaign, jobs
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import Here
from forewarn.scenarios.schema import Scenario, load_scenario

WANTED = 30
MOST_FILES = 200
SIMULATED = 65
MIB = 1024


def row(what: str, value: float, bar: float, unit: str, beside: str = "") -> None:
    fewer = unit in ("bytes", "%", "MiB")
    held = "" if not bar else "met" if (value <= bar) == fewer else "missed"
    shown = f"{value:,.1f}" if fewer else f"{value:,.0f}"
    print(f"{what:<44} {shown:>11} {unit:<9} {bar:>11,.0f}  {held:<6}  {beside}")


def main() -> None:
    runs = stored_runs(files_in(Path(sys.argv[1])))[:MOST_FILES]
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    traces = [run.trace() for run in runs]
    count = sum(map(len, traces))
    names = list(traces[0].header.provides)
    print(f"{'what':<44} {'':>11} {'':<9} {'bar':>11}")

    # A campaign holds only one run at a time, so the garbage collector must not see
    # these runs.
    gc.freeze()
    texts = [gzip.open(run.path).readlines() for run in runs]
    bare = least_cpu(lambda: [orjson.loads(line) for text in texts for line in text])
    ours = least_cpu(lambda: [run.kept(names[:WANTED]) for run in runs])
    beside = f"{bare / ours:.2f} of orjson's bare parse (bar 0.5)"
    row("JSON Lines to 30 columns", count / ours, 50_000, "frames/s", beside)

    scenario = load_scenario(traces[0].header.scenario)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        part = base / "dataset" / "00000.parquet"
        write_part(part, tables(traces, [run.path for run in runs]))
        frames, simulated, writing = collected(scenario, base / "collected")
        beside = f"{frames / simulated:,.0f} frames/s are simulated without writing"
        share = 100 * writing / simulated
        row("writing, relative to the simulation's time", share, 5, "%", beside)
        size = part.stat().st_size / count
        row("bytes per frame, all signals", size, 20, "bytes")

        copies = max(1, wanted // count)
        for number in range(1, copies):
            repeat(part, number)
        parts = files_in(part.parent)
        total = count * len(parts)
        some = parts[: max(1, 1_000_000 // count)]
        abstraction = scenario.abstraction
        columns = ["time_s", *abstraction.signals]
        read = least_cpu(lambda: [bare_read(each, columns) for each in some])
        stored = stored_runs(some)

        def states() -> None:
            for batch in batches(stored, abstraction.signals, abstraction.vocabulary):
                encode(batch, abstraction)

        seen = least_cpu(states)
        beside = f"{read / seen:.2f} of pyarrow's bare read to numpy (bar 0.33)"
        rate = count * len(some) / seen
        row("columns to states", rate, 1_000_000, "frames/s", beside)
        command = ["learn", str(part), "--scenario", scenario.name, "--out"]
        command.append(str(base / "learned.json"))
        learning = least_cpu(lambda: CliRunner().invoke(main_command, command))
        beside = "the whole command with its fairness tests, without imports"
        row(
            "`learn`, relative to orjson's bare parse",
            100 * learning / bare,
            100,
            "%",
            beside,
        )
        model = ("--scenario", scenario.name, "--out", base / "model.json")
        law = ("--law", scenario.laws[0].name, "--out", base / "verdicts.parquet")
        for verb, more, bar in (("learn", model, 500_000), ("monitor", law, 1_000_000)):
            little = forewarn(verb, parts[0], *more)
            much = forewarn(verb, part.parent, *more)
            beside = f"{total:,} frames in {much[0]:.1f} s, imports included"
            row(f"`{verb}`, end to end", total / much[0], bar, "frames/s", beside)
            beside = f"in addition to the {little[1]:,.0f} MiB for one part"
            row("  additional memory", much[1] - little[1], 1024, "MiB", beside)


def tables(traces: Sequence[Trace], paths: Sequence[Path]) -> list[RunTable]:
    found = []
    for trace, path in zip(traces, paths, strict=True):
        noted = ((f, trace.notes.get(i)) for i, f in enumerate(trace.frames))
        name = path.name.partition(".")[0]
        found.append(run_table(name, trace.header, noted, trace.vocabulary))
    return found


def collected(scenario: Scenario, folder: Path) -> tuple[int, float, float]:
    """Returns a campaign's number of frames, its time without writing, and the time
    that writing adds.
    """
    frames = 0

    def runs(kept: Sequence[str]) -> None:
        nonlocal frames
        with tempfile.TemporaryDirectory(dir=folder) as place:
            seeds = range(SIMULATED)
            todo = jobs(plan(scenario), scenario, seeds, Path(place), kept)
            frames = sum(each.frames for each in campaign(todo, Here()))

    folder.mkdir()
    bare_s, written_s = (least_cpu(lambda k=k: runs(k)) for k in ((), ("columns",)))
    return frames, bare_s, written_s - bare_s


def repeat(part: Path, number: int) -> None:
    """Copies the runs under other names."""
    facts = part_of(part).facts
    runs = tuple(replace(run, name=f"{number}-{run.name}") for run in facts.runs)
    table = pq.read_table(part)
    numbers = table["run"].combine_chunks()
    words = [f"{number}-{word}" for word in numbers.dictionary.to_pylist()]
    named = pa.DictionaryArray.from_arrays(numbers.indices, words)
    table = table.set_column(0, "run", named)
    groups = pq.ParquetFile(part).metadata
    size = max(groups.row_group(i).num_rows for i in range(groups.num_row_groups))
    out = part.with_name(f"{number:05}.parquet")
    with pq.ParquetWriter(out, table.schema, compression="zstd") as writer:
        writer.write_table(table, row_group_size=size)
        again = PartFacts(runs, facts.vocabularies)
        writer.add_key_value_metadata({FORMAT: again.dumped()})


def bare_read(part: Path, columns: Sequence[str]) -> None:
    file = pq.ParquetFile(part)
    for number in range(file.metadata.num_row_groups):
        group = file.read_row_group(number, columns=columns, use_threads=False)
        for column in group.columns:
            column.to_numpy()


def forewarn(*arguments: object) -> tuple[float, float]:
    """Returns the processor time in seconds and the peak memory in MiB of a command."""
    command = [sys.executable, "-m", "forewarn.cli", *map(str, arguments), "--json"]
    most = 0.0
    with tempfile.TemporaryFile() as out:
        running = subprocess.Popen(command, stdout=out)
        # The figure from getrusage starts at the parent's memory.
        while (told := _high_water(running.pid)) or not most:
            most = max(most, told)
            time.sleep(0.05)
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        assert running.returncode in (0, 1)
        out.seek(0)
        json.load(out)
    return used.ru_utime + used.ru_stime, most


def _high_water(pid: int) -> float:
    """Returns the peak memory of a process so far in MiB; 0 if it has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / MIB if found else 0.0


if __name__ == "__main__":
    main()
