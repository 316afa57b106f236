"""Campaigns and traces in object storage, from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn import read_traces
from forewarn.abstractions import places
from forewarn.abstractions.places import files_below, place
from forewarn.cli import main
from tests.scenarios import learned

pytestmark = [pytest.mark.needs("pyarrow"), pytest.mark.needs("moto")]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """An empty bucket of a server on loopback that speaks S3."""
    from moto.server import ThreadedMotoServer
    from pyarrow.fs import FileSystem

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "some")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "body")
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        places._system.cache_clear()
        maker, _ = FileSystem.from_uri("s3://runs?allow_bucket_creation=true")
        maker.create_dir("runs")
        yield "s3://runs"
        places._system.cache_clear()
    server.stop()


def forewarn(*arguments: object, status: int = 0) -> Any:
    words = [*map(str, arguments), "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout) if status < 2 else done.stderr


@pytest.mark.slow
def test_campaign_in_a_bucket_equals_one_on_disk(bucket: str, tmp_path: Path) -> None:
    there, here = f"{bucket}/columns", tmp_path / "columns"
    ask = ("collect", "tiny-road", "--episodes")
    for out in (there, here):
        forewarn(*ask, 3, "--out", out)
        found = forewarn(*ask, 6, "--out", out)
        assert found["episodes"] == 6 and found["others"] == []
    one, two = (files_below(place(str(folder))) for folder in (there, here))
    assert [path.name for path in one] == [path.name for path in two]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert files_below(place(f"{there}/.runs")) == []

    models = []
    for traces in (there, here):
        out = tmp_path / "model.json"
        forewarn("learn", traces, "--scenario", "tiny-road", "--out", out)
        models.append(out.read_bytes())
    assert models[0] == models[1]

    law = ("--law", "always speed < 0 km/h")
    verdicts = f"{bucket}/verdicts.parquet"
    judged = forewarn("monitor", there, *law, "--out", verdicts, status=1)
    assert judged["laws"][0]["violated"] == 6
    assert place(verdicts).stat().st_size > 0

    asked = ("measure", "tiny-road", "--model", learned.model("tiny-road"))
    far, near = (
        forewarn(*asked, "--runs", traces, "--allow-training-seeds")
        for traces in (there, here)
    )
    assert far == near

    lines = f"{bucket}/lines"
    forewarn("convert", there, "--out", lines)
    assert list(read_traces(lines)) == list(read_traces(here))


@pytest.mark.slow
@pytest.mark.needs("ray")
def test_actors_on_ray_write_to_a_bucket_by_themselves(
    bucket: str, tmp_path: Path
) -> None:
    """On a cluster that the command begins and ends."""
    import ray

    there, here = f"{bucket}/ray", tmp_path / "here"
    ask = ("collect", "tiny-road", "--episodes", 4, "--out")
    forewarn(*ask, there, "--jobs", 2, "--on", "ray")
    assert not ray.is_initialized()
    forewarn(*ask, here)
    one, two = (files_below(place(str(folder))) for folder in (there, here))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert len(one) == 1


def test_missing_object_in_a_bucket_is_reported_in_one_line(
    bucket: str, tmp_path: Path
) -> None:
    law = ("--law", "always speed < 0 km/h")
    for address, said in (
        (f"{bucket}/absent", "no such file or directory"),
        (f"{bucket}/absent/a.parquet", "no such file or directory"),
        ("s3://nowhere", "no such file or directory"),
    ):
        told = forewarn("monitor", address, *law, status=2)
        assert told.startswith(f"forewarn: {address}: {said}")
        assert len(told.splitlines()) == 1
