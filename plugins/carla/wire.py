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
    """Checks that a program that answers is a CARLA server.

    Otherwise, CARLA's client would abort the process. A server that does not answer
    passes the check, because it may be busy, and the client waits for it.

    Raises:
        CarlaLost: The program that answers is not a CARLA server.
    """
    import msgpack

    try:
        _asked(host, port, "version", [], _ANSWER_S)
    except (socket.gaierror, UnicodeError) as error:
        problem = RuntimeError("this host cannot be found")
        mend = "give a name or an address alone, such as 127.0.0.1"
        raise CarlaLost(f"{host}:{port}", problem, mend) from error
    except OSError:
        return
    except (ValueError, msgpack.UnpackException) as error:
        problem = RuntimeError("the program that answers is not a CARLA server")
        raise CarlaLost(f"{host}:{port}", problem, "use another port") from error


def _asked(host: str, port: int, call: str, given: list[Any], limit_s: float) -> Any:
    """Calls a function of a server, and returns its error, if any, and its result.

    Raises:
        OSError: The server does not answer in time, or hangs up.
        ValueError: The answer does not come from a CARLA server.
    """
    import msgpack

    unpacker, until_s = msgpack.Unpacker(max_buffer_size=_LARGEST), time.monotonic()
    with socket.create_connection((host, port), limit_s) as link:
        link.sendall(msgpack.packb([0, 1, call, [[False], *given]]))
        while data := link.recv(65536):
            unpacker.feed(data)
            for answer in unpacker:
                if not isinstance(answer, list) or len(answer) != 4:
                    raise ValueError(f"{answer!r:.40}")
                return answer[2:]
            link.settimeout(max(until_s + limit_s - time.monotonic(), 0.001))
    raise ConnectionError("the server hung up")


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
        where = f"{LOOPBACK}:{self.port}"
        try:
            error, result = _asked(
                LOOPBACK, self.port, "forewarn_restart", [seed], _START_S
            )
        except (OSError, ValueError) as lost:
            raise CarlaLost(where, lost) from lost
        if error is not None or result[0][0]:
            raise CarlaLost(where, error or result)

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
