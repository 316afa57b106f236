"""Connects to CARLA servers, and starts stand-in servers."""

from __future__ import annotations

import atexit
import json
import multiprocessing.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from forewarn.abstractions.errors import Unreachable
from forewarn.plugins.carla.support import carla_module, check_versions

LOOPBACK = "127.0.0.1"
PORT = 2000
_ANSWER_S = 2.0
_START_S = 30.0
_EXIT_S = 5.0
_LARGEST = 1 << 20


class CarlaLost(Unreachable):
    """The CARLA server does not answer."""

    def __init__(self, where: str, problem: object, mend: str = "") -> None:
        told = " ".join(str(problem).split())
        hint = f" ({mend})" if mend else ""
        super().__init__(
            f"the CARLA server at {where} does not answer: {told:.200}{hint}"
        )


def connect(host: str = LOOPBACK, port: int = PORT, timeout_s: float = 10.0) -> Any:
    """Returns a client of a server that has the same version.

    Raises:
        CarlaLost: The server does not answer.
        VersionMismatch: The client and the server have different versions.
    """
    carla = carla_module()
    _check_speech(host, port)
    client = carla.Client(host, port)
    client.set_timeout(timeout_s)
    try:
        check_versions(client)
    except RuntimeError as error:
        mend = f"start the server, or run forewarn carla serve --port {port}"
        raise CarlaLost(f"{host}:{port}", error, mend) from error
    return client


def _check_speech(host: str, port: int) -> None:
    """Checks that a CARLA server answers, because CARLA's client otherwise aborts the
    process.

    A server that does not answer passes, because it may be busy, and the client waits
    for it.

    Raises:
        CarlaLost: The program that answers is not a CARLA server.
    """
    import msgpack

    unpacker, until_s = msgpack.Unpacker(), time.monotonic() + _ANSWER_S
    try:
        with socket.create_connection((host, port), _ANSWER_S) as line:
            line.sendall(msgpack.packb([0, 0, "version", [[False]]]))
            while data := line.recv(4096):
                unpacker.feed(data)
                for answer in unpacker:
                    if isinstance(answer, list) and len(answer) == 4:
                        return
                    raise ValueError(f"{answer!r:.40}")
                line.settimeout(max(until_s - time.monotonic(), 0.001))
    except OSError:
        return
    except (ValueError, msgpack.UnpackException) as error:
        problem = RuntimeError("the program that answers is not a CARLA server")
        raise CarlaLost(f"{host}:{port}", problem, "use another port") from error


@contextmanager
def answering(host: str, port: int) -> Iterator[None]:
    """Converts errors of calls to the server to errors that name the server."""
    try:
        yield
    except RuntimeError as error:
        raise CarlaLost(f"{host}:{port}", error) from error


@contextmanager
def kept_settings(world: Any) -> Iterator[Any]:
    """Restores the settings of a world at the end of the block, even after an error.

    Yields:
        A copy of the settings, which the caller can change and apply.
    """
    before = world.get_settings()
    try:
        yield world.get_settings()
    finally:
        world.apply_settings(before)


class StandIn:
    """A stand-in server in a child process, which ends with the current process.

    Args:
        arguments: The arguments of `forewarn carla serve` except the port.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        command = [
            sys.executable, "-m", "forewarn.cli", "carla", "serve", "--port", "0",
            "--until-eof", "--json", *arguments,
        ]  # fmt: skip
        self._process = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.PIPE, stdin=subprocess.PIPE
        )
        atexit.register(self.stop)
        # Worker processes do not run atexit handlers.
        multiprocessing.util.Finalize(self, _stop, (self._process,), exitpriority=1)
        assert self._process.stdout is not None  # noqa: S101
        told = self._process.stdout.readline(_LARGEST)
        try:
            self.port = int(json.loads(told)["listening"].rpartition(":")[2])
        except (ValueError, KeyError) as error:
            self.stop()
            raise CarlaLost(LOOPBACK, "the stand-in server did not start") from error

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def restart(self, seed: int) -> None:
        """Starts another episode of the same scenario."""
        import msgpack

        request = msgpack.packb([0, 1, "forewarn_restart", [[False], seed]])
        unpacker = msgpack.Unpacker(max_buffer_size=_LARGEST)
        with socket.create_connection((LOOPBACK, self.port), _START_S) as link:
            link.sendall(request)
            while True:
                data = link.recv(65536)
                if not data:
                    raise CarlaLost(f"{LOOPBACK}:{self.port}", "it hung up")
                unpacker.feed(data)
                for _, _, error, result in unpacker:
                    if error is not None or result[0][0]:
                        raise CarlaLost(f"{LOOPBACK}:{self.port}", error or result)
                    return

    def stop(self) -> None:
        """Stops the server; may be called twice."""
        atexit.unregister(self.stop)
        _stop(self._process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
