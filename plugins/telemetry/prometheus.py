"""Prometheus: counts in a text file, for the node exporter's textfile collector."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.files import atomic_text

_Labels = tuple[tuple[str, str], ...]

_HELP: dict[str, tuple[Literal["counter", "gauge", "summary"], str]] = {
    "forewarn_episodes_total": ("counter", "Episodes, by how they ended."),
    "forewarn_frames_total": ("counter", "Frames."),
    "forewarn_reviews_total": ("counter", "Frames that the guard judged."),
    "forewarn_alarms_total": ("counter", "Alarms that began."),
    "forewarn_interventions_total": ("counter", "Interventions that began."),
    "forewarn_violations_total": ("counter", "Laws that were broken."),
    "forewarn_unknown_states_total": ("counter", "Frames in states never learned."),
    "forewarn_review_seconds": ("summary", "How long reviews took."),
    "forewarn_review_longest_seconds": ("gauge", "How long the longest review took."),
}


class PrometheusFile:
    """Counts what episodes report, and writes it down whole every few seconds.

    Args:
        path: The file; by convention it ends in .prom.
        every_s: How often it is written at most, apart from `write`.
    """

    def __init__(self, path: Path, every_s: float = 5.0) -> None:
        self._path, self._every_s = path, every_s
        self._values: dict[str, dict[_Labels, float]] = {name: {} for name in _HELP}
        self._written_s = -math.inf

    def add(self, scenario: str, facts: Mapping[str, Any]) -> None:
        """Counts an episode: what its JSON says of it."""
        here = ("scenario", scenario)
        result = "failed" if facts["error"] else "ended"
        mode = ("mode", str(facts["mode"]))
        self._count("forewarn_episodes_total", 1, here, mode, ("result", result))
        self._count("forewarn_frames_total", facts["frames"], here)
        for decision, times in facts["decisions"].items():
            self._count("forewarn_reviews_total", times, here, ("decision", decision))
        for alarm in facts["alarms"]:
            law, decision = ("law", alarm["law"]), ("decision", alarm["decision"])
            self._count("forewarn_alarms_total", 1, here, law, decision)
        for each in facts["interventions"]:
            kind = ("kind", each["kind"])
            self._count("forewarn_interventions_total", 1, here, kind)
        for broken in facts["violations"]:
            law = ("law", broken["law"])
            self._count("forewarn_violations_total", 1, here, law)
        self._count("forewarn_unknown_states_total", facts["unknown"], here)
        self._time(facts, here)
        if time.monotonic() - self._written_s >= self._every_s:
            self.write()

    def _time(self, facts: Mapping[str, Any], here: tuple[str, str]) -> None:
        machine = facts["machine"]
        if "review_s" not in machine:
            return
        name = "forewarn_review_seconds"
        reviews = sum(facts["decisions"].values())
        self._count(name, machine["review_s"], here, ("", "sum"))
        self._count(name, reviews, here, ("", "count"))
        longest = self._values["forewarn_review_longest_seconds"]
        longest[(here,)] = max(longest.get((here,), 0.0), machine["longest_review_s"])

    def _count(self, name: str, by: float, *labels: tuple[str, str]) -> None:
        counts = self._values[name]
        counts[labels] = counts.get(labels, 0) + by

    def write(self) -> None:
        """Writes the file, whole or not at all."""
        self._written_s = time.monotonic()
        with atomic_text(self._path) as out:
            out.write(self.text())

    def text(self) -> str:
        """All counts in Prometheus' text format."""
        lines: list[str] = []
        for name, values in self._values.items():
            if not values:
                continue
            kind, doc = _HELP[name]
            lines += [f"# HELP {name} {doc}", f"# TYPE {name} {kind}"]
            for labels, value in sorted(values.items()):
                # A label without a name is the suffix of a summary's line.
                suffix = "".join(f"_{text}" for key, text in labels if not key)
                shown = ",".join(f'{key}="{_escaped(t)}"' for key, t in labels if key)
                lines.append(f"{name}{suffix}{{{shown}}} {value}")
        return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
