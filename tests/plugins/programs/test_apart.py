"""Users' functions compute, and can do nothing else."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.values import ProgramFault
from forewarn.plugins.programs.apart import Cell, NotApart, uploaded
from forewarn.plugins.programs.cell import CALLS
from forewarn.plugins.programs.judging import toolbox

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in CALLS,
    reason="needs Linux with seccomp",
)

SOURCE = '''
import math

SEEN = []

def area(radius):
    """The area of a circle."""
    return math.pi * radius * radius

def remembers(value):
    """How many calls there were."""
    SEEN.append(value)
    return len(SEEN)

def reads(path):
    """Reads a file."""
    return open(path).read()

def writes(path):
    """Writes a file."""
    with open(path, "w") as out:
        out.write("x")

def forks():
    """Starts a process."""
    import os
    return os.fork()

def runs():
    """Starts another program."""
    import os
    os.execv("/bin/sh", ["sh", "-c", "true"])

def kills():
    """Ends another process."""
    import os
    os.kill(os.getppid(), 9)

def connects():
    """Opens a socket by the system's own door."""
    import _socket
    return _socket.socket()

def calls(number):
    """Makes any system call, past Python."""
    import ctypes
    return ctypes.CDLL(None, use_errno=True).syscall(number, 2, 1, 0)

def hoards():
    """Takes a gigabyte."""
    return len(bytearray(10**9))

def hangs():
    """Never comes back."""
    while True:
        pass

def shouts():
    """Gives back too much."""
    return "x" * 3_000_000

def ends():
    """Ends its process."""
    import os
    os._exit(3)

def odd():
    """Gives back what is no value."""
    return {1, 2}

def fails():
    """Fails."""
    raise RuntimeError("no")
'''


@pytest.fixture(scope="module")
def cell() -> Iterator[Cell]:
    made = Cell({"mine.py": SOURCE}, call_s=1.0)
    yield made
    made.close()


def test_what_users_write_is_called_like_any_function(cell: Cell) -> None:
    assert cell.call("area", 2.0) == pytest.approx(12.566370614)
    tools = toolbox({"mine.py": SOURCE})
    assert "area(radius): The area of a circle." in tools.described()
    program = Program('if Count([1]) == 1 and area(2) > 12:\n    deny("large")', tools)
    outcome = program.run({})
    assert outcome.answer == "deny" and program.uses == ("Count", "area")
    failing = Program("x = fails()", tools).run({})
    assert failing.answer == "deny" and "RuntimeError: no" in failing.fault


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("reads", ("/etc/passwd",), "PermissionError"),
        ("writes", ("forewarn-was-here",), "PermissionError"),
        ("forks", (), "PermissionError"),
        ("runs", (), "PermissionError"),
        ("kills", (), "PermissionError"),
        ("connects", (), "ModuleNotFoundError"),
        ("hoards", (), "MemoryError"),
        ("shouts", (), "its answer is too long"),
        ("ends", (), "its process ended"),
        ("odd", (), "TypeError"),
    ],
)
def test_they_can_do_nothing_but_compute(
    cell: Cell, name: str, arguments: tuple[object, ...], problem: str
) -> None:
    with pytest.raises(ProgramFault, match=problem):
        cell.call(name, *arguments)
    assert cell.call("area", 1) == pytest.approx(3.14159, abs=1e-4)


def test_no_system_call_gets_past_the_filter(cell: Cell) -> None:
    opens = {"x86_64": (2, 41, 57, 59, 257, 435), "aarch64": (56, 198, 220, 221, 435)}
    for number in opens[platform.machine()]:
        assert cell.call("calls", number) == -1


def test_one_that_hangs_is_ended_and_the_next_call_is_served() -> None:
    cell = Cell({"mine.py": SOURCE}, call_s=0.3)
    assert cell.call("remembers", 1) == 1
    with pytest.raises(ProgramFault, match=r"no answer within 0\.3 s"):
        cell.call("hangs")
    # In a process of its own, which remembers nothing.
    assert cell.call("remembers", 1) == 1
    cell.close()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def silent(x):\n    return x", "silent has no docstring"),
        ('def f(*x):\n    """F."""', "takes what programs cannot give"),
        ("x = 1", "no function is defined"),
        ("def f(:", "SyntaxError"),
        ("import socket", "ModuleNotFoundError"),
        ("open('/etc/passwd')", "PermissionError"),
        ("#" * 100_001, "longer than 100000 characters"),
    ],
)
def test_what_does_not_load_says_why(source: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        uploaded({"mine.py": source})


def test_where_nothing_keeps_them_apart_they_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(NotApart, match="Linux with seccomp"):
        Cell({"mine.py": SOURCE})
    assert NotApart.exit_status == 3
