"""The process of users' functions as seen from outside: asked, timed, ended."""

from __future__ import annotations

import json
import os
import platform
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import ForewarnError, InvalidInput
from forewarn.monitors.programs.functions import Function
from forewarn.monitors.programs.values import ProgramFault, Value
from forewarn.plugins.programs.cell import CALLS

START_S = 10.0
CALL_S = 0.5
LONGEST_ANSWER = 1_000_000
LONGEST_SOURCE = 100_000


class NotApart(ForewarnError):
    """Nothing on this system keeps users' functions from doing harm."""

    exit_status = 3


class Cell:
    """One process with the functions of some sources.

    Args:
        sources: Python, by file name.
        call_s: How long one call may take.

    Raises:
        NotApart: The system cannot keep it apart.
        InvalidInput: The sources do not load.
    """

    def __init__(self, sources: Mapping[str, str], call_s: float = CALL_S) -> None:
        if sys.platform != "linux" or platform.machine() not in CALLS:
            raise NotApart(
                "functions of your own run only where the system keeps them apart:"
                " Linux with seccomp, on x86_64 or aarch64"
            )
        self._sources, self._call_s = dict(sources), call_s
        self._turn = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []
        # Whoever forgets a cell, or leaves, leaves no process behind.
        weakref.finalize(self, _end, self._running)
        self.functions = self._start()

    def call(self, name: str, *arguments: Value) -> Value:
        """What a function gives back.

        Raises:
            ProgramFault: It failed, took too long, or gave back too much.
        """
        with self._turn:
            try:
                if not self._running:
                    self._start()
                asked = {"call": name, "arguments": arguments}
                return self._ask(asked, self._call_s, name)["value"]
            except InvalidInput as error:
                raise ProgramFault(str(error)) from error
            except (OSError, ValueError, KeyError) as error:
                self.close()
                raise ProgramFault(f"{name} failed: {error}") from error

    def close(self) -> None:
        """Ends the process; the next call starts another."""
        _end(self._running)

    def _start(self) -> Mapping[str, Any]:
        cell = Path(__file__).with_name("cell.py")
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", str(cell)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
        )
        self._running.append(process)
        try:
            begun = self._ask(self._sources, START_S, "the functions")
        except InvalidInput:
            self.close()
            raise
        except (OSError, ValueError) as error:
            self.close()
            raise NotApart(f"the process of functions did not start: {error}") from None
        if not begun.get("apart"):
            self.close()
            raise NotApart("the system does not keep functions apart")
        functions: Mapping[str, Any] = begun["functions"]
        return functions

    def _ask(self, asked: object, patience_s: float, what: str) -> dict[str, Any]:
        process = self._running[-1]
        if process.stdin is None or process.stdout is None:
            raise OSError("it has no pipes")
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        until_s = time.monotonic() + patience_s
        data = bytearray()
        while not data.endswith(b"\n"):
            left_s = until_s - time.monotonic()
            ready = left_s > 0 and select.select([process.stdout], [], [], left_s)[0]
            if not ready:
                raise OSError(f"no answer within {patience_s:g} s")
            part = os.read(process.stdout.fileno(), 1 << 16)
            if not part:
                raise OSError("its process ended")
            data += part
            if len(data) > LONGEST_ANSWER:
                raise OSError("its answer is too long")
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("its answer is none")
        if "error" in found:
            raise InvalidInput(str(found["error"]), source=what)
        return found


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    """Ends the processes there are."""
    while running:
        process = running.pop()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def uploaded(sources: Mapping[str, str]) -> tuple[Function, ...]:
    """The functions of users' sources, ready to be called by programs.

    Raises:
        NotApart: Nothing here keeps them apart.
        InvalidInput: They do not load, say nothing of themselves, or are too long.
    """
    return _functions(tuple(sorted(sources.items())))


@lru_cache(maxsize=8)
def _functions(sources: tuple[tuple[str, str], ...]) -> tuple[Function, ...]:
    for file, text in sources:
        if len(text) > LONGEST_SOURCE:
            raise InvalidInput(f"longer than {LONGEST_SOURCE} characters", source=file)
    cell = Cell(dict(sources))
    if not cell.functions:
        raise InvalidInput("no function is defined", source=sources[0][0])
    return tuple(_function(cell, name, of) for name, of in cell.functions.items())


def _function(cell: Cell, name: str, of: Mapping[str, Any]) -> Function:
    if not of["about"] or not of["plain"]:
        raise InvalidInput(
            f"the function {name} has no docstring, or takes what programs cannot give"
        )

    def call(*arguments: Value) -> Value:
        return cell.call(name, *(_sendable(each) for each in arguments))

    calling: Callable[..., Value] = call
    return Function(name, calling, tuple(of["parameters"]), of["about"], of["needed"])


def _sendable(value: Value) -> Value:
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {key: _sendable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(part) for part in value]
    return value
