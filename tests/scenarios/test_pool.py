"""Pools: results come back, processes that break are replaced, nobody is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from forewarn.abstractions.errors import MissingDependency
from forewarn.scenarios.running.pools import (
    CannotRun,
    Here,
    Lost,
    Pool,
    Processes,
)

SOON_S = 20.0


def double(number: int) -> int:
    return 2 * number


def fragile(number: int) -> int:
    """A simulator that crashes now and then."""
    if number % 5 == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def impossible(number: int) -> int:
    if number == 2:
        raise MissingDependency("the world sumo", "sumo")
    return number


def defective(number: int) -> int:
    return 1 // number


def hang(path: str) -> None:
    """Says that it began, and at the end that its world was closed."""
    beside = Path(path)
    try:
        beside.with_suffix(".pid").write_text(str(os.getpid()))
        beside.with_suffix(".pid").rename(beside.with_suffix(".began"))
        time.sleep(600)
    finally:
        beside.with_suffix(".closed").touch()


def wait_for(*paths: Path) -> None:
    give_up = time.monotonic() + SOON_S
    while not all(path.exists() for path in paths):
        assert time.monotonic() < give_up, f"{paths} did not come"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process whose parent is gone and that nobody has waited for is dead too.
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pid: int) -> None:
    give_up = time.monotonic() + SOON_S
    while alive(pid):
        assert time.monotonic() < give_up, f"process {pid} is still there"
        time.sleep(0.02)


@pytest.mark.parametrize("pool", [Here(), Processes(1), Processes(3)])
def test_every_job_comes_back_with_its_result(pool: Pool) -> None:
    assert dict(pool.map(double, range(20))) == {n: 2 * n for n in range(20)}
    assert list(pool.map(double, [])) == []


def test_a_process_that_breaks_takes_one_job_with_it() -> None:
    found = dict(Processes(2).map(fragile, range(12)))
    assert sorted(found) == list(range(12))
    lost = {number for number, answer in found.items() if isinstance(answer, Lost)}
    assert lost == {3, 8}
    assert found[3] == Lost("the process ended with status -9")


@pytest.mark.parametrize(
    ("work", "status", "line"),
    [
        (impossible, 3, "the world sumo needs a package that is not installed"),
        (defective, 70, "a defect in forewarn: ZeroDivisionError"),
    ],
)
def test_what_cannot_be_ends_all_with_its_message(
    work: object, status: int, line: str
) -> None:
    with pytest.raises(CannotRun) as caught:
        list(Processes(2).map(work, range(9)))  # type: ignore[arg-type]
    assert str(caught.value).startswith(line)
    assert caught.value.exit_status == status


def as_generator(results: Iterator[Any]) -> Generator[Any, None, None]:
    return cast("Generator[Any, None, None]", results)


def test_jobs_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []

    def jobs() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    with closing(as_generator(Processes(2).map(double, jobs()))) as results:
        next(results)
    assert len(taken) < 10


def test_closing_ends_what_still_runs_and_closes_its_world(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b")]
    with closing(
        as_generator(Processes(3).map(hang_unless_done, map(str, [*paths, "done"])))
    ) as it:
        assert next(it)[0] == "done"
        wait_for(*(path.with_suffix(".began") for path in paths))
    for path in paths:
        assert path.with_suffix(".closed").exists()
        assert not alive(int(path.with_suffix(".began").read_text()))


def hang_unless_done(path: str) -> None:
    if path != "done":
        hang(path)


def deaf(number: int) -> bool:
    """Whether this process was begun with Ctrl-C kept from it."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


FIRST = """
from forewarn.scenarios.running.pools import Processes
from tests.scenarios.test_pool import deaf
if __name__ == "__main__":
    print(list(Processes(1).map(deaf, [0])))
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no masks here")
def test_ctrl_c_is_kept_from_the_very_first_process_while_it_begins(
    tmp_path: Path,
) -> None:
    script = tmp_path / "first.py"
    script.write_text(FIRST)
    told = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split("\n")[0] == "[(0, True)]"


PARENT = """
import sys
from forewarn.scenarios.running.pools import Processes
from tests.scenarios.test_pool import hang
if __name__ == "__main__":
    list(Processes(2).map(hang, sys.argv[1:]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_when_the_campaign_is_killed_its_processes_close_their_worlds_and_end(
    tmp_path: Path,
) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    paths = [tmp_path / name for name in ("a", "b")]
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, str(script), *map(str, paths)],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=tmp_path,
    )
    try:
        wait_for(*(path.with_suffix(".began") for path in paths))
    finally:
        parent.kill()
        parent.wait()
    wait_for(*(path.with_suffix(".closed") for path in paths))
    for path in paths:
        wait_until_gone(int(path.with_suffix(".began").read_text()))
