"""Builds chains with Storm, in a separate process with time and memory limits."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from forewarn.abstractions.errors import InvalidModel, MissingDependency, TooLarge
from forewarn.abstractions.files import read_bytes
from forewarn.abstractions.limits import STORM_BYTES, STORM_SECONDS
from forewarn.monitors.chains.chain import MAX_STATES, MAX_TRANSITIONS
from forewarn.monitors.chains.formats.rows import ForeignChain, probability

_STORM_SAYS = re.compile(
    r"^(?:ERROR \([^)]*\)|\w*Error|\w*Exception): *(.*)", re.MULTILINE
)

_LIMITED = r"""
import json, resource, sys
source, target = sys.argv[1:3]
size, seconds, most_states, most_transitions = map(int, sys.argv[3:])
resource.setrlimit(resource.RLIMIT_AS, (size, size))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, 10 * seconds))
import stormpy
from stormpy import io
"""

_WRITE_ROWS = r"""
kind = model.model_type.name
if kind != "DTMC":
    raise TypeError(f"the model is of type {kind}; only DTMCs can be read")
if model.nr_states > most_states:
    raise ValueError(f"{model.nr_states:,} states exceed the limit of {most_states:,}")
if model.nr_transitions > most_transitions:
    raise ValueError(f"more than {most_transitions:,} transitions")
# Python needs longer to write the rows than Storm to build them.
resource.setrlimit(resource.RLIMIT_CPU, (10 * seconds, 10 * seconds))
numbers = range(model.nr_states)
labels = {name: list(model.labeling.get_states(name))
          for name in model.labeling.get_labels()}
values = {}
if model.has_state_valuations():
    known = model.state_valuations
    for each in known.get_all_variables():
        values[each.name] = [known.get_value(i, each) for i in numbers]
labels = dict(sorted(labels.items(), key=lambda label: (label[1], label[0])))
with open(target, "w") as file:
    print(json.dumps([labels, values]), file=file)
    for i in numbers:
        row = model.transition_matrix.get_row(i)
        print(json.dumps({e.column: str(e.value) for e in row}), file=file)
"""


def build(script: str, content: bytes, what: str, source: str = "") -> ForeignChain:
    """Builds a chain from the content of a file.

    The script reads the path `source` and assigns a Storm model to `model`.

    Raises:
        MissingDependency: stormpy is not installed.
        InvalidModel: Storm rejects the content, or it describes no DTMC.
        TooLarge: Storm exceeds its time or memory limit.
    """
    told = run_storm(script + _WRITE_ROWS, content, what, source)
    (labels, values), *rows = map(json.loads, told.splitlines())
    return ForeignChain(
        len(rows),
        {
            i: {int(j): probability(p, source, f"state {i}") for j, p in row.items()}
            for i, row in enumerate(rows)
        },
        {name: set(states) for name, states in labels.items()},
        values,
    )


def run_storm(script: str, content: bytes, what: str, source: str = "") -> bytes:
    """Runs a Storm script on the content of a file; returns the file that it writes.

    The script reads the path `source` and writes to the path `target`.
    """
    if find_spec("stormpy") is None:
        raise MissingDependency(what, "storm")
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "source", Path(folder) / "target"
        given.write_bytes(content)
        limits = (STORM_BYTES, STORM_SECONDS, MAX_STATES, MAX_TRANSITIONS)
        done = subprocess.run(  # noqa: S603
            [
                sys.executable,
                "-I",
                "-c",
                _LIMITED + script,
                given,
                found,
                *map(str, limits),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode < 0 or re.search("MemoryError|bad_alloc", done.stderr):
            raise TooLarge(
                f"Storm needs more than {STORM_SECONDS} s or {STORM_BYTES >> 20} "
                "MB to build the model",
                source=source,
                mend="use a smaller model; a PRISM program can also be built by Storm "
                "itself, and its DRN file be imported",
            )
        if done.returncode:
            told = _STORM_SAYS.findall(done.stdout + "\n" + done.stderr)
            problem = next(filter(None, told), f"it is not valid in {what}")
            raise InvalidModel(f"Storm rejects the model: {problem}", source=source)
        return read_bytes(found)
