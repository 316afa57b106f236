"""Campaigns on Ray: two nodes, one of them lost in the middle, and the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions.errors import MissingDependency
from forewarn.abstractions.readers.stored import files_in, stored_runs
from forewarn.cli import main
from forewarn.cli.watching.dataset import SHARE, judged
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.scenarios.running.campaign import Job, campaign, jobs
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools.local import CannotRun, Here, Lost
from forewarn.scenarios.running.pools.on_ray import OBJECT_STORE_BYTES, OnRay
from forewarn.scenarios.schema import load_scenario

ray = pytest.importorskip("ray", reason="ray is not installed: extra ray")

EPISODES = 8


def todo(folder: Path) -> list[Job]:
    scenario = load_scenario("tiny-road")
    return jobs(plan(scenario), scenario, range(EPISODES), folder, ["trace"])


def traces(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files_in(folder)}


@pytest.mark.slow
def test_a_cluster_is_begun_and_ended_with_the_command(tmp_path: Path) -> None:
    options = ["collect", "tiny-road", "--episodes", "3", "--jobs", "2", "--json"]
    for out, on in (("here", []), ("ray", ["--on", "ray"])):
        done = CliRunner().invoke(main, [*options, *on, "--out", str(tmp_path / out)])
        assert done.exit_code == 0, done.output
    assert traces(tmp_path / "ray") == traces(tmp_path / "here")
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one processor each, on this machine, and the driver beside them."""
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": OBJECT_STORE_BYTES}
    cluster = Cluster(
        initialize_head=True, head_node_args={**node, "include_dashboard": False}
    )
    try:
        cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.slow
def test_a_node_that_is_lost_changes_no_byte(cluster: Any, tmp_path: Path) -> None:
    alone = list(campaign(todo(tmp_path / "here"), Here()))
    running = campaign(todo(tmp_path / "ray"), OnRay("ray", 2))
    found: list[Episode] = [next(running)]
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    found += running
    assert {each.seed for each in found} == {each.seed for each in alone}
    assert not any(each.failed for each in found)
    assert traces(tmp_path / "ray") == traces(tmp_path / "here")
    assert len(traces(tmp_path / "here")) == EPISODES


@pytest.mark.slow
def test_processes_that_die_and_jobs_that_cannot_be_done(
    cluster: Any, tmp_path: Path
) -> None:
    def fragile(job: Path) -> str:
        """A simulator that crashes the first time, or always, or is not there."""
        if job.name == "impossible":
            raise MissingDependency("the world sumo", "sumo")
        if job.name == "hopeless" or not job.exists():
            job.touch()
            os._exit(1)
        return job.name

    shaky, hopeless = tmp_path / "shaky", tmp_path / "hopeless"
    done = dict(OnRay("ray", 1).map(fragile, [shaky, hopeless]))
    assert done[shaky] == "shaky"
    assert isinstance(done[hopeless], Lost)
    with pytest.raises(CannotRun, match="sumo") as error:
        list(OnRay("ray", 1).map(fragile, [tmp_path / "impossible"]))
    assert error.value.exit_status == 3


@pytest.mark.slow
def test_runs_are_judged_by_two_nodes_of_which_one_is_lost(
    cluster: Any, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    list(campaign(todo(runs), Here()))
    stored = stored_runs(sorted(runs.glob("*.jsonl.gz")))
    laws = find_laws("always speed <= 35", vocabulary=stored[0].kept(()).vocabulary)
    shares = [*stored] * (2 * SHARE // len(stored) + 1)
    node = cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE_BYTES)

    class Losing(OnRay):
        """Loses a node once something is done."""

        def map(self, work: Any, jobs: Any) -> Iterator[Any]:
            for i, done in enumerate(super().map(work, jobs)):
                if i == 0:
                    cluster.remove_node(node, allow_graceful=False)
                yield done

    alone = judged(shares, laws, None, Here(), tmp_path / "here.parquet")
    found = judged(shares, laws, None, Losing("ray", 2), tmp_path / "ray.parquet")
    assert found == alone
    here, theirs = (tmp_path / f"{name}.parquet" for name in ("here", "ray"))
    assert here.read_bytes() == theirs.read_bytes()


def test_what_is_no_cluster_is_bad_input(tmp_path: Path) -> None:
    options = ["collect", "tiny-road", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, [*options, "--on", "spark"])
    assert done.exit_code == 2 and "neither ray nor ray://HOST:PORT" in done.stderr
