"""A dataset that grows: runs on their own first, joined into parts when they are whole.

Each run is a file below the folder `.runs` until it is joined. What the parts then are
follows from the runs alone, and a process that died leaves nothing that must be mended:
the next one joins what is there.
"""

from __future__ import annotations

import glob
from contextlib import suppress
from pathlib import Path

from forewarn.abstractions.dataset.layout import SUFFIX
from forewarn.abstractions.dataset.reading import Part
from forewarn.abstractions.dataset.tables import RunTable
from forewarn.abstractions.dataset.writing import load_run, save_run, write_part
from forewarn.abstractions.places import files_below

PENDING = ".runs"
"""The folder of runs that are in no part yet."""

TOGETHER = 256
"""So many consecutive seeds share a part."""


def pend(folder: Path, run: RunTable) -> None:
    """Keeps a run until it is joined; whole, or not at all."""
    save_run(folder / PENDING / f"{run.name}.arrow", run)


def pending(folder: Path) -> int:
    """How many runs are in no part yet: who reads the dataset does not see them."""
    if not folder.is_dir():
        return 0
    return sum(path.suffix == ".arrow" for path in files_below(folder / PENDING))


def group_of(seed: int) -> int:
    """Which of a campaign's parts a seed belongs to."""
    return seed // TOGETHER


def join_all(folder: Path, stem: str) -> None:
    """Joins every run of a campaign that is in no part yet."""
    groups = {group_of(seed) for seed, _ in _seeds(folder / PENDING, stem)}
    for group in sorted(groups):
        join(folder, stem, group)
    with suppress(OSError):
        (folder / PENDING).rmdir()


def join(folder: Path, stem: str, group: int) -> None:
    """Joins the runs of a group of seeds, those that are in parts already included.

    Args:
        folder: The dataset.
        stem: What the names of the runs begin with, before the seed.
        group: Which seeds.
    """
    pending, parts = (
        [path for seed, path in _seeds(where, stem) if group_of(seed) == group]
        for where in (folder / PENDING, folder)
    )
    if not pending and len(parts) <= 1:
        return
    runs: dict[int, RunTable] = {}
    for path in parts:
        part = Part(path)
        for name in (facts.name for facts in part.facts.runs):
            runs[_seed(name, stem)] = part.run_table(name)
    runs |= {_seed(path.name, stem): load_run(path) for path in pending}
    out = folder / f"{stem}-{min(runs):06}-{max(runs):06}{SUFFIX}"
    write_part(out, [runs[seed] for seed in sorted(runs)])
    for path in (*parts, *pending):
        if path != out:
            path.unlink()


def _seeds(folder: Path, stem: str) -> list[tuple[int, Path]]:
    """The files of a campaign's runs, each with the seed of its first."""
    found = folder.glob(f"{glob.escape(stem)}-*")
    return [
        (_seed(path.name, stem), path)
        for path in sorted(found)
        if path.suffix in (SUFFIX, ".arrow")
    ]


def _seed(name: str, stem: str) -> int:
    return int(name.removeprefix(f"{stem}-").partition("-")[0].partition(".")[0])
