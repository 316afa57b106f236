"""A run as a table: a row a frame, for spreadsheets and statistics."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import harmless_cell
from forewarn.abstractions.files import atomic_text
from forewarn.scenarios.report.runs import Run


def write_csv(run: Run, path: Path) -> int:
    """Writes the frames of a run with their risks and decisions; how many rows."""
    bounds = ("low", "risk", "high", "likely low", "likely high", "left_s")
    head = ["time_s", "sequence", "decision"]
    head += [f"{law.name}: {each}" for law in run.laws for each in bounds]
    with atomic_text(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(harmless_cell, [*head, *run.signals]))
        for i, time_s in enumerate(run.times_s):
            row: list[Any] = [time_s, run.sequences[i], run.decisions[i]]
            for law in run.laws:
                risk = law.risks[i]
                row += [None] * 3 if risk is None else risk[:3]
                row += (risk and risk.likely) or (None, None)
                row.append(law.left_s[i])
            writer.writerow([*row, *(_cell(each[i]) for each in run.signals.values())])
    return len(run.times_s)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return harmless_cell(value) if isinstance(value, str) else value
