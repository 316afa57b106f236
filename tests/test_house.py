"""Tests of rules for the code: names, imports, and forbidden functions."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import forewarn
from forewarn.cli.doctor import PURPOSES, packages_of

ROOT = Path(__file__).parents[1]
PACKAGE = Path(forewarn.__file__).parent
ROOMS = (
    "abstractions",
    "apollo_bridge",
    "monitors",
    "plugins",
    "scenarios",
    "standins",
    "thor_bridge",
)


def _sources() -> list[Path]:
    # rglob does not follow the links in a checkout, so the folders are listed.
    folders = [PACKAGE / "cli", *(PACKAGE / room for room in ROOMS)]
    found = [path for folder in folders for path in folder.resolve().rglob("*.py")]
    assert len(found) > len(ROOMS)
    return [PACKAGE / "__init__.py", *found]


@pytest.mark.parametrize("room", ROOMS)
def test_a_bare_import_of_a_room_explains_itself(room: str) -> None:
    if not (ROOT / room).is_dir():
        pytest.skip("the rooms are not here: not a checkout")
    done = subprocess.run(
        [sys.executable, "-c", f"import {room}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"ImportError: import forewarn.{room}, not {room}" in done.stderr


FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal"}
# YAML is read only in abstractions/files.py, which rejects YAML aliases.
FORBIDDEN_METHODS = {
    ("yaml", f"{how}load{what}")
    for how in ("", "safe_", "unsafe_", "full_")
    for what in ("", "_all")
}


_SUSPECT = re.compile(
    rf"(?<![.\w])({'|'.join(FORBIDDEN_CALLS)})\(|load|shell|allow_pickle"
    rf"|\b({'|'.join(FORBIDDEN_MODULES)})\b"
)
"""Matches the source of modules that may contain an offence; only these are parsed."""


def _offences(source: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(source)) if _SUSPECT.search(source) else ():
        match node:
            case ast.Import(names=names):
                found += [n.name for n in names if n.name in FORBIDDEN_MODULES]
            case ast.ImportFrom(module=str(module)) if module in FORBIDDEN_MODULES:
                found.append(module)
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                found.append(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=base), attr=name)) if (
                base,
                name,
            ) in FORBIDDEN_METHODS:
                found.append(f"{base}.{name}")
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                found.append("shell=True")
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=True)):
                found.append("allow_pickle=True")
    return found


def test_no_file_can_run_code_from_data() -> None:
    offences = {
        str(path): found
        for path in _sources()
        if (found := _offences(path.read_text(encoding="utf-8")))
    }
    assert offences == {}


def test_the_search_for_forbidden_code_finds_it() -> None:
    guilty = (
        "import pickle\nfrom marshal import loads\neval('1')\nyaml.load(x)\n"
        "run(x, shell=True)\nload(x, allow_pickle=True)\n"
    )
    assert sorted(_offences(guilty)) == [
        "allow_pickle=True",
        "eval",
        "marshal",
        "pickle",
        "shell=True",
        "yaml.load",
    ]


@pytest.mark.skipif(not (ROOT / "SECURITY.md").is_file(), reason="not a checkout")
def test_each_guarantee_names_a_test_that_exists() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    section = page.partition("\n## Guarantees\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", section, re.M)
    named = [row for row in rows if row != "test"]
    assert len(named) > 50
    for test in named:
        match = re.fullmatch(r"`(tests/[\w/]+\.py)::(\w+)`", test)
        assert match is not None and match[2] in _declared(ROOT / match[1]), test


@cache
def _declared(path: Path) -> set[str]:
    """Returns the names of the functions, classes and variables of a module."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return names


def test_every_package_has_an_init() -> None:
    folders = {path.parent for path in _sources()}
    assert [f for f in folders if not (f / "__init__.py").is_file()] == []


def test_test_folders_are_no_packages() -> None:
    # With an __init__.py, tests/forewarn would be imported as forewarn.
    assert list((ROOT / "tests").rglob("__init__.py")) == []


LINT_IMPORTS = """
from importlinter.cli import lint_imports_command
lint_imports_command()
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_refuses_a_python_that_is_too_old(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "demo", f"PYTHON={old}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "needs Python 3.11 or later: make demo PYTHON=python3.12" in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.needs("importlinter")
def test_rooms_import_only_what_the_table_allows() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LINT_IMPORTS, "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 kept, 0 broken" in done.stdout


def test_doctor_knows_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        name: {re.split(r"[^\w.-]", line)[0] for line in lines}
        for name, lines in project["optional-dependencies"].items()
        if name not in ("all", "dev", "docs", "test", "test-core")
    }
    extras["core"] = {re.split(r"[^\w.-]", d)[0] for d in project["dependencies"]}
    assert {name: set(packages_of(name)) for name in PURPOSES} == extras
