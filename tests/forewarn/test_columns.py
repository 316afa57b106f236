"""Traces in columns, from the command line: whatever takes traces takes both."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions import files
from forewarn.abstractions.files import read_json
from forewarn.abstractions.readers.stored import files_in, stored_runs
from forewarn.cli import main
from tests.scenarios import learned

pytestmark = pytest.mark.needs("pyarrow")

PAGE = Path(__file__).parents[2] / "docs" / "columns.md"


def forewarn(*arguments: object, status: int = 0) -> Any:
    """What a command prints as JSON."""
    words = [*map(str, arguments), "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


@cache
def collected(kind: str) -> Path:
    def collect(folder: Path) -> None:
        count = ("--episodes", 30, "--out", folder, "--format", kind)
        found = forewarn("collect", "tiny-road", *count)
        assert found["others"] == [] and found["episodes"] == 30
        assert all(Path(path).is_file() for path in found["traces"])

    return learned.made_once(f"collected-{kind}", collect)


def test_both_formats_hold_the_same_runs() -> None:
    lines, columns = (stored_runs(files_in(collected(k))) for k in ("jsonl", "columns"))
    assert [run.trace() for run in lines] == [run.trace() for run in columns]
    assert len(files_in(collected("columns"))) == 1


def test_the_same_model_is_learned_from_both(tmp_path: Path) -> None:
    models = []
    for kind in ("jsonl", "columns"):
        out = tmp_path / f"{kind}.json"
        forewarn("learn", collected(kind), "--scenario", "tiny-road", "--out", out)
        model = read_json(out)
        files = model["training"].pop("files")
        seeds = [seed for f in files for seed in f.get("seeds", [f.get("seed")])]
        assert seeds == list(range(30))
        models.append(model)
    assert models[0] == models[1]


def test_campaign_with_more_episodes_continues(tmp_path: Path) -> None:
    ask = ("collect", "tiny-road", "--format", "columns", "--out", tmp_path)
    forewarn(*ask, "--episodes", 7)
    forewarn(*ask, "--episodes", 30)
    one, two = files_in(tmp_path), files_in(collected("columns"))
    assert [p.name for p in one] == [p.name for p in two]
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]


def test_runs_left_by_a_killed_campaign_are_reported(tmp_path: Path) -> None:
    from forewarn.abstractions.dataset.reading import part_of
    from forewarn.abstractions.dataset.writing import join_all, pend

    (whole,) = files_in(collected("columns"))
    part = part_of(whole)
    names = [run.name for run in part.facts.runs]
    for name in names[:3]:
        pend(tmp_path, part.run_table(name))
    join_all(tmp_path, names[0].rpartition("-")[0])
    for name in names[3:5]:
        pend(tmp_path, part.run_table(name))
    out = tmp_path.with_suffix(".json")
    learn = ("learn", tmp_path, "--scenario", "tiny-road", "--out", out, "--json")
    done = CliRunner().invoke(main, [*map(str, learn)])
    found = json.loads(done.stdout)
    told = f"{tmp_path}: 2 runs of an interrupted or still running `forewarn collect`"
    assert found["training"]["traces"] == 3
    assert found["warnings"][0].startswith(told) and told in done.stderr
    # Collecting goes on where it was, and nothing is left out then.
    ask = ("collect", "tiny-road", "--format", "columns", "--out", tmp_path)
    forewarn(*ask, "--episodes", 5)
    assert not any(told in w for w in forewarn(*learn[:-1])["warnings"])


def test_runs_are_converted_and_back(tmp_path: Path) -> None:
    found = forewarn("convert", collected("jsonl"), "--out", tmp_path / "columns")
    assert (found["format"], found["runs"], len(found["files"])) == ("columns", 30, 1)
    back = forewarn("convert", tmp_path / "columns", "--out", tmp_path / "lines")
    assert (back["format"], len(back["files"])) == ("jsonl", 30)
    one, two = (
        stored_runs(files_in(p)) for p in (collected("jsonl"), tmp_path / "lines")
    )
    assert [run.trace() for run in one] == [run.trace() for run in two]


@pytest.mark.parametrize("kind", ["jsonl", "columns"])
def test_a_convert_that_is_killed_leaves_no_half_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    runs, out = collected(kind), tmp_path / "out"
    if not (child := os.fork()):
        monkeypatch.setattr(files, "settle", killed)
        main(["convert", str(runs), "--out", str(out)])
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert all(path.name.startswith(".") for path in out.rglob("*") if path.is_file())
    # What it left is in nobody's way.
    found = forewarn("convert", runs, "--out", out)
    assert found["runs"] == len(stored_runs(files_in(out))) == 30


def test_laws_are_judged_over_many_runs(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "verdicts.parquet"
    asked = ("--law", "always speed < 40 km/h", "--law", "always speed < 0 km/h")
    both = [
        forewarn("monitor", collected(kind), *asked, *more, status=1)["laws"]
        for kind, more in (("jsonl", ()), ("columns", ("--out", out)))
    ]
    (kept, broken), lines = both[1], both[0]
    assert [each["rate"] for each in both[1]] == [each["rate"] for each in lines]
    assert broken["violated"] == broken["runs"] == 30 and kept["runs"] == 30
    rows = pq.read_table(out).to_pylist()
    assert len(rows) == 60
    for row in rows:
        if row["law"] == broken["law"]:
            assert row["verdict"] == "violated" and row["first_violation_s"] == 0.0
    single = files_in(collected("jsonl"))[3]
    told = forewarn("monitor", single, *asked, status=1)["results"]
    (ours,) = [r for r in rows if r["seed"] == 3 and r["law"] == broken["law"]]
    assert told[1]["verdict"] == ours["verdict"]


def test_runs_in_columns_are_measured_and_tuned_by(tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    forewarn("learn", collected("columns"), "--scenario", "tiny-road", "--out", model)
    told = [
        forewarn(
            "measure", "tiny-road", "--model", model, "--runs", collected(kind),
            "--allow-training-seeds", "--thresholds", "0.5",
        )
        for kind in ("jsonl", "columns")
    ]  # fmt: skip
    assert told[0]["laws"] == told[1]["laws"] and told[0]["episodes"] == 30


@pytest.mark.needs("duckdb")
@pytest.mark.needs("polars")
@pytest.mark.needs("pandas")
def test_the_queries_of_the_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        code = block.replace("traces/*.parquet", f"{collected('columns')}/*.parquet")
        done = subprocess.run(
            [sys.executable, "-c", f"{code}\nprint(len(fastest))"],
            capture_output=True,
            text=True,
        )
        assert (done.stdout.split()[-1:], done.returncode) == (["30"], 0), done.stderr
