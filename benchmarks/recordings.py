"""Figures of docs/recordings.md: warnings on recorded runs, and kinds of abstraction.

    python benchmarks/recordings.py warnings FOLDER [--only hundred_car] [--way ttc]
    python benchmarks/recordings.py abstractions [--trained FOLDER]

`warnings` uses cross-validation. Folds are by driver for the real drivers of the
100-Car study, and by road for Apollo in the SVL simulator (DeepScenario). For each
fold, everything is chosen and fitted on the other folds. The table compares the guard
(with the hand-written abstraction, and with that of `learn --abstraction auto`) with
gradient boosting and logistic regression on the raw signals and their last second, and
with the time to collision. The last column is the loss ledger, which shows what each
step from boosting to the guard adds or loses: the score, its bands, the chain over the
bands, and the choice of the abstraction.

FOLDER has the archives of recordings. With `--only deepscenario_files`, FOLDER has a
copy of the files that DeepScenario publishes (`deepscenario-dataset`), whose frames
also describe the nearest three road users. Methods whose figures are already in `--out`
are not measured again. The tables of the page come from the table that this command
prints with `--only`:

    python docs/tables.py recordings-hundred-car -- \
        python benchmarks/recordings.py warnings FOLDER --only hundred_car

`abstractions` prints what `forewarn train` stored about the candidates in held-out
folds of the training runs: for the best candidate of each kind, the fraction of
violations with a timely warning, the median lead time, and the fraction of violations
with a warning at least 1 s ahead. All three are taken over the false-alarm rates at
which candidates are compared. A model in FOLDER replaces the shipped model of the same
name, as after `make trained TRAINED=FOLDER`. Models that were trained before the median
was stored have a dash. """

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from held_out import LEARNED, LEDGER, Recordings, archived, drive, haste
from run import command_line, markdown, stored

from forewarn.abstractions.trace import Kept
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.evaluation.foretold import Foretold, Leads, early
from forewarn.monitors.finding.corpus import Corpus
from forewarn.scenarios.running.campaign import recordings
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.shipped import FOLDER

# -- warnings on recorded runs

ALLOWED = (0.05, 0.10)
WAYS = LEDGER | LEARNED | {"ttc": haste("time_to_collision")}

ROADS = ("road1", "road3", "road4")
"""The roads of the archive of DeepScenario; the fourth is kept for a last test."""

PUBLISHED = """\
format: forewarn.scenario/1
name: deepscenario-files
title: Apollo 5.0 in the SVL simulator, with the nearest three road users
world:
  name: deepscenario
  settings: {{files: {files}}}
pilot: {{name: log}}
laws: [no_collision]
horizon_s: 5.0
end: {{max_time_s: 400}}
abstraction:
  format: forewarn.abstraction/1
  name: Apollo among others
  vocabulary: driving
  period_s: 0.5
  predicates:
    - collision
    - speed > 5 km/h
    - acceleration < -1
    - bands(nearest_distance, 0.5 m, 1.5 m, 4 m, 10 m)
    - bands(time_to_collision, 1 s, 2 s, 4 s)
    - bands(pedestrian_distance, 3 m, 10 m)
    - bands(required_deceleration, 1, 3)
"""
"""The scenario of the archive of DeepScenario, for the published files."""


def published(copy: Path) -> Recordings:
    """Reads a copy of the files that DeepScenario publishes."""
    runs: list[Kept] = []
    groups: list[str] = []
    for road in ROADS:
        files = json.dumps(f"{copy.resolve()}/*/*/{road}-*/*.deepscenario")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "scenario.yaml"
            path.write_text(PUBLISHED.format(files=files), "utf-8")
            scenario = load_scenario(path)
            found, _ = drive(scenario, range(recordings(scenario) or 0))
        runs += found
        groups += [road] * len(found)
    return Recordings(scenario, tuple(runs), tuple(groups))


SETS: dict[str, tuple[str, Callable[[Path], Recordings]]] = {
    "hundred_car": (
        "hundred_car.tar.xz",
        partial(archived, group=lambda row: row["driver"]),
    ),
    "deepscenario": (
        "deepscenario.tar.xz",
        partial(archived, group=lambda row: row["setup"].split("/")[-1].split("-")[0]),
    ),
    "deepscenario_files": ("deepscenario-dataset", published),
}
"""For each set of recordings, its file or folder, and the function that reads it."""


def warnings(
    folder: Path,
    *,
    only: str | None = None,
    way: str | None = None,
    out: Path = Path("out/recordings"),
) -> Iterator[str]:
    """Warnings on recorded runs, by cross-validation."""
    ways = [way] if way else list(WAYS)
    there = [name for name, (place, _) in SETS.items() if (folder / place).exists()]
    if only not in (None, *there) or not there:
        wanted = [f"{place} ({name})" for name, (place, _) in SETS.items()]
        sys.exit(
            f"{folder} needs one of {', '.join(wanted)}; --only takes a name of these"
        )
    for name in [only] if only else there:
        found = stored(out / name, ways, partial(_figures, folder, name))
        yield name
        head = ("method", *(f"at {each:.2f}" for each in ALLOWED), "step")
        yield from markdown(head, _rows(dict(zip(ways, found, strict=True))))


@cache
def _folds(folder: Path, name: str) -> tuple[Recordings, list[tuple[Corpus, Any]]]:
    """Returns the recordings, and for each fold the training data and held-out runs."""
    place, read = SETS[name]
    told = read(folder / place)
    return told, [(told.corpus(others), out) for others, out in told.shares()]


def _figures(folder: Path, name: str, way: str) -> dict[str, Any]:
    """Returns the cells of a method's row, and the fraction of violations detected at
    the highest false-alarm rate.
    """
    told, folds = _folds(folder, name)
    found: list[Foretold] = []
    for corpus, out in folds:
        for of_run in WAYS[way](told, corpus, out):
            found += of_run.values()
    horizon_s = told.scenario.horizon_s
    leads = [Leads.of(early(found, horizon_s, at)) for at in ALLOWED]
    cells = [f"{m.detected:.2f}, {m.median_s:.1f} s, {m.sooner:.2f}" for m in leads]
    return {"cells": cells, "detected": leads[-1].detected}


def _rows(figures: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields the rows of the table; the last column shows what each step of the loss
    ledger adds or loses at the highest false-alarm rate.
    """
    before: float | None = None
    for way, found in figures.items():
        step = "-"
        if way in LEDGER and before is not None:
            step = f"{found['detected'] - before:+.2f}"
        yield (way, *found["cells"], step)
        before = found["detected"]


# -- kinds of abstraction

KINDS = {"hand-made": "hand-made", "learned": "tree", "scored": "score"}
SUFFIX = ".model.json.gz"


def abstractions(*, trained: Path = FOLDER) -> Iterator[str]:
    """The best abstraction of each kind, for each law of the trained models."""
    rows = list[tuple[str, ...]]()
    for path in sorted(FOLDER.glob(f"*{SUFFIX}")):
        own = trained / path.name
        rows += _kinds(own if own.exists() else path)
    yield from markdown(("model", "law", *KINDS.values(), "taken"), rows)


def _kinds(model: Path) -> Iterator[tuple[str, ...]]:
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
    command_line(__doc__, warnings, abstractions)
