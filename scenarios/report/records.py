"""Run records as reports take them: of scenarios, and of loops that others drive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from forewarn.monitors.guarding.record import BrokenRecord, read_record

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """What a record says of its run.

    Args:
        name: The scenario, or what the frames came from.
        title: In words.
        seed: Its seed; None of a loop that has none.
        mode: Whether the guard only watched.
        period_s: The time between two frames.
        vocabulary: What the signals are called in; empty if only the model knows.
        model: The model's digest.
        live: Whether it was no scenario's: then only the guard tells what was broken.
    """

    name: str
    title: str
    seed: int | None
    mode: str
    period_s: float
    vocabulary: str
    model: str
    live: bool


def read_lines(path: Path) -> tuple[Line, list[Line], list[str]]:
    """The header and the lines of a record, and what is to be said of a cut one."""
    contents: list[Line] = []
    try:
        for line in read_record(path):
            contents.append(line.content)
    except BrokenRecord as error:
        if "is cut" not in error.problem or len(contents) < 2:
            raise
        cut = f"The record is cut after {len(contents)} lines: what came then is lost."
        return contents[0], contents[1:], [cut]
    return contents[0], contents[1:], []


def head_of(header: Mapping[str, Any], reviews: Sequence[Line]) -> Head:
    """What a header says, or else what the reviews let conclude."""
    scenario = header.get("scenario", {})
    name = str(scenario.get("name", header["source"]))
    text, seed = str(scenario.get("text", "")), header.get("seed")
    return Head(
        name,
        _title(text) or name,
        None if seed is None else int(seed),
        str(header.get("mode", "guarded")),
        float(header.get("period_s") or _period(reviews)),
        str(header.get("vocabulary", "")),
        str(header["model"]["sha256"]),
        not text,
    )


def _title(text: str) -> str:
    """The title in a scenario's text."""
    for line in text.splitlines():
        if line.startswith("title:"):
            return line.removeprefix("title:").strip().strip("\"'")
    return ""


def _period(reviews: Sequence[Line]) -> float:
    times = [float(line["time_s"]) for line in reviews]
    gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
    return median(gap for gap in gaps if gap > 0.0) if any(gaps) else 1.0


def told_by_the_guard(lines: Sequence[Line]) -> Iterator[Line]:
    """A live run's lines, from zero on, with what the guard found broken.

    A clock of the real world may read anything at the start; a frame at fault may have
    no time at all, and is put at the time of the one before it.
    """
    began: float | None = None
    time_s = 0.0
    for line in lines:
        if "decision" not in line:
            yield line
            continue
        said = line["time_s"]
        if isinstance(said, int | float):
            began = said if began is None else began
            time_s = round(said - began, 6)
        yield {**line, "time_s": time_s}
        for law in line["decision"].get("violated", ()):
            yield {
                "event": "violated", "law": law, "time_s": time_s, "since_s": time_s,
            }  # fmt: skip
