"""What is written has the mode that the user wants, and appears whole or not at all."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.abstractions.readers.stored import read_traces
from forewarn.cli import main

DTMC = "3 3\n0 1 1\n1 2 1\n2 2 1\n"


def frames(count: int) -> str:
    header = '{"format":"forewarn.trace/1","provides":["speed"],"period_s":0.1}\n'
    return header + "".join(
        f'{{"sequence":{i},"time_s":{i / 10},"signals":{{"speed":1}}}}\n'
        for i in range(count)
    )


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "chain.tra").write_text(DTMC)
    (tmp_path / "trace.jsonl").write_text(frames(3))
    (tmp_path / "a.yaml").write_text(
        "{format: forewarn.abstraction/1, name: a, period_s: 0.1,"
        " predicates: [speed > 3]}"
    )
    invoke("import", tmp_path / "chain.tra", "--out", tmp_path / "model.json")
    return tmp_path


@pytest.fixture(params=[0o077, 0o002, 0o027], ids=oct)
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def invoke(*words: object) -> None:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


WRITERS = {
    "m.json": ("import", "chain.tra", "--out"),
    "m.drn": ("export", "model.json", "--format", "drn", "--out"),
    "m.umb": ("export", "model.json", "--format", "umb", "--out"),
    "maps.json.gz": ("import", "chain.tra", "--out"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_output_keeps_the_umask_and_a_files_own_mode(
    name: str, desk: Path, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.endswith(".umb"):
        pytest.importorskip("stormpy")
    monkeypatch.chdir(desk)
    invoke(*WRITERS[name], name)
    assert mode(desk / name) == 0o666 & ~mask
    (desk / name).chmod(0o640)
    invoke(*WRITERS[name], name)
    assert mode(desk / name) == 0o640


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond a few bytes."""
    resource = pytest.importorskip("resource", reason="resource is not here")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", [*WRITERS, "trace.jsonl.gz", "learned.json"])
def test_on_a_full_disk_the_old_file_stays(
    name: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.endswith(".umb"):
        pytest.importorskip("stormpy")
    monkeypatch.chdir(desk)
    out = desk / name
    out.write_text("as it was")
    words = {
        "trace.jsonl.gz": ("convert", "trace.jsonl", "--format", "jsonl", "--out", "."),
        "learned.json": (
            "learn",
            "trace.jsonl",
            "--abstraction",
            "a.yaml",
            "--out",
            name,
        ),
    }.get(name) or (*WRITERS[name], name)
    beside = sorted(desk.iterdir())
    with full_disk():
        done = CliRunner().invoke(main, [*words])
    assert done.exit_code == 2 and name in done.stderr, done.output
    assert "too large" in done.stderr and len(done.stderr.splitlines()) == 1
    assert out.read_text() == "as it was" and sorted(desk.iterdir()) == beside


@pytest.mark.parametrize("kind", ["columns", "jsonl"])
def test_converted_traces_keep_the_umask(kind: str, desk: Path, mask: int) -> None:
    pytest.importorskip("pyarrow")
    traces = desk / "trace.jsonl"
    invoke("convert", traces, "--format", kind, "--out", desk / "to")
    assert {mode(path) for path in (desk / "to").iterdir()} == {0o666 & ~mask}


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT], ids=lambda s: s.name)
def test_a_convert_that_is_ended_leaves_nothing_half_written(
    sent: signal.Signals, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    source, out = tmp_path / "runs", tmp_path / "columns"
    source.mkdir()
    for number in range(60):
        (source / f"{number:02}.jsonl").write_text(frames(100))
    command = ["convert", str(source), "--format", "columns", "--out", str(out)]
    started = subprocess.Popen(
        [sys.executable, "-m", "forewarn", *command], stderr=subprocess.PIPE, text=True
    )
    until_s = time.monotonic() + 30
    while not out.exists() and started.poll() is None and time.monotonic() < until_s:
        time.sleep(0.01)
    started.send_signal(sent)
    _, said = started.communicate(timeout=30)
    if sent == signal.SIGINT and started.returncode == 130:
        assert said.endswith("forewarn: interrupted\n")
    elif sent == signal.SIGINT:  # it was done; Python may be killed while it exits
        assert started.returncode in (0, -signal.SIGINT)
        assert len(list(read_traces(out))) == 60
    for path in out.glob("*.parquet"):
        assert list(read_traces(path))  # whatever is there is whole
    invoke(*command)
    assert len(list(read_traces(out))) == 60
