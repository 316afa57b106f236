"""Mutation testing: do the tests notice when a module is wrong?

`targets.yaml` names the modules, the tests that answer for each, and the mutants that
survive rightly, with the reason. Each mutant is written into an overlay of its own, a
folder of links to the package with this one file changed, and its tests run there, in
a process of their own. A mutant that no test notices and that is not listed fails the
run; so does a listed one that is killed or is no mutant any more.

    python -m tests.mutation.runner [MODULE ...] [--since REVISION] [--only TEXT]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

import yaml

from tests.mutation.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
TARGETS = Path(__file__).with_name("targets.yaml")

NOT_THE_OVERLAY = 99
"""What a test process says that passed, but on the module of the checkout."""

LEAST_TIMEOUT_S = 20.0
TIMEOUT_FACTOR = 5.0
"""A mutant may take so many times as long as the module itself."""

_PAUSE_S = 0.005

# Loaded once; each test process begins with a copy of this one.
_SHARED = (
    "pytest", "_hypothesis_pytestplugin", "hypothesis.stateful", "numpy",
    "scipy.sparse.linalg", "scipy.special", "scipy.stats", "pydantic", "click",
)  # fmt: skip

Verdict = Literal["killed", "timeout", "survived"]


class CannotRun(Exception):
    """Without a mutant the tests fail, or they do not reach the overlay."""


@dataclass(frozen=True, slots=True)
class Target:
    """A module, what tests it, and which of its mutants survive rightly, and why."""

    module: str
    tests: tuple[str, ...]
    survivors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a module's mutants."""

    module: str
    verdicts: Mapping[str, Verdict]
    unlisted: tuple[str, ...]
    stale: tuple[str, ...]
    took_s: float

    @property
    def sound(self) -> bool:
        """Whether every survivor is listed, and nothing else is."""
        return not self.unlisted and not self.stale


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a key that appears twice is an error.

    Nothing of `forewarn` is imported here: each test process gets it from its overlay.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        content = super().construct_mapping(node, deep)
        if len(content) < len(node.value):
            raise yaml.MarkedYAMLError(
                problem="a key appears twice", problem_mark=node.start_mark
            )
        return content


def load_targets(path: Path) -> list[Target]:
    """The targets of a file; a key that appears twice is an error."""
    content = _Loader(path.read_text()).get_single_data()
    return [
        Target(module, tuple(entry["tests"]), entry.get("survivors") or {})
        for module, entry in content.items()
    ]


def touched(target: Target, revision: str) -> frozenset[str]:
    """The mutants that the module did not have at a revision, by name."""
    shown = subprocess.run(
        ["git", "show", f"{revision}:{target.module}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    before = mutants(shown.stdout) if shown.returncode == 0 else []
    now = mutants((ROOT / target.module).read_text())
    return frozenset({m.name for m in now} - {m.name for m in before})


def run(
    target: Target,
    only: str = "",
    processes: int = 2,
    among: frozenset[str] | None = None,
) -> Outcome:
    """Runs a module's mutants, or those whose name holds a text, or is among some.

    Raises:
        CannotRun: When its tests fail without any mutant.
    """
    began_s = time.monotonic()
    source = (ROOT / target.module).read_text()
    every = mutants(source)
    chosen = [
        mutant
        for mutant in every
        if only in mutant.name and (among is None or mutant.name in among)
    ]
    whole = Mutant("the module itself", source)
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        with _Trial(folder, 0, whole, target, 600.0) as trial:
            verdict = trial.wait()
            if verdict != "survived":
                raise CannotRun(f"its tests fail without a mutant:\n{trial.said()}")
            allowed_s = max(LEAST_TIMEOUT_S, TIMEOUT_FACTOR * trial.lasted_s)
        verdicts = dict(_judged(folder, chosen, target, allowed_s, processes))
    survived = [name for name, verdict in verdicts.items() if verdict == "survived"]
    names = {mutant.name for mutant in every}
    return Outcome(
        target.module,
        verdicts,
        tuple(name for name in survived if name not in target.survivors),
        tuple(
            name
            for name in target.survivors
            if name not in names or verdicts.get(name, "survived") != "survived"
        ),
        time.monotonic() - began_s,
    )


def _judged(
    folder: Path,
    chosen: Sequence[Mutant],
    target: Target,
    allowed_s: float,
    processes: int,
) -> Iterator[tuple[str, Verdict]]:
    """The verdict on each mutant, in the order in which they come."""
    waiting = list(enumerate(chosen, start=1))[::-1]
    running: list[_Trial] = []
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                number, mutant = waiting.pop()
                running.append(_Trial(folder, number, mutant, target, allowed_s))
            for trial in [trial for trial in running if trial.over()]:
                running.remove(trial)
                yield trial.mutant.name, trial.wait()
                trial.close()
            time.sleep(_PAUSE_S)
    finally:
        for trial in running:
            trial.close()


class _Trial:
    """The tests of one mutant, in a process of their own."""

    def __init__(
        self,
        folder: Path,
        number: int,
        mutant: Mutant,
        target: Target,
        allowed_s: float,
    ) -> None:
        self.mutant = mutant
        self._folder = folder / str(number)
        self._output = (folder / f"{number}.txt").open("w+")
        self._status: int | None = None
        self._late = False
        _overlay(self._folder, target.module, mutant.source)
        self._began_s = time.monotonic()
        self._until_s = self._began_s + allowed_s
        self.lasted_s = 0.0
        self._pid = os.fork()
        if not self._pid:
            _test(self._folder, target, self._output)

    def over(self) -> bool:
        """Whether its tests are through; ends them when they take too long."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self.lasted_s = time.monotonic() - self._began_s
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > self._until_s:
                self._late = True
                self._end()
        return self._status is not None

    def wait(self) -> Verdict:
        """The verdict of its tests."""
        while not self.over():
            time.sleep(_PAUSE_S)
        if self._late:
            return "timeout"
        if self._status == NOT_THE_OVERLAY:
            raise CannotRun("the tests pass without having used the mutant")
        return "survived" if self._status == 0 else "killed"

    def said(self) -> str:
        """What its tests printed."""
        self._output.seek(0)
        return self._output.read()

    def _end(self) -> None:
        os.killpg(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self._status = os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Ends its tests if they still run."""
        if self._status is None:
            self._end()
        self._output.close()

    def __enter__(self) -> _Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _overlay(folder: Path, module: str, source: str) -> None:
    """A folder from which `forewarn` can be imported, with one module changed."""
    real, place = ROOT / "forewarn", folder / "forewarn"
    parts = Path(module).parts
    if parts[0] == "forewarn":
        parts = parts[1:]
    for part in parts:
        place.mkdir(parents=True)
        for beside in real.iterdir():
            if beside.name not in (part, "__pycache__"):
                (place / beside.name).symlink_to(beside.resolve())
        real, place = real / part, place / part
    place.write_text(source)


def _test(folder: Path, target: Target, output: TextIO) -> None:
    """Runs the tests in this process, a copy of the runner's, and ends it."""
    status = 2
    try:
        os.setpgid(0, 0)
        for number in (1, 2):
            os.dup2(output.fileno(), number)
        os.chdir(ROOT)
        sys.dont_write_bytecode = True
        os.environ.update(CI="1", PYTHONDONTWRITEBYTECODE="1")
        # Those of other packages take longer to load than the tests to run.
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        arguments = [
            "--exitfirst", "--quiet", "--assert=plain", "--capture=no",
            "-m", "not slow",
            "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin",
            "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"),
            "-o", f"pythonpath={folder} {ROOT}", *target.tests,
        ]  # fmt: skip
        status = int(importlib.import_module("pytest").main(arguments))
        if status == 0 and not _used(folder, target.module):
            status = NOT_THE_OVERLAY
        sys.stdout.flush()
    finally:
        os._exit(status)


def _used(folder: Path, module: str) -> bool:
    """Whether the overlay's module is the one that was tested."""
    dotted = "forewarn." + module.removeprefix("forewarn/").removesuffix(".py")
    loaded = sys.modules.get(dotted.replace("/", "."))
    return loaded is not None and str(loaded.__file__).startswith(str(folder))


def shown(outcome: Outcome) -> Iterator[str]:
    """An outcome in lines."""
    count = {v: 0 for v in ("killed", "timeout", "survived")}
    for verdict in outcome.verdicts.values():
        count[verdict] += 1
    total = len(outcome.verdicts)
    yield (
        f"{outcome.module}: {total} mutants, {count['killed']} killed,"
        f" {count['timeout']} timed out, {count['survived']} survived"
        f" ({outcome.took_s:.0f} s)"
    )
    for name, verdict in outcome.verdicts.items():
        if verdict == "survived" and name not in outcome.unlisted:
            yield f"  survives, as listed: {name}"
    for name in outcome.unlisted:
        yield f"  SURVIVES: {name}"
    for name in outcome.stale:
        yield f"  LISTED, but killed or gone: {name}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="default: all")
    parser.add_argument(
        "--since", metavar="REVISION", help="mutants that were not there then"
    )
    parser.add_argument("--only", default="", help="mutants whose name holds this")
    parser.add_argument("--targets", type=Path, default=TARGETS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    targets = load_targets(options.targets)
    unknown = set(options.modules) - {target.module for target in targets}
    if unknown:
        parser.error(f"no target: {', '.join(sorted(unknown))}")
    # Two processes share two cores: more threads in each would only get in the way.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in _SHARED:
        importlib.import_module(name)
    outcomes: list[Outcome] = []
    for target in targets:
        if options.modules and target.module not in options.modules:
            continue
        among = touched(target, options.since) if options.since else None
        if among is not None and not among:
            continue
        try:
            outcome = run(target, options.only, among=among)
        except CannotRun as error:
            print(f"{target.module}: {error}", file=sys.stderr)
            return 2
        outcomes.append(outcome)
        if not options.json:
            print("\n".join(shown(outcome)), flush=True)
    if options.json:
        content: list[dict[str, Any]] = [
            {
                "module": outcome.module,
                "verdicts": dict(outcome.verdicts),
                "unlisted": list(outcome.unlisted),
                "stale": list(outcome.stale),
            }
            for outcome in outcomes
        ]
        print(json.dumps(content))
    return 0 if all(outcome.sound for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
