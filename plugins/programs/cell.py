"""The sandboxed process in which users' functions run; it can only compute.

This file is run by path, without site packages or environment, and imports none of our
code. The process first sets limits on time, memory and files. It then installs a filter
that allows only the system calls for memory, clocks and its own pipes. Only then does
it read the users' sources.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import datetime
import decimal
import fractions
import functools
import importlib.abc
import inspect
import io
import itertools
import json
import math
import os
import platform
import re
import resource
import select
import signal
import statistics
import string
import sys
import tempfile
import types
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

# The modules that users' functions may import. They are loaded in advance, because the
# filter forbids reading files.
LIBRARIES = (
    collections, datetime, decimal, fractions, functools, itertools, json, math, re,
    statistics, string, tempfile, unicodedata,
)  # fmt: skip

MEMORY_BYTES = 256 * 1024 * 1024
CPU_S = 600
LONGEST_LINE = 4_000_000

_X86 = "x86_64"
# The number of the architecture, and those of the allowed system calls: read, write,
# close, fstat, lseek, mmap, mprotect, munmap, brk, rt_sigaction, rt_sigprocmask,
# rt_sigreturn, madvise, mremap, getpid, exit, exit_group, futex, clock_gettime,
# getrandom, sched_yield, sigaltstack, gettimeofday, clock_nanosleep.
CALLS = {
    _X86: (
        0xC000003E,
        (0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 28, 25, 39, 60, 231, 202, 228, 318,
         24, 131, 96, 230),
    ),
    "aarch64": (
        0xC00000B7,
        (63, 64, 57, 80, 62, 222, 226, 215, 214, 134, 135, 139, 233, 216, 172, 93, 94,
         98, 113, 278, 124, 132, 169, 115),
    ),
}  # fmt: skip

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_X32 = 0x40000000
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_SET_DEATH_SIGNAL = 1


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16),
        ("if_so", ctypes.c_uint8),
        ("if_not", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    ]


class _Filter(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_uint16),
        ("instructions", ctypes.POINTER(_Instruction)),
    ]


def limit() -> None:
    """Limits the resources of this process permanently."""
    for what, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 3),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(what, (most, most))


def close_off() -> None:
    """Installs the filter, so that system calls not needed for computing fail."""
    architecture, allowed = CALLS[platform.machine()]
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
    ]
    for call in allowed:
        program += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _ALLOW)]
    program.append((_RETURN, 0, 0, _REFUSE))
    listed = (_Instruction * len(program))(*(_Instruction(*each) for each in program))
    filter_ = _Filter(len(program), listed)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0 or (
        library.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(filter_)) != 0
    ):
        problem = "the operating system cannot filter system calls"
        raise OSError(ctypes.get_errno(), problem)


def closed_off() -> bool:
    """Whether the process can neither read a file nor start another process."""
    try:
        os.close(os.open("/", os.O_RDONLY))
        return False
    except OSError:
        pass
    try:
        child = os.fork()
    except OSError:
        return True
    if child == 0:
        os._exit(1)
    return False


class _Written(importlib.abc.InspectLoader):
    """Loads a module whose source was received through the pipe."""

    def __init__(self, source: str) -> None:
        self._source = source

    def get_source(self, fullname: str) -> str:
        return self._source


def functions_of(sources: Mapping[str, str]) -> dict[str, types.FunctionType]:
    """Returns the public functions that the sources define, by name."""
    found: dict[str, types.FunctionType] = {}
    for file, source in sources.items():
        loader = _Written(source)
        name = re.sub(r"\W", "_", file)
        module = types.ModuleType(name)
        loader.exec_module(module)
        for each, value in vars(module).items():
            ours = isinstance(value, types.FunctionType) and (
                value.__module__ == module.__name__
            )
            if not ours or each.startswith("_"):
                continue
            if each in found:
                raise ValueError(f"two functions have the name {each}")
            found[each] = value
    return found


def described(function: types.FunctionType) -> dict[str, Any]:
    """Returns the description that a program needs in order to call a function."""
    parameters = inspect.signature(function).parameters.values()
    return {
        "about": " ".join((inspect.getdoc(function) or "").split()),
        "parameters": [p.name for p in parameters],
        "needed": sum(p.default is p.empty for p in parameters),
        "plain": all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters),
    }


def answer(number: str, ask: Callable[[], Mapping[str, object]]) -> None:
    """Writes exactly one response to a request, whatever goes wrong."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            text = json.dumps({**ask(), "number": number}, allow_nan=False)
    except BaseException as error:
        problem = f"{type(error).__name__}: {error}"[:300]
        text = json.dumps({"error": problem, "number": number})
    data = text.encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def end_with_parent() -> None:
    """Continues in a child process that ends when the parent of this process ends, even
    if the parent is killed.

    This process only waits until the pipe for requests is closed or the child ends, and
    then exits. When this process exits, the operating system kills the child.
    """
    watcher = os.getpid()
    child = os.fork()
    if child == 0:
        library = ctypes.CDLL(None, use_errno=True)
        if library.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0) != 0:
            os._exit(1)
        if os.getppid() != watcher:
            os._exit(1)
        return
    os.close(1)
    waiting = select.poll()
    waiting.register(0, 0)  # a closed pipe is reported even without a requested event
    waiting.register(os.pidfd_open(child), select.POLLIN)
    waiting.poll()
    os._exit(0)


def main() -> None:
    """Reads the sources, then answers calls until the pipe is closed."""
    end_with_parent()
    lines = iter(lambda: sys.stdin.buffer.readline(LONGEST_LINE), b"")
    first = json.loads(next(lines))
    found: dict[str, types.FunctionType] = {}

    def begin() -> Mapping[str, object]:
        limit()
        close_off()
        if not closed_off():
            return {"apart": False}
        found.update(functions_of(first["sources"]))
        return {
            "apart": True,
            "functions": {name: described(each) for name, each in found.items()},
        }

    answer(first["number"], begin)
    for line in lines:
        asked = json.loads(line)
        answer(
            asked["number"],
            lambda: {"value": found[asked["call"]](*asked["arguments"])},  # noqa: B023
        )


if __name__ == "__main__":
    main()
