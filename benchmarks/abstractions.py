"""Compares warnings by kind of abstraction, for each law of trained models.

`forewarn train` stores the results of each candidate in held-out folds of the training
runs. This command prints the best candidate of each kind: the fraction of violations
with a timely warning, the median lead time, and the fraction of violations with a
warning at least 1 s ahead. All three are taken over the false-alarm rates at which
candidates are compared.

    python benchmarks/abstractions.py [FOLDER]

A model in FOLDER replaces the shipped model of the same name, as after `make trained
TRAINED=FOLDER`. Models that were trained before the median was stored have a dash.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from run import aligned, show

from forewarn.monitors.chains.model import load_models
from forewarn.scenarios.shipped import FOLDER

KINDS = {"hand-made": "hand-made", "learned": "tree", "scored": "score"}
SUFFIX = ".model.json.gz"


def rows(model: Path) -> Iterator[tuple[str, ...]]:
    """Yields the row of each law of a model file."""
    for each in load_models(model):
        found = each.training.get("abstraction")
        if not found:
            continue
        # The best candidate of each kind; candidates are stored with the best first.
        best = {tried["kind"]: tried for tried in reversed(found["tried"])}
        for law in best[found["chosen"]].get("warned", ()):
            cells = (_cell(best.get(kind, {}), law) for kind in KINDS)
            name = model.name.removesuffix(SUFFIX)
            yield (name, law, *cells, KINDS[found["chosen"]])


def _cell(tried: dict[str, Any], law: str) -> str:
    if law not in tried.get("warned", ()):
        return "-"
    median_s = tried.get("median_s", {}).get(law)
    second = tried.get("second_ahead", {}).get(law)
    cells = [f"{tried['warned'][law]:.2f}"]
    cells.append("-" if median_s is None else f"{median_s:.1f} s")
    cells.append("-" if second is None else f"{second:.2f}")
    return ", ".join(cells)


if __name__ == "__main__":
    table = [("model", "law", *KINDS.values(), "taken")]
    for path in sorted(FOLDER.glob(f"*{SUFFIX}")):
        others = (Path(folder) / path.name for folder in sys.argv[1:])
        table += rows(next((each for each in others if each.exists()), path))
    show(aligned(table))
