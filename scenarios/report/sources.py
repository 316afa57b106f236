"""What a report is made of: run records, folders of campaigns, measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_json
from forewarn.scenarios.report.runs import Run, read_run
from forewarn.scenarios.report.tables import cautions
from forewarn.scenarios.running.episode import Episode, by_seed, read_episode
from forewarn.scenarios.running.scenery import SUFFIX

MEASUREMENT = "measurement.json"
"""What `forewarn measure --out` writes into its folder."""

SHOWN_RUNS = 3
"""How many runs of a campaign are shown in motion."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """The episodes of one scenario in one mode, with those shown in motion."""

    scenario: str
    mode: str
    episodes: tuple[Episode, ...]
    runs: tuple[Run, ...] = ()


Facts = Mapping[str, Any]
"""A measurement, as its JSON has it."""

Part = Run | Campaign | Facts


@dataclass(slots=True)
class Content:
    """All that a page shows, in order."""

    parts: list[Part] = field(default_factory=list)

    @property
    def runs(self) -> list[Run]:
        """The single ones and those of campaigns."""
        found: list[Run] = []
        for part in self.parts:
            if isinstance(part, Run):
                found.append(part)
            elif isinstance(part, Campaign):
                found += part.runs
        return found

    @property
    def campaigns(self) -> list[Campaign]:
        return [part for part in self.parts if isinstance(part, Campaign)]

    @property
    def measurements(self) -> list[Facts]:
        return [part for part in self.parts if isinstance(part, Mapping)]

    @property
    def cautions(self) -> list[str]:
        """What stands first: models that do not fit, runs that are not whole."""
        found = [text for facts in self.measurements for text in cautions(facts)]
        for run in self.runs:
            found += [f"{run.name}: {text}" for text in run.cautions]
        # The model's misfit before everything else.
        return sorted(dict.fromkeys(found), key=lambda text: "Take care" not in text)


def read_sources(paths: Iterable[Path]) -> Content:
    """Reads run records, campaign folders and the JSON of measurements."""
    content = Content()
    for path in paths:
        if path.is_dir():
            content.parts += _folder(path)
        elif path.name.endswith(".json"):
            content.parts.append(_measurement(path))
        else:
            content.parts.append(read_run(path))
    return content


def _folder(folder: Path) -> list[Part]:
    measured = folder / MEASUREMENT
    if measured.exists():
        # The episodes beside it are those that it was measured on.
        return [_measurement(measured)]
    groups: dict[tuple[str, str], list[Episode]] = {}
    for path in sorted((folder / "episodes").glob("*.json")):
        scenario = path.stem.rsplit("-", 2)[0]
        episode = read_episode(path)
        groups.setdefault((scenario, episode.mode), []).append(episode)
    found: list[Part] = []
    for (scenario, mode), episodes in groups.items():
        ordered = by_seed(episodes)
        records = [
            folder / each.record
            for each in _telling(ordered)
            if each.record is not None and (folder / each.record).exists()
        ]
        runs = tuple(read_run(record) for record in records[:SHOWN_RUNS])
        found.append(Campaign(scenario, mode, tuple(ordered), runs))
    if not found:
        records = sorted(folder.glob("*.jsonl"))
        records = [each for each in records if not each.name.endswith(SUFFIX)]
        found += [read_run(record) for record in records[:SHOWN_RUNS]]
    if not found:
        raise InvalidInput(
            "there is no run record, campaign or measurement",
            source=str(folder),
            mend="`forewarn run --out` and `forewarn measure --out` make such folders",
        )
    return found


def _telling(episodes: Sequence[Episode]) -> list[Episode]:
    """Those with most to see first: broken laws, interventions, alarms."""
    return sorted(
        episodes,
        key=lambda e: (e.failed, not e.violations, not e.interventions, not e.alarms),
    )


_NEEDED = ("scenario", "laws", "episodes", "failed", "seeds", "reliability")


def _measurement(path: Path) -> Facts:
    content = read_json(path)
    lacking = [
        key for key in _NEEDED if not isinstance(content, dict) or key not in content
    ]
    if lacking:
        raise InvalidInput(
            f"not a measurement: it has no {lacking[0]}",
            source=str(path),
            mend="make one with `forewarn measure --json` or `--out`",
        )
    found: Facts = content
    return found
