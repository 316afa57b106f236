"""No program gets out, hangs or fills the memory: a corpus, and programs made up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.programs.functions import ACTIONS, STANDARD, Toolbox
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.running import MOST_STEPS
from tests.monitors.programs import hostile

TOOLS = Toolbox([*STANDARD, *ACTIONS])
HERE = Path(__file__).parent

# Started by itself: what the parser takes of memory must not hide behind the tests'.
MEASURED = """
import ast, json, resource, sys, time
sys.path.insert(0, sys.argv[1])
import hostile
from forewarn.abstractions.errors import ForewarnError
from forewarn.monitors.programs.functions import ACTIONS
from forewarn.monitors.programs.functions import STANDARD
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.functions import Toolbox

TOOLS = Toolbox([*STANDARD, *ACTIONS])

class Evil(dict):
    def __getitem__(self, key): raise KeyboardInterrupt("reached")
    def __contains__(self, key): raise RuntimeError("reached")
    def __iter__(self): raise RuntimeError("reached")

deep = []
for _ in range(5000): deep = [deep]
big = list(range(5000))
FRAME = {"big": big, "text": "a" * 150_000, "other": "a" * 149_999 + "b",
         "words": "a b " * 40_000,
         "table": {"a": [f"c{i}" for i in range(2000)]},
         "spelt": {" " * i + "a": ["x"] for i in range(1, 2000)},
         "rules": {f"r{i}": {"info": "b", "operator": "==", "value": 1}
                   for i in range(2000)},
         "uses": {"r": {"m": [f"t{i}" for i in range(2000)]}},
         "acts": {"name": "use",
                  "arguments": {"objects": [f"o{i}" for i in range(2000)]}},
         "deep": deep, "odd": object(), "nan": float("nan"), "evil": Evil()}
reached = []
# The parser looks for the line of a syntax error in a file of that name.
sys.addaudithook(lambda event, args: reached.append(event) if watching and event in
    ("open", "os.system", "subprocess.Popen", "socket.connect", "exec", "import",
     "os.remove", "ctypes.dlopen") and args[0] not in
    ("<unknown>", "unicodedata") else None)
watching = False
Program('if Asks(request, "book", "flight"):\\n    pass', TOOLS).run({"request": "x"})
floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = []
large = "x = [" + "[1]," * 1_900 + "]"

def took(call):
    began = time.process_time()
    call()
    return time.process_time() - began

unit = sorted(took(lambda: ast.parse(large)) for _ in range(5))[2]

def judged(text):
    try:
        outcome = Program(text, TOOLS).run(
            {"user": {"role": "a"}, "log": "log", "frame": FRAME, "action": {}})
        said.append(outcome.fault and "fault" or outcome.answer)
    except ForewarnError:
        said.append("refused")
    except BaseException as error:
        said.append("raised " + type(error).__name__)

for text in hostile.CORPUS:
    said, watching = [], True
    cost = took(lambda: judged(text))
    watching = False
    if cost > 4 * unit:
        # Others on the machine may have cost that.
        cost = min(cost, *(took(lambda: judged(text)) for _ in range(3)))
    rows.append([said[0], cost / unit, [r for r in reached]])
    reached.clear()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"rows": rows, "grown_kb": peak - floor}))
"""


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(HERE)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=HERE.parents[2],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    return found


def test_hostile_programs_are_rejected_or_fail(measured: dict[str, Any]) -> None:
    corpus = hostile.CORPUS
    assert len(corpus) == len(set(corpus)) >= 150
    assert len(measured["rows"]) == len(corpus)
    for text, (said, _, reached) in zip(corpus, measured["rows"], strict=True):
        if text not in hostile.HARMLESS:
            assert said in ("refused", "fault"), (said, text[:80])
        assert reached == [], (reached, text[:80])


TIMES = 10
"""So many times what Python's parser takes for a list that is as long as may be;
`benchmarks/run.py programs` prints the longest in seconds."""


def test_each_is_stopped_in_time_and_memory(measured: dict[str, Any]) -> None:
    slow = [
        (round(cost, 1), text[:60])
        for text, (_, cost, _) in zip(hostile.CORPUS, measured["rows"], strict=True)
        if cost > TIMES
    ]
    assert slow == []
    assert measured["grown_kb"] < 50 * 1024


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "role", "age"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_WORDS = [
    "user", "frame", "log", "a", "b", "deny", "ask", "slow", "Same", "Count", "Has",
    "if", "elif", "else", "for", "in", "not", "and", "or", "is", "None", "True", "pass",
    "==", "<", ">=", "!=", "=", "(", ")", "[", "]", "{", "}", ":", ",", ".", "'x'",
    "1", "2.5", "-", "*", "\n", "\n    ", "\n        ", "lambda", "import", "__class__",
]  # fmt: skip


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(_WORDS), max_size=40).map(" ".join),
    st.dictionaries(st.sampled_from(["user", "frame", "log"]), _VALUES),
)
def test_words_thrown_together_run_or_are_refused(
    text: str, inputs: dict[str, Any]
) -> None:
    try:
        program = Program(text, TOOLS)
    except InvalidInput:
        return
    outcome = program.run(inputs)
    assert outcome.answer in ("allow", "slow", "reflect", "ask", "deny")
    assert program.run(inputs).as_dict() == outcome.as_dict()


def _expressions() -> st.SearchStrategy[str]:
    single = st.sampled_from(
        ['user["a"]', "log", "frame", "1", "-2.5", '"x"', "None", "True", "[]", "{}"]
    )
    return st.recursive(
        single,
        lambda inner: st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from(
                ["<", "==", "in", "not in", "and", "or", ">="]), inner),
            st.builds("(not {})".format, inner),
            st.builds("[{}, {}]".format, inner, inner),
            st.builds('{{"a": {}}}'.format, inner),
            st.builds("{}[{}]".format, st.sampled_from(["user", "frame"]), inner),
            st.builds("Same({}, {})".format, inner, inner),
            st.builds("CheckAccess({}, {})".format, inner, inner),
            st.builds("CheckRules({}, {})".format, inner, inner),
            st.builds("Has({}, {})".format, inner, inner),
            st.builds("About({}, {})".format, inner, inner),
        ),
        max_leaves=12,
    )  # fmt: skip


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(_expressions(), _expressions(), _VALUES, _VALUES)
def test_programs_made_up_end_in_a_word_and_within_their_steps(
    one: str, other: str, user: Any, log: Any
) -> None:
    text = f"x = {one}\nif {other}:\n    deny('a', x)\nfor y in x:\n    ask('b', y)\n"
    program = Program(text, TOOLS)
    outcome = program.run({"user": user, "log": log, "frame": {"a": 1}})
    assert outcome.steps <= MOST_STEPS or outcome.fault
    assert outcome.as_dict()
