"""Figures of docs/guard-programs.md: the cost of a guard program.

The role table is as large as the paper's: three roles, and ten databases with eight
columns each. The program is compared with the same decision hand-written in Python.
Percentiles are of processor time.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from run import ROOT, Row, seconds

from forewarn.abstractions.errors import ForewarnError
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.programs.cases import read_cases, score
from forewarn.monitors.programs.compiling import compile_request
from forewarn.monitors.programs.file import ProgramFile
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.request import read_request
from forewarn.plugins.programs.judging import ProgramJudge, toolbox

BAR_S = 0.3e-3
CASES_BAR_S = 5.0
COMPILE_BAR_S = 0.05
HOSTILE_BAR_S = 0.05
CASES = 5_000
ROLES = ("physician", "nursing", "general administration")
EXAMPLES = ROOT / "examples" / "guard_programs"
sys.path.append(str(ROOT))

from tests.monitors.programs import hostile  # noqa: E402

Access = Mapping[str, Mapping[str, list[str]]]


def rows(quick: bool) -> Iterator[Row]:
    table = access()
    request = markdown(table)
    program = compiled(request)
    cases = list(needs(2_000 if quick else 10_000))
    mine = late(lambda case: program.run(case), cases)
    by_hand = late(lambda case: denied(table, case), cases)
    what = "a decision on access, 99th percentile"
    yield Row(what, mine, BAR_S, "hand-written, 99th percentile", by_hand)
    judge = ProgramJudge(house(), {"user": {"role": "child"}, "place": {"room": "x"}})
    frames = [
        (Frame(0.1 * i, i), Action("open", {"object": "Safe"})) for i in range(2000)
    ]
    yield Row(
        "a decision on house rules, 99th percentile",
        late(lambda each: judge.judge(*each), frames),
        BAR_S,
    )
    yield Row("ending the slowest of the hostile programs", slowest(), HOSTILE_BAR_S)
    yield Row(f"reading and scoring {CASES} access cases", scored(program), CASES_BAR_S)
    yield Row(
        "compiling a request in tables",
        seconds(lambda: compiled(request)),
        COMPILE_BAR_S,
    )


def access() -> Access:
    """Returns an access table in which each role may read two thirds of the databases,
    and most of their columns.
    """
    luck = random.Random(15)
    return {
        role: {
            f"database{d}": [f"column{d}{c}" for c in range(8) if luck.random() < 0.8]
            for d in range(10)
            if luck.random() < 0.7
        }
        for role in ROLES
    }


def markdown(table: Access) -> str:
    lines = ["# Access", "", "| role | database | columns |", "|---|---|---|"]
    for role, row in table.items():
        for database, columns in row.items():
            lines.append(f"| {role} | {database} | {', '.join(columns)} |")
    return "\n".join(lines)


def compiled(request: str) -> Program:
    return Program(compile_request(read_request(request, "request"), "x"), toolbox())


def house() -> ProgramFile:
    request = read_request((EXAMPLES / "household.md").read_text(), "household.md")
    text = compile_request(request, "household.md")
    return ProgramFile(
        name="house",
        request=request.text,
        specification="a robot",
        made_by="rules",
        program=text,
    )


def needs(count: int) -> Iterator[dict[str, Any]]:
    """Yields requests for three columns of each of two databases."""
    luck = random.Random(16)
    for _ in range(count):
        needed = {
            f"database{d}": [f"column{d}{c}" for c in luck.sample(range(8), 3)]
            for d in luck.sample(range(10), 2)
        }
        yield {"user": {"role": luck.choice(ROLES)}, "needed": needed}


def denied(table: Access, case: Mapping[str, Any]) -> dict[str, list[str]]:
    """Makes the same decision as the program, hand-written for these names."""
    may = table[case["user"]["role"]]
    missing = {}
    for database, columns in case["needed"].items():
        granted = may.get(database)
        lacking = [c for c in columns if granted is None or c not in granted]
        if lacking or granted is None:
            missing[database] = lacking
    return missing


def late(call: Callable[[Any], object], given: list[Any]) -> float:
    """Returns the 99th percentile of a call's processor time.

    On a busy machine the scheduler interrupts about one in a hundred calls of this
    length, which would distort wall-clock times.
    """
    times = [timed(call, each) for each in given]
    return sorted(times)[len(times) * 99 // 100]


def slowest() -> float:
    """Returns the time of the slowest program in the corpus of hostile programs."""
    tools = toolbox()
    big = list(range(5_000))
    frame = {"big": big, "text": "a" * 150_000, "other": "a" * 149_999 + "b"}

    def ended(text: str) -> None:
        with suppress(ForewarnError):
            Program(text, tools).run({"user": {}, "log": "log", "frame": frame})

    return max(min(timed(ended, text) for _ in range(3)) for text in hostile.CORPUS)


def timed(call: Callable[[Any], object], given: Any) -> float:
    began_s = time.thread_time()
    call(given)
    return time.thread_time() - began_s


def scored(program: Program) -> float:
    """Returns the time from reading a file of cases to the figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.jsonl"
        with path.open("w", encoding="utf-8") as out:
            for number, case in enumerate(needs(CASES)):
                line = {
                    "id": str(number),
                    "identity": case["user"]["role"],
                    "required": case["needed"],
                    "label": number % 2,
                }
                out.write(json.dumps(line) + "\n")
        began_s = time.perf_counter()
        score(read_cases(path, "access"), lambda case: program.run(case.inputs))
        return time.perf_counter() - began_s
