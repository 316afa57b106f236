"""Tests that the example notebooks run, and that they are stored without outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"
if not NOTEBOOKS.is_dir():
    pytest.skip("the examples are not here: not a checkout", allow_module_level=True)
nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
PLOTS = {"agent": 0, "driving": 2, "environment": 2}
NEEDS = {"driving": ("libsumo", "pandas"), "environment": ("gymnasium", "pandas")}
FEWER = {r"\bruns=20\b": "runs=3", r"\bruns=50\b": "runs=5", r"=150\b": "=40"}
"""Replacements that reduce the number of runs, so that a notebook takes seconds."""


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in NEEDS.get(path.stem, ()):
        pytest.importorskip(module, reason=f"{module} is not installed")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    book = read(path)
    for cell in book.cells:
        for many, few in FEWER.items():
            cell.source = re.sub(many, few, cell.source)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources=where
    ).execute()
    results = [result for cell in book.cells for result in cell.get("outputs", ())]
    plots = sum("image/png" in result.get("data", {}) for result in results)
    assert plots == PLOTS[path.stem]


def read(path: Path) -> Any:
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    return book
