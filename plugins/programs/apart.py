"""Controls the isolated process of users' functions: calls, time limits, shutdown."""

from __future__ import annotations

import ast
import json
import os
import platform
import secrets
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from forewarn.abstractions.errors import ForewarnError, InvalidInput, clean
from forewarn.monitors.programs.functions import Function
from forewarn.monitors.programs.values import ProgramFault, Value
from forewarn.plugins.programs.cell import CALLS

START_S = 3.0
CALL_S = 0.5
END_S = 5.0
MOST_FAILURES = 5
"""The number of consecutive failures after which a cell is not restarted."""

LONGEST_ANSWER = 1_000_000
LONGEST_SOURCE = 100_000


class NotApart(ForewarnError):
    """This system cannot isolate users' functions."""

    exit_status = 3


@dataclass(frozen=True, slots=True)
class _Described:
    """The description of a function, as sent by its process."""

    about: str
    parameters: tuple[str, ...]
    needed: int
    plain: bool


_FUNCTIONS = TypeAdapter(dict[str, _Described])


class Cell:
    """A process with the functions of Python sources, by file name."""

    def __init__(self, sources: Mapping[str, str], call_s: float = CALL_S) -> None:
        if sys.platform != "linux" or platform.machine() not in CALLS:
            raise NotApart(
                "your own functions run only on a system that can isolate "
                "them: Linux with seccomp, on x86_64 or aarch64"
            )
        self._sources, self._call_s = dict(sources), call_s
        self._turn = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []
        self._failures = 0
        # The process ends with its cell, even if `close` is never called.
        weakref.finalize(self, _end, self._running)
        self.functions = self._start()

    def call(self, name: str, *arguments: Value) -> Value:
        """Returns the result of a function.

        Raises:
            ProgramFault: The function fails, takes too long, or returns too much.
        """
        with self._turn:
            if self._failures >= MOST_FAILURES:
                raise ProgramFault(
                    f"{name} failed too often and will not be called again"
                )
            try:
                if not self._running:
                    self._start()
                answer = self._ask({"call": name, "arguments": arguments}, self._call_s)
                value = answer.get("value")
            except (OSError, InvalidInput, NotApart) as error:
                self._failures += 1
                raise ProgramFault(f"{name} failed: {error}") from error
            self._failures = 0
        if "error" in answer:
            raise ProgramFault(f"{name}: {_line(answer['error'])}")
        return value

    def close(self) -> None:
        """Ends the process; the next call starts a new one."""
        _end(self._running)

    def _start(self) -> Mapping[str, _Described]:
        cell = Path(__file__).with_name("cell.py")
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", str(cell)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={},
            cwd="/",
            start_new_session=True,  # so that Ctrl-C does not reach it
        )
        self._running.append(process)
        try:
            begun = self._ask({"sources": self._sources}, START_S)
        except TimeoutError:
            problem = f"the functions could not be loaded within {START_S:g} s"
            raise InvalidInput(problem, source="the functions") from None
        except OSError as error:
            raise NotApart(
                f"the process for your functions could not be started: {error}"
            ) from None
        if "error" in begun:
            self.close()
            problem = _line(begun["error"])
            raise InvalidInput(problem, source="the functions")
        if begun.get("apart") is not True:
            self.close()
            raise NotApart("this operating system cannot isolate functions")
        try:
            return _FUNCTIONS.validate_python(begun.get("functions"))
        except ValidationError:
            self.close()
            raise InvalidInput(
                "the process sent an invalid description of the functions",
                source="the functions",
            ) from None

    def _ask(self, asked: Mapping[str, Any], patience_s: float) -> dict[str, Any]:
        """Sends a request and returns its response; ends a process that is out of sync.

        Each request has an unguessable number, which the response repeats, so that a
        response is never taken for that of another request.
        """
        number = secrets.token_hex(8)
        until_s = time.monotonic() + patience_s
        process = self._running[-1]
        try:
            text = json.dumps({"number": number, **asked}, default=dict)
            self._send(process, text, until_s)
            line = self._receive(process, until_s)
            try:
                found = json.loads(line, parse_constant=_no_number)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict) or found.get("number") != number:
                raise OSError("the process answered a different request")
        except TimeoutError:
            self.close()
            problem = f"the process did not answer within {patience_s:g} s"
            raise TimeoutError(problem) from None
        except BaseException:  # even an interrupt leaves the response pending
            self.close()
            raise
        return found

    def _send(
        self, process: subprocess.Popen[bytes], text: str, until_s: float
    ) -> None:
        if process.stdin is None:
            raise OSError("the process has no pipes")
        pipe = process.stdin.fileno()
        os.set_blocking(pipe, False)
        data = memoryview(text.encode() + b"\n")
        while data:
            _, ready, _ = select.select([], [pipe], [], _left(until_s))
            if not ready:
                raise TimeoutError
            with suppress(BlockingIOError):
                data = data[os.write(pipe, data) :]

    def _receive(self, process: subprocess.Popen[bytes], until_s: float) -> bytes:
        """Reads exactly one line; nothing may follow it."""
        if process.stdout is None:
            raise OSError("the process has no pipes")
        pipe = process.stdout.fileno()
        data = bytearray()
        while b"\n" not in data:
            if not select.select([pipe], [], [], _left(until_s))[0]:
                raise TimeoutError
            part = os.read(pipe, 1 << 16)
            if not part:
                raise OSError("the process ended")
            data += part
            if len(data) > LONGEST_ANSWER:
                raise OSError("the process sent an answer that is too long")
        if not data.endswith(b"\n") or data.count(b"\n") > 1:
            raise OSError("the process sent more than one answer to a request")
        return bytes(data)


def _line(text: object) -> str:
    """Converts error output to a single line for messages."""
    return clean(str(text).encode("utf-8", "replace").decode())


def _left(until_s: float) -> float:
    return max(0.0, until_s - time.monotonic())


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    while running:
        process = running.pop()
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def uploaded(sources: Mapping[str, str]) -> tuple[Function, ...]:
    """Returns the functions of users' sources, for programs to call."""
    cell = cell_of(sources)
    return tuple(_function(cell, name, of) for name, of in cell.functions.items())


def cell_of(sources: Mapping[str, str]) -> Cell:
    """Returns the process for users' sources; equal sources share a process."""
    return _cell(tuple(sorted(sources.items())))


@lru_cache(maxsize=8)
def _cell(sources: tuple[tuple[str, str], ...]) -> Cell:
    for file, text in sources:
        if len(text) > LONGEST_SOURCE:
            raise InvalidInput(f"longer than {LONGEST_SOURCE} characters", source=file)
        try:
            ast.parse(text)
        except (SyntaxError, ValueError) as error:
            place = f"line {getattr(error, 'lineno', 1)}"
            problem = f"not Python: {getattr(error, 'msg', error)}"
            raise InvalidInput(
                problem,
                source=file,
                place=place,
                mend="correct it, or give a Python file",
            ) from None
    cell = Cell(dict(sources))
    if not cell.functions:
        raise InvalidInput("the file defines no function", source=sources[0][0])
    return cell


def _function(cell: Cell, name: str, of: _Described) -> Function:
    if not of.about or not of.plain:
        raise InvalidInput(
            f"the function {name} has no docstring, or "
            "has parameters that programs cannot pass"
        )

    call = partial(cell.call, name)
    return Function(name, call, of.parameters, _line(of.about), of.needed)
