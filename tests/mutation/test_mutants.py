"""Mutants are what they say, and the runner kills, reports and holds to its list."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.mutation import runner
from tests.mutation.mutants import mutants, names
from tests.mutation.runner import ROOT

SOURCE = '''
"""A module."""

LIMIT = 3


def passes(risk: float, low: int | None = None) -> bool:
    """Prose with 1 < 2 in it."""
    if low is None:
        low = 0
    if not low <= risk < LIMIT:
        raise ValueError(f"{risk + 1}")
    return min(risk, 1.0) >= 0.5 and known(risk)
'''


def test_every_kind_of_fault_is_made_once_and_has_a_name() -> None:
    assert [mutant.name for mutant in mutants(SOURCE)] == [
        "LIMIT: 3 => 4",
        "passes: low is None => low is not None",
        "passes: low = 0 => removed",
        "passes: 0 => 1",
        "passes: not low <= risk < LIMIT => low <= risk < LIMIT",
        "passes: low <= risk < LIMIT => low < risk < LIMIT",
        "passes: low <= risk < LIMIT => low > risk < LIMIT",
        "passes: low <= risk < LIMIT => low <= risk <= LIMIT",
        "passes: low <= risk < LIMIT => low <= risk >= LIMIT",
        "passes: raise ValueError(f'{risk + 1}') => removed",
        "passes: return min(risk, 1.0) >= 0.5 and known(risk) => return None",
        "passes: min(risk, 1.0) >= 0.5 and known(risk)"
        " => min(risk, 1.0) >= 0.5 or known(risk)",
        "passes: min(risk, 1.0) >= 0.5 => min(risk, 1.0) > 0.5",
        "passes: min(risk, 1.0) >= 0.5 => min(risk, 1.0) < 0.5",
        "passes: min(risk, 1.0) => max(risk, 1.0)",
        "passes: 1.0 => 2.0",
        "passes: 0.5 => 1.5",
    ]


def test_each_mutant_is_a_module_that_differs() -> None:
    source = SOURCE + "HUGE = 1e100\n"
    found = mutants(source)
    assert len({mutant.name for mutant in found}) == len(found)
    changed = {ast.unparse(ast.parse(mutant.source)) for mutant in found}
    assert len(changed - {ast.unparse(ast.parse(source))}) == len(found)


PLANTED = """
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.gate import Gate, Limits


def test_planted():
    gate = Gate(["a", "b_age"], Limits(0.5))
    assert gate.admit(Frame(0.0, 0, {"a": 1.0, "b_age": 0.2}), 0.0) is None
"""
BOUNDARY = "Gate._young: 0 <= age_s <= self._limits.max_age_s"


def run(folder: Path, module: str, survivors: dict[str, str]) -> tuple[int, object]:
    """The runner with tests of our own, which are too few."""
    (folder / "test_planted.py").write_text(PLANTED)
    entry = {"tests": [str(folder / "test_planted.py")], "survivors": survivors}
    (folder / "targets.yaml").write_text(json.dumps({module: entry}))
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.mutation.runner", "--json",
            "--targets", str(folder / "targets.yaml"), "--only", BOUNDARY,
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if not done.stdout:
        return done.returncode, done.stderr
    return done.returncode, json.loads(done.stdout)[0]


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "monitors").is_dir(), reason="not a checkout")
def test_faults_are_killed_or_reported_by_name(tmp_path: Path) -> None:
    killed = [
        f"{BOUNDARY} => 0 > age_s <= self._limits.max_age_s",
        f"{BOUNDARY} => 0 <= age_s > self._limits.max_age_s",
    ]
    survived = [
        f"{BOUNDARY} => 0 < age_s <= self._limits.max_age_s",
        f"{BOUNDARY} => 0 <= age_s < self._limits.max_age_s",
    ]
    before = (ROOT / "monitors/guarding/gate.py").read_bytes()
    gone = "Gate._young: no such thing"
    listed = {survived[0]: "so it is", killed[0]: "not so", gone: "not there"}
    status, outcome = run(tmp_path, "monitors/guarding/gate.py", listed)
    assert status == 1
    assert outcome == {
        "module": "monitors/guarding/gate.py",
        "verdicts": dict.fromkeys(killed, "killed")
        | dict.fromkeys(survived, "survived"),
        "unlisted": [survived[1]],
        "stale": [killed[0], gone],
    }
    assert (ROOT / "monitors/guarding/gate.py").read_bytes() == before


@pytest.mark.skipif(not (ROOT / "monitors").is_dir(), reason="not a checkout")
def test_tests_that_never_reach_the_module_are_an_error(tmp_path: Path) -> None:
    status, said = run(tmp_path, "plugins/loop/replay.py", {})
    assert status not in (0, None) and "without having used the mutant" in str(said)


@pytest.mark.skipif(not (ROOT / "monitors").is_dir(), reason="not a checkout")
def test_the_targets_name_what_is_there() -> None:
    for target in runner.load_targets(runner.TARGETS):
        for path in (target.module, *target.tests):
            assert (ROOT / path).is_file(), path
        known = names((ROOT / target.module).read_text())
        assert target.survivors.keys() <= known, target.module


def test_a_module_that_is_named_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text("a.py:\n  tests: [b.py]\na.py:\n  tests: [c.py]\n")
    with pytest.raises(yaml.YAMLError, match="a key appears twice"):
        runner.load_targets(path)


def test_a_change_is_answered_for_by_the_mutants_that_it_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)

    module = tmp_path / "module.py"
    module.write_text("LIMIT = 3\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "before")
    module.write_text("LIMIT = 3\nDEPTH = 7\n")
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    target = runner.Target("module.py", ())
    brought = runner.touched(target, "HEAD")
    assert brought and all("DEPTH" in name for name in brought)
    assert runner.touched(target, "no-such-revision") > brought
