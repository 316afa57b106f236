"""A stand-in server in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.standins.carla.clients import Serve, Standin


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts servers; they end with the tests of the module.

    Clients keep files of a server's in their home, so it is another one.
    """
    pytest.importorskip("carla", reason="carla has wheels for Python 3.10 to 3.12 only")
    pytest.importorskip("msgpack")
    running: list[subprocess.Popen[str]] = []

    def start(*options: str) -> Standin:
        process = subprocess.Popen(
            [sys.executable, "-m", "forewarn.cli", "carla", "serve", "--port", "0",
             "--json", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        port = int(json.loads(line)["listening"].rpartition(":")[2])
        return Standin(port, process)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield start
    for process in running:
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
