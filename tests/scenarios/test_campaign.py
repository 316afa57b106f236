"""Campaigns: results by content, resumed after a kill, the same bytes everywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.readers import read_trace
from forewarn.abstractions.readers.stored import files_in, stored_runs
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.record import read_record
from forewarn.plugins.loop.replay import replay
from forewarn.plugins.tiny import TinyWorld
from forewarn.scenarios.running import campaign as campaign_module
from forewarn.scenarios.running.campaign import Job, Kept, campaign, jobs, pool
from forewarn.scenarios.running.episode import Episode, by_seed, read_episode
from forewarn.scenarios.running.plan import plan, runner_of
from forewarn.scenarios.running.pools import Here, Lost
from forewarn.scenarios.schema import load_scenario
from tests.scenarios import learned
from tests.scenarios.test_pool import wait_until_gone

ROAD = load_scenario("tiny-road")
STOP = Policy(rules={"*": (Step("stop", 0.4),)})


def unguarded(folder: Path, seeds: range, keep: list[Kept] | None = None) -> list[Job]:
    return jobs(plan(ROAD), ROAD, seeds, folder, keep or [])


def guarded(folder: Path, seeds: range, policy: Policy = STOP) -> list[Job]:
    made = plan(ROAD, learned.model("tiny-road"), policy)
    return jobs(made, ROAD, seeds, folder, ["record"])


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a campaign, less what the machine adds to them."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if path.suffix == ".json" and path.parent.name == "episodes":
            content = json.loads(data)
            content.pop("machine")
            data = json.dumps(content).encode()
        found[str(path.relative_to(folder))] = data
    return found


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds that are really run, in this process."""
    seeds: list[int] = []
    play = campaign_module.play

    def noted(job: Job) -> Episode:
        seeds.append(job.seed)
        return play(job)

    monkeypatch.setattr(campaign_module, "play", noted)
    return seeds


def test_existing_runs_are_not_repeated(tmp_path: Path, played: list[int]) -> None:
    first = by_seed(list(campaign(unguarded(tmp_path, range(5)), Here())))
    assert played == [0, 1, 2, 3, 4]
    more = by_seed(list(campaign(unguarded(tmp_path, range(8)), Here())))
    assert played == [0, 1, 2, 3, 4, 5, 6, 7]
    assert more[:5] == first
    list(campaign(unguarded(tmp_path, range(2)), Here(), again=True))
    assert played[8:] == [0, 1]


def test_results_are_named_by_what_made_them(tmp_path: Path) -> None:
    one = unguarded(tmp_path, range(1))[0]
    assert one.result.name == f"{one.stem}.json"
    assert one.stem.startswith("tiny-road-") and one.stem.endswith("-000000")
    changed = ROAD.text.replace("reckless_share: 0.4", "reckless_share: 0.5")
    path = tmp_path / "other.yaml"
    path.write_text(changed)
    other = load_scenario(str(path))
    stems = {
        one.stem,
        unguarded(tmp_path, range(1), ["trace"])[0].stem,
        guarded(tmp_path, range(1))[0].stem,
        guarded(tmp_path, range(1), replace(STOP, horizon_s=2.0))[0].stem,
        guarded(tmp_path, range(1), replace(STOP, shadow=True))[0].stem,
        guarded(tmp_path, range(1, 2))[0].stem,
        jobs(plan(other), other, range(1), tmp_path)[0].stem,
    }
    assert len(stems) == 7


def test_processes_give_the_same_bytes_as_one(tmp_path: Path) -> None:
    seeds = range(200, 206)
    alone = list(campaign(guarded(tmp_path / "a", seeds), pool(1)))
    together = list(campaign(guarded(tmp_path / "b", seeds), pool(2)))
    heads = {episode.seed: episode.head for episode in alone}
    assert {episode.seed: episode.head for episode in together} == heads
    assert len(set(heads.values())) == len(seeds)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_records_replay_by_themselves_with_the_model_beside_them(
    tmp_path: Path,
) -> None:
    for episode in campaign(guarded(tmp_path, range(200, 204)), Here()):
        assert episode.record is not None
        path = tmp_path / episode.record
        assert list(read_record(path))[-1].content["hash"] == episode.head
        assert replay(path)[1] is None


def test_traces_say_where_they_come_from_and_what_was_proposed(tmp_path: Path) -> None:
    (episode,) = campaign(unguarded(tmp_path, range(7, 8), ["trace"]), Here())
    trace = read_trace(tmp_path / str(episode.trace))
    header = trace.header
    assert (header.scenario, header.seed, header.guarded) == ("tiny-road", 7, False)
    assert (header.source, header.period_s) == ("tiny", 0.1)
    assert set(header.provides) == set(TinyWorld.source.provides)
    assert len(trace.frames) == episode.frames
    assert set(trace.notes[0].proposal) == {"name", "acceleration"}
    # On the last frame nothing was proposed any more.
    assert max(trace.notes) == episode.frames - 2


# -- failures --------------------------------------------------------------------------


@pytest.fixture
def falling(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A world that fails at seed 3."""

    class Falling(TinyWorld):
        def reset(self, seed: int):  # type: ignore[no-untyped-def]
            if seed == 3:
                raise ConnectionError("the simulator is gone")
            return super().reset(seed)

    made = "forewarn.scenarios.running.runner.make_world"
    monkeypatch.setattr(made, lambda *_: Falling())
    runner_of.cache_clear()
    yield
    runner_of.cache_clear()


@pytest.mark.usefixtures("falling")
def test_a_failure_is_a_result_too(tmp_path: Path, played: list[int]) -> None:
    keep: list[Kept] = ["trace"]
    found = by_seed(list(campaign(unguarded(tmp_path, range(5), keep), Here())))
    assert [episode.failed for episode in found] == [False] * 3 + [True, False]
    assert found[3].error == "ConnectionError: the simulator is gone"
    assert found[3].trace is None and found[4].trace is not None
    again = by_seed(list(campaign(unguarded(tmp_path, range(5), keep), Here())))
    assert again == found
    assert played == [0, 1, 2, 3, 4]


def test_what_a_broken_process_had_is_run_again(tmp_path: Path) -> None:
    class Broken:
        def map(self, work, todo):  # type: ignore[no-untyped-def]
            for job in todo:
                (tmp_path / f".{job.stem}.jsonl.gz.x1").write_bytes(b"half")
                yield job, Lost("the process ended with status -11")

    todo = guarded(tmp_path, range(2))
    found = list(campaign(todo, Broken()))
    assert [(each.ended, each.mode) for each in found] == [("failed", "guarded")] * 2
    assert found[0].error == "the process ended with status -11"
    assert not todo[0].result.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    again = list(campaign(todo, Here()))
    assert not any(each.failed for each in again)


def test_a_result_that_is_damaged_is_named(tmp_path: Path) -> None:
    todo = unguarded(tmp_path, range(1))
    list(campaign(todo, Here()))
    for damage in ("{}", "[", '{"format": "forewarn.episode/1", "seed": 1}'):
        todo[0].result.write_text(damage)
        with pytest.raises(InvalidInput) as caught:
            list(campaign(todo, Here()))
        assert str(caught.value).startswith(str(todo[0].result))
        assert "\n" not in str(caught.value)


def test_an_episode_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    for job in guarded(tmp_path, range(200, 206)):
        (episode,) = campaign([job], Here())
        assert read_episode(job.result) == episode


def test_a_scenario_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(ROAD.text)
    mine = load_scenario(str(path))
    todo = jobs(plan(mine), mine, range(1), tmp_path)
    path.write_text(ROAD.text.replace("max_time_s: 30", "max_time_s: 29"))
    with pytest.raises(InvalidInput, match="was changed during the run"):
        list(campaign(todo, Here()))


# -- killed and interrupted ------------------------------------------------------------


def start(out: Path, episodes: int, *more: str) -> subprocess.Popen[str]:
    command = ["collect", "tiny-road", "--episodes", str(episodes), "--out", str(out)]
    return subprocess.Popen(
        [sys.executable, "-m", "forewarn.cli", *command, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def results(out: Path) -> list[Path]:
    return sorted((out / "episodes").glob("tiny-road-*.json"))


def wait_for_results(out: Path, count: int, running: subprocess.Popen[str]) -> None:
    give_up = time.monotonic() + 180
    while len(results(out)) < count:
        assert time.monotonic() < give_up and running.poll() is None
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc to look into")
@pytest.mark.parametrize(
    ("jobs_wanted", "kind", "kept"),
    [
        ("1", "jsonl", "trace"),
        pytest.param("2", "columns", "columns", marks=pytest.mark.needs("pyarrow")),
    ],
)
def test_killed_campaign_resumes(
    tmp_path: Path, jobs_wanted: str, kind: str, kept: Kept
) -> None:
    options = ("--jobs", jobs_wanted, "--format", kind)
    killed = start(tmp_path / "a", 3_000, *options)
    try:
        wait_for_results(tmp_path / "a", 10, killed)
        below = children(killed.pid)
    finally:
        killed.kill()
        killed.communicate()
    for pid in below:
        wait_until_gone(pid)
    before = {path: path.stat().st_mtime_ns for path in results(tmp_path / "a")}
    assert len(before) >= 10
    wanted = len(before) + 5
    whole = by_seed(
        list(campaign(unguarded(tmp_path / "a", range(wanted), [kept]), Here()))
    )
    assert [episode.seed for episode in whole] == list(range(wanted))
    assert {path: path.stat().st_mtime_ns for path in before} == before
    # What was there when it was killed is whole, and what it would have been anyway.
    list(campaign(unguarded(tmp_path / "b", range(wanted), [kept]), Here()))
    other = contents(tmp_path / "b")
    found = contents(tmp_path / "a")
    assert {name: found[name] for name in other} == other


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc to look into")
def test_ctrl_c_ends_every_process_and_leaves_with_130(tmp_path: Path) -> None:
    running = start(tmp_path, 3_000, "--jobs", "2")
    try:
        wait_for_results(tmp_path, 4, running)
        below = children(running.pid)
        # As a terminal does: to every process of the group.
        os.killpg(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "forewarn: interrupted"
    assert "Traceback" not in err
    for pid in below:
        wait_until_gone(pid)
    for path in results(tmp_path):
        read_episode(path)


@pytest.mark.slow
@pytest.mark.needs("pyarrow")
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc to look into")
def test_a_worker_that_is_killed_and_ctrl_c_change_no_byte(tmp_path: Path) -> None:
    running = start(tmp_path / "a", 3_000, "--jobs", "2")
    try:
        wait_for_results(tmp_path / "a", 4, running)
        done = len(results(tmp_path / "a"))
        os.kill(max(children(running.pid)), signal.SIGKILL)
        wait_for_results(tmp_path / "a", done + 4, running)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    finally:
        running.kill()
    # What was whole is joined, and can be learned from. Of a run that was cut between
    # its trace and its result only the first is there.
    made = {run.run for run in stored_runs(files_in(tmp_path / "a"))}
    assert {path.stem for path in results(tmp_path / "a")} <= made
    wanted = range(int(max(made)[-6:]) + 3)
    for folder in ("a", "b"):
        todo = unguarded(tmp_path / folder, wanted, ["columns"])
        assert not any(each.failed for each in campaign(todo, Here()))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.needs("pyarrow")
def test_a_run_that_was_cut_between_its_trace_and_its_result_is_run_again(
    tmp_path: Path,
) -> None:
    for folder in ("a", "b"):
        whole = unguarded(tmp_path / folder, range(3), ["columns"])
        if folder == "a":
            list(campaign(whole[:2], Here()))
            whole[1].result.unlink()
        list(campaign(whole, Here()))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.needs("pyarrow")
def test_a_campaign_removes_the_half_written_files_of_the_episodes_it_repeats(
    tmp_path: Path,
) -> None:
    todo = unguarded(tmp_path, range(2), ["columns"])
    others = unguarded(tmp_path, range(2, 3), ["columns"])
    halves = [
        folder / f".{job.stem}.{ending}.x1y2z3"
        for job in (*todo, *others)
        for folder, ending in (
            (tmp_path / ".runs", "arrow"),
            (tmp_path / "episodes", "json"),
        )
    ]
    for half in halves:
        half.parent.mkdir(parents=True, exist_ok=True)
        half.touch()
    list(campaign(todo, Here()))
    # Another process may be running an episode that this campaign does not repeat.
    assert [half for half in halves if half.exists()] == halves[-2:]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc to look into")
@pytest.mark.parametrize(
    "late_s",
    [
        pytest.param(0.0, marks=pytest.mark.soak),
        0.05,
        pytest.param(0.2, marks=pytest.mark.soak),
    ],
)
def test_ctrl_c_while_its_processes_begin_is_one_line(
    late_s: float, tmp_path: Path
) -> None:
    running = start(tmp_path, 3_000, "--jobs", "2")
    try:
        give_up = time.monotonic() + 180
        while not children(running.pid):
            assert time.monotonic() < give_up and running.poll() is None
            time.sleep(0.002)
        time.sleep(late_s)
        os.killpg(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    # Where it was told in the midst of an import Python ends by the signal itself,
    # which a shell calls 130 too.
    assert running.returncode in (130, -signal.SIGINT)
    assert out == ""
    assert err.split() == ["forewarn:", "interrupted"]
