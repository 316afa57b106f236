"""Users' functions compute, and can do nothing else."""

from __future__ import annotations

import _thread
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.values import ProgramFault
from forewarn.plugins.programs import apart
from forewarn.plugins.programs.apart import MOST_FAILURES, Cell, NotApart, uploaded
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


def test_user_functions_are_called_like_built_in_ones(cell: Cell) -> None:
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
        ("shouts", (), "the process sent an answer that is too long"),
        ("ends", (), "the process ended"),
        ("odd", (), "TypeError"),
    ],
)
def test_user_functions_cannot_reach_files_or_network(
    cell: Cell, name: str, arguments: tuple[object, ...], problem: str
) -> None:
    with pytest.raises(ProgramFault, match=problem):
        cell.call(name, *arguments)
    assert cell.call("area", 1) == pytest.approx(3.14159, abs=1e-4)


def test_no_system_call_gets_past_the_filter(cell: Cell) -> None:
    opens = {"x86_64": (2, 41, 57, 59, 257, 435), "aarch64": (56, 198, 220, 221, 435)}
    for number in opens[platform.machine()]:
        assert cell.call("calls", number) == -1


def test_a_hanging_function_is_terminated() -> None:
    cell = Cell({"mine.py": SOURCE}, call_s=0.3)
    assert cell.call("remembers", 1) == 1
    with pytest.raises(ProgramFault, match=r"did not answer within 0\.3 s"):
        cell.call("hangs")
    # In a process of its own, which remembers nothing.
    assert cell.call("remembers", 1) == 1
    cell.close()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def silent(x):\n    return x", "silent has no docstring"),
        ('def f(*x):\n    """F."""', "has parameters that programs cannot pass"),
        ("x = 1", "the file defines no function"),
        ("def f(:", "line 1: not Python: invalid syntax"),
        ("import socket", "ModuleNotFoundError"),
        ("open('/etc/passwd')", "PermissionError"),
        ("#" * 100_001, "longer than 100000 characters"),
    ],
)
def test_a_file_that_does_not_load_is_rejected_with_the_reason(
    source: str, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        uploaded({"mine.py": source})


def test_a_file_that_does_not_end_loading_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apart, "START_S", 0.2)
    with pytest.raises(
        InvalidInput, match=("the functions could not be loaded within 0\\.2 s")
    ):
        uploaded({"mine.py": "while True: pass"})


def test_user_functions_are_rejected_without_seccomp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(NotApart, match="Linux with seccomp"):
        Cell({"mine.py": SOURCE})
    assert NotApart.exit_status == 3


# -- out of step

HOSTILE = """
import sys

def early(value):
    "Answers at once, in a form of its own, and then never comes back."
    sys.modules["os"].write(1, b'{"value": false}\\n')
    while True:
        pass

def liar(value):
    "Answers for the next question too."
    sys.modules["os"].write(1, b'{"value": 0}\\n')
    return 1

def foresees(value):
    "Reads the number of its question and answers twice by it."
    frame = sys._getframe()
    while "asked" not in frame.f_locals:
        frame = frame.f_back
    number = frame.f_locals["asked"]["number"].encode()
    line = b'{"value": false, "number": "' + number + b'"}\\n'
    sys.modules["os"].write(1, line + line)
    return True

def deep(value):
    "Answers with a list that is too deep to read."
    sys.modules["os"].write(1, b'{"value": ' + b"[" * 100000 + b"]" * 100000 + b'}\\n')
    return 1

def nan(value):
    "Answers with what is no number."
    sys.modules["os"].write(1, b'{"value": NaN}\\n')
    return 1

def honest(value):
    "Gives back what it is given."
    return value

def slow(value):
    "Takes a moment."
    for _ in range(3_000_000):
        pass
    return value
"""


@pytest.mark.parametrize("name", ["early", "liar", "foresees", "deep", "nan"])
def test_an_answer_is_never_taken_for_that_of_another_question(name: str) -> None:
    cell = Cell({"mine.py": HOSTILE}, call_s=1.0)
    try:
        cell.call(name, 1)
    except ProgramFault:
        pass
    for value in ("x" * 200_000, 43, 44):
        try:
            assert cell.call("honest", value) == value
        except ProgramFault:
            continue
    assert cell.call("honest", 45) == 45
    cell.close()


def test_an_interrupted_question_leaves_no_answer_behind() -> None:
    cell = Cell({"mine.py": HOSTILE}, call_s=5.0)
    assert cell.call("slow", 1) == 1
    threading.Timer(0.02, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        for value in range(1_000):
            assert cell.call("slow", value) == value
    assert cell.call("slow", "next") == "next"
    cell.close()


def test_a_process_that_reads_nothing_is_ended_in_time() -> None:
    """What it is sent is more than a pipe holds."""
    cell = Cell({"mine.py": HOSTILE}, call_s=0.5)
    with pytest.raises(ProgramFault):
        cell.call("early", 1)
    os.kill(cell._running[-1].pid, signal.SIGSTOP) if cell._running else None
    began = time.monotonic()
    try:
        assert cell.call("honest", "x" * 200_000) == "x" * 200_000
    except ProgramFault:
        pass
    assert time.monotonic() - began < 15.0
    cell.close()


def test_functions_that_fail_again_and_again_are_not_started_again() -> None:
    cell = Cell({"mine.py": SOURCE}, call_s=0.1)
    problems = []
    for _ in range(MOST_FAILURES + 1):
        with pytest.raises(ProgramFault) as error:
            cell.call("hangs")
        problems.append(str(error.value))
    assert "failed too often and will not be called again" in problems[-1]
    assert not any("too often" in problem for problem in problems[:-1])


FORGED = [
    'b"[" * 100000 + b"]" * 100000 + b"\\n"',
    'b\'{"apart": true, "functions": 5}\\n\'',
    'b\'{"apart": true, "functions": {"f": {"about": 5, "parameters": 5,'
    ' "needed": "x", "plain": true}}}\\n\'',
    "b'{\"apart\": true}\\n'",
    'b\'{"error": "\\\\ud800"}\\n\'',
]


@pytest.mark.parametrize("line", FORGED)
@pytest.mark.parametrize("numbered", [False, True])
def test_an_answer_forged_during_loading_is_rejected(line: str, numbered: bool) -> None:
    number = """
frame = sys._getframe()
while "first" not in frame.f_locals:
    frame = frame.f_back
number = frame.f_locals["first"]["number"].encode()
line = line.replace(b"{", b'{"number": "' + number + b'", ', 1)
"""
    source = f"import sys\nline = {line}\n{number if numbered else ''}"
    source += 'sys.modules["os"].write(1, line)\n'
    with pytest.raises((InvalidInput, NotApart)) as error:
        uploaded({"mine.py": source})
    str(error.value).encode()


PARENT = """
import sys
from forewarn.plugins.programs.apart import Cell
cell = Cell({"mine.py": sys.argv[1]}, call_s=60.0)
print(cell._running[-1].pid, flush=True)
cell.call("hangs")
"""


def test_a_killed_parent_ends_its_functions() -> None:
    asking = subprocess.Popen(
        [sys.executable, "-c", PARENT, SOURCE], stdout=subprocess.PIPE, text=True
    )
    assert asking.stdout is not None
    with asking:
        watcher = int(asking.stdout.readline())
        children = Path(f"/proc/{watcher}/task/{watcher}/children")
        inner = [int(pid) for pid in children.read_text().split()]
        assert inner
        asking.kill()
    until = time.monotonic() + 10.0
    while any(_is_running(pid) for pid in (watcher, *inner)):
        assert time.monotonic() < until, "it goes on without its parent"
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
