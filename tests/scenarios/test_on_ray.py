"""Campaigns on Ray: two nodes, one of them lost in the middle, and the same bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions.errors import MissingDependency
from forewarn.abstractions.readers.stored import Stored, files_in, stored_runs
from forewarn.cli import main
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.scenarios.measuring.verdicts import judged
from forewarn.scenarios.running.campaign import Job, campaign, jobs
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.on_ray import OBJECT_STORE_BYTES, OnRay
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import SHARE, CannotRun, Here, Lost
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.training.learner import Learner
from forewarn.scenarios.training.wish import Wish

ray = pytest.importorskip("ray", reason="ray is not installed: extra ray")

EPISODES = 8


def todo(folder: Path) -> list[Job]:
    scenario = load_scenario("tiny-road")
    return jobs(plan(scenario), scenario, range(EPISODES), folder, ["trace"])


def traces(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files_in(folder)}


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


class Losing(OnRay):
    """Loses a node once something is done."""

    def __init__(self, cluster: Any) -> None:
        super().__init__("ray", 2)
        self._cluster = cluster
        self._node = cluster.add_node(
            num_cpus=1, object_store_memory=OBJECT_STORE_BYTES
        )

    def map(self, work: Any, jobs: Any) -> Iterator[Any]:
        for i, done in enumerate(super().map(work, jobs)):
            if i == 0:
                self._cluster.remove_node(self._node, allow_graceful=False)
            yield done


@pytest.mark.soak
def test_runs_are_judged_by_two_nodes_of_which_one_is_lost(
    cluster: Any, tmp_path: Path
) -> None:
    stored = [*many(tmp_path)]
    laws = find_laws("always speed <= 35", vocabulary=stored[0].kept(()).vocabulary)
    alone = judged(stored, laws, None, Here(), tmp_path / "here.parquet")
    found = judged(stored, laws, None, Losing(cluster), tmp_path / "ray.parquet")
    assert found == alone
    here, theirs = (tmp_path / f"{name}.parquet" for name in ("here", "ray"))
    assert here.read_bytes() == theirs.read_bytes()


@pytest.mark.soak
def test_runs_are_counted_by_two_nodes_of_which_one_is_lost(
    cluster: Any, tmp_path: Path
) -> None:
    stored = [*many(tmp_path)]
    wish = Wish(scenario="tiny-road")
    alone, found = (Learner(wish, None, "", stored[0].path) for _ in range(2))
    assert list(alone.add(stored)) == list(found.add(stored, Losing(cluster)))
    kept = [json.dumps(model_as_dict(each.model())) for each in (alone, found)]
    assert kept[0] == kept[1]
    assert found.training.sequences() == alone.training.sequences()


def many(folder: Path) -> Iterator[Stored]:
    """So many runs that they are more than two jobs."""
    list(campaign(todo(folder / "runs"), Here()))
    stored = stored_runs(sorted((folder / "runs").glob("*.jsonl.gz")))
    for _ in range(2 * SHARE // len(stored) + 1):
        yield from stored


def test_invalid_cluster_address_is_rejected(tmp_path: Path) -> None:
    options = ["collect", "tiny-road", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, [*options, "--on", "spark"])
    assert done.exit_code == 2 and "neither ray nor ray://HOST:PORT" in done.stderr
