"""The memory of a guard agent: correctly judged cases, as examples for a model.

Each case is a file, written by hand or saved from a run that a person or a rule has
confirmed; labels are not used. A prompt contains the cases with the smallest edit
distance between the agents' inputs and logs.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.files import read_json, write_json
from forewarn.abstractions.serial import Strict, validated

MOST_KEPT = 10_000
LONGEST_COMPARED = 10_000


class Remembered(Strict):
    """A case (the agent's input and output), with the plan and the program for it.

    The case is confirmed by `person: NAME`, `rule: PROGRAM` or `hand: NAME`.
    """

    format: Literal["forewarn.guard-memory/1"] = "forewarn.guard-memory/1"
    input: str
    log: str
    plan: str
    program: str
    confirmed_by: str = Field(pattern=r"^(person|rule|hand): .{1,100}$")


class Memory:
    """The cases in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
        if len(paths) > MOST_KEPT:
            raise InvalidInput(f"more than {MOST_KEPT} cases", source=str(folder))
        self._items = [
            validated(Remembered, read_json(path), str(path)) for path in paths
        ]

    def __len__(self) -> int:
        return len(self._items)

    def add(self, **case: str) -> Path:
        """Stores a confirmed case by its fields; duplicates are stored once."""
        item = validated(Remembered, case, str(self._folder))
        text = json.dumps([item.input, item.log, item.program])
        path = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if not path.exists():
            write_json(path, item.model_dump())
            self._items.append(item)
        return path

    def nearest(
        self, input_: str, log: str, count: int, *, farthest: bool = False
    ) -> list[Remembered]:
        """Returns the most similar cases, or with `farthest` the least similar ones."""
        if not self._items or count < 1:
            return []
        try:
            from rapidfuzz.distance import Levenshtein
        except ImportError as error:
            raise MissingDependency("remembering cases", "programs") from error

        def apart(item: Remembered) -> int:
            pairs = (input_, item.input), (log, item.log)
            cut = ((a[:LONGEST_COMPARED], b[:LONGEST_COMPARED]) for a, b in pairs)
            distance = sum(Levenshtein.distance(*each) for each in cut)
            return -distance if farthest else distance

        return sorted(self._items, key=apart)[:count]
