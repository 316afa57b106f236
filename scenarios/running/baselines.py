"""Baselines as a campaign has them: trained once, on file, and the same everywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_json, write_json
from forewarn.abstractions.readers.stored import Stored
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.evidence import dealt, needed_abstraction
from forewarn.plugins.baseline import LearningBaseline, Lessons
from forewarn.plugins.registry import load

FORMAT = "forewarn.baseline/1"


@dataclass(frozen=True, slots=True)
class Rival:
    """A baseline that takes part.

    Args:
        name: As it is registered.
        file: What it learned; empty if it does not learn.
        digest: Of what it learned.
    """

    name: str
    file: str = ""
    digest: str = ""

    @property
    def identity(self) -> str | list[str]:
        """What tells it from others in the names of files."""
        return [self.name, self.digest] if self.digest else self.name


def learns(name: str) -> bool:
    """Whether a baseline must be trained before it can judge anything."""
    return isinstance(load("baseline", name), LearningBaseline)


LessonsOf = Mapping[str, Lessons]
"""By the names of the laws."""


def lessons_of(
    path: Path, laws: Sequence[Law], traces: Sequence[Stored], horizon_s: float
) -> LessonsOf:
    """What baselines may learn from, where models were learned from these traces."""
    models = load_models(path)
    found: dict[str, Lessons] = {}
    for model, of in zip(models, dealt(models, laws), strict=True):
        abstraction = needed_abstraction(model, str(path))
        period_s = traces[0].kept((), abstraction.vocabulary).header.period_s
        if period_s is None:
            source = str(traces[0].path)
            raise InvalidInput("the header gives no period_s", source=source)
        lessons = Lessons(tuple(traces), period_s, abstraction, horizon_s)
        found |= {law.name: lessons for law in of}
    return found


def rivals(
    names: Sequence[str], laws: Sequence[Law], lessons: LessonsOf | None, folder: Path
) -> tuple[Rival, ...]:
    """The baselines of these names, trained where they have to be.

    Args:
        names: As they are registered.
        laws: The laws of the scenario.
        lessons: What they may learn from; None where none of them learns.
        folder: What they learned is written there, under a name that tells it apart.
    """
    found: list[Rival] = []
    for name in names:
        if not learns(name):
            found.append(Rival(name))
        elif lessons is None:
            raise InvalidInput(
                f"the baseline {name} learns, and there is nothing to learn from",
                mend="give the training runs",
            )
        else:
            found.append(_trained(name, laws, lessons, folder))
    return tuple(found)


def _trained(name: str, laws: Sequence[Law], lessons: LessonsOf, folder: Path) -> Rival:
    factory = load("baseline", name)
    learned: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for law in laws:
        try:
            made = factory.learn(law, lessons[law.name])  # type: ignore[attr-defined]
            learned[law.name] = made
        except InvalidInput as error:
            refused[law.name] = str(error)
    content = {"format": FORMAT, "name": name, "laws": learned, "refused": refused}
    text = json.dumps(content, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = folder / "baselines" / f"{name}-{digest[:12]}.json"
    write_json(path, content)
    return Rival(name, str(path), digest)


@lru_cache(maxsize=16)
def knowledge(rival: Rival) -> dict[str, Any] | None:
    """What a rival learned; None if it does not learn."""
    if not rival.file:
        return None
    content = read_json(Path(rival.file))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidInput(f"not of format {FORMAT}", source=rival.file)
    return content
