"""Writing a chain in another tool's format."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from forewarn.abstractions.errors import InvalidInput, harmless_cell
from forewarn.abstractions.files import atomic_bytes, atomic_text
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.drn import write_drn
from forewarn.monitors.chains.formats.explicit import write_explicit
from forewarn.monitors.chains.formats.prism import write_prism
from forewarn.monitors.chains.formats.umb import write_umb


def write_csv(chain: Chain, out: TextIO) -> None:
    """One line a transition, with the names of the states."""
    table = csv.writer(out, lineterminator="\n")
    table.writerow(("from", "to", "probability"))
    for i, name in enumerate(chain.states):
        for j, p in chain.written_row(i):
            names = (harmless_cell(state) for state in (name, chain.states[j]))
            table.writerow((*names, p))


TEXT_FORMATS: dict[str, Callable[[Chain, TextIO], None]] = {
    "prism": write_prism,
    "drn": write_drn,
    "csv": write_csv,
}
FORMATS = (*TEXT_FORMATS, "explicit", "umb")


def chain_as_text(chain: Chain, kind: str) -> str:
    """The chain in one of the formats that are a single text."""
    out = io.StringIO()
    TEXT_FORMATS[kind](chain, out)
    return out.getvalue()


def write_chain(chain: Chain, kind: str, path: Path) -> list[Path]:
    """Writes the chain whole or not at all; returns the files written."""
    if kind in TEXT_FORMATS:
        with atomic_text(path) as text:
            TEXT_FORMATS[kind](chain, text)
        return [path]
    if kind == "umb":
        with atomic_bytes(path) as raw:
            write_umb(chain, raw)
        return [path]
    if path.suffix != ".tra":
        raise InvalidInput(
            "explicit files are written side by side",
            source=str(path),
            mend="name the transition file, ending in .tra",
        )
    paths = [path, path.with_suffix(".lab"), path.with_suffix(".sta")]
    with (
        atomic_text(paths[0]) as tra,
        atomic_text(paths[1]) as lab,
        atomic_text(paths[2]) as sta,
    ):
        write_explicit(chain, tra, lab, sta)
    return paths
