"""Compares warnings by kind of abstraction, for each law of trained models.

`forewarn train` stores the results of each candidate in held-out folds of the training
runs. This command prints the best candidate of each kind: the fraction of violations
with a timely warning, the median lead time, and the fraction of violations with a
warning at least 1 s ahead. All three are taken over the false-alarm rates at which
candidates are compared.

    python benchmarks/abstractions.py [FOLDER]

FOLDER contains the models, by default those that ship.
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
    median_s = tried["median_s"].get(law)
    median = "-" if median_s is None else f"{median_s:.1f} s"
    return f"{tried['warned'][law]:.2f}, {median}, {tried['second_ahead'][law]:.2f}"


if __name__ == "__main__":
    table = [("model", "law", *KINDS.values(), "taken")]
    folder = Path(sys.argv[1]) if sys.argv[1:] else FOLDER
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        table += rows(path)
    show(aligned(table))
