"""Reads the sources of a report: run records, campaign folders and measurements."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import other_kind, read_json
from forewarn.scenarios.report.runs import RecordedRun, read_run
from forewarn.scenarios.report.stage import Card, gallery
from forewarn.scenarios.report.tables import cautions
from forewarn.scenarios.running.episode import Episode, by_seed, read_episode
from forewarn.scenarios.running.scenery import SUFFIX

MEASUREMENT = "measurement.json"
"""The name of the file that `forewarn measure --out` writes into its folder."""

SHOWN_RUNS = 1
"""The number of runs of a campaign that have their own section."""
MOST_LOOSE = 3
"""The maximum number of records that are shown from a folder without a campaign."""


@dataclass(frozen=True, slots=True)
class Show:
    """One run, or two that are shown side by side, such as without and with a guard."""

    runs: tuple[RecordedRun, ...]

    @property
    def last(self) -> RecordedRun:
        return self.runs[-1]

    @property
    def scenario(self) -> str:
        return self.last.scenario

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of two runs; empty for a single run."""
        if len(self.runs) == 1:
            return ()
        if self.runs[0].seed == self.last.seed and _acts(*self.runs):
            return "Without the guard", "With the guard"
        names = [f"{run.name}, {WORDS.get(run.mode, run.mode)}" for run in self.runs]
        if names[0] == names[1]:
            names = [run.path.name for run in self.runs]
        return tuple(names)


@dataclass(frozen=True, slots=True)
class Campaign:
    """The episodes of a scenario in one mode: some with their own section, some in a
    gallery.
    """

    scenario: str
    mode: str
    episodes: tuple[Episode, ...]
    shows: tuple[Show, ...] = ()
    cards: tuple[Card, ...] = ()


def _acts(one: RecordedRun, other: RecordedRun) -> bool:
    return one.mode != "guarded" and other.mode == "guarded"


WORDS = {
    "guarded": "with the guard intervening",
    "shadow": "with the guard in shadow mode",
    "unguarded": "without a guard",
}
"""The description of each mode."""

Facts = Mapping[str, Any]
"""A measurement, as read from JSON."""

Part = Show | Campaign | Facts


@dataclass(slots=True)
class Content:
    """Everything that a report shows, in order."""

    parts: list[Part] = field(default_factory=list)

    @property
    def shows(self) -> list[Show]:
        """Everything with a section of its own, also from campaigns, in order."""
        found: list[Show] = []
        for part in self.parts:
            if isinstance(part, Show):
                found.append(part)
            elif isinstance(part, Campaign):
                found += part.shows
        return found

    @property
    def runs(self) -> list[RecordedRun]:
        return [run for show in self.shows for run in show.runs]

    @property
    def campaigns(self) -> list[Campaign]:
        return [part for part in self.parts if isinstance(part, Campaign)]

    @property
    def measurements(self) -> list[Facts]:
        return [part for part in self.parts if isinstance(part, Mapping)]

    @property
    def cautions(self) -> list[str]:
        """The cautions at the top of the report, such as drift or an incomplete run."""
        found = [text for facts in self.measurements for text in cautions(facts)]
        for run in self.runs:
            found += [f"{run.name}: {text}" for text in run.cautions]
        # Cautions about measurements, such as drift, come first.
        return sorted(dict.fromkeys(found), key=lambda text: "Caution" not in text)


def read_sources(paths: Iterable[Path]) -> Content:
    """Reads run records, campaign folders and measurements as JSON."""
    content = Content()
    for path in paths:
        if path.is_dir():
            content.parts += _folder(path)
        elif path.name.endswith(".json"):
            content.parts.append(_measurement(path))
        else:
            content.parts.append(_alone(path))
    content.parts = list(_paired(content.parts))
    return content


def _alone(path: Path) -> Show:
    return Show((read_run(path),))


def _paired(parts: Sequence[Part]) -> Iterator[Part]:
    """Combines two runs that belong together, at the position of the first.

    Two runs of a scenario belong together if they have the same seed and the guard
    intervenes in only one of them, or if there are no other parts.
    """
    runs = [p.last for p in parts if isinstance(p, Show) and len(p.runs) == 1]
    alone = len(runs) == 2 and len(parts) == 2
    done: list[RecordedRun] = []
    for part in parts:
        if not isinstance(part, Show) or len(part.runs) == 2:
            yield part
        elif not any(part.last is run for run in done):
            run = part.last
            other = _other(run, [r for r in runs if r is not run], alone)
            if other is None:
                yield part
            else:
                yield Show((other, run) if _acts(other, run) else (run, other))
                done.append(other)


def _other(
    run: RecordedRun, others: Sequence[RecordedRun], alone: bool
) -> RecordedRun | None:
    for other in others:
        if other.scenario != run.scenario:
            continue
        acts = _acts(run, other) or _acts(other, run)
        if alone or (acts and run.seed is not None and run.seed == other.seed):
            return other
    return None


def _folder(folder: Path) -> list[Part]:
    measured = folder / MEASUREMENT
    if measured.exists():
        # The episodes in the folder are those of the measurement.
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
        shows = tuple(map(_alone, records[:SHOWN_RUNS]))
        cards = tuple(gallery(folder, ordered)) if len(ordered) > len(shows) else ()
        found.append(Campaign(scenario, mode, tuple(ordered), shows, cards))
    pairs = list(_same_seeds(folder, found))
    seen = {run.path for pair in pairs for run in pair.runs}
    found = [*pairs, *(_without(each, seen) for each in found)]
    if not found:
        records = sorted(folder.glob("*.jsonl"))
        records = [each for each in records if not each.name.endswith(SUFFIX)]
        found += map(_alone, records[:MOST_LOOSE])
    if not found:
        raise InvalidInput(
            "the folder contains no run record, campaign or measurement",
            source=str(folder),
            mend="create one with `forewarn run --out` or `forewarn measure --out`",
        )
    return found


def _without(part: Part, seen: Collection[Path]) -> Part:
    """Removes from a campaign the runs that are already shown in a pair."""
    if not isinstance(part, Campaign):
        return part
    left = tuple(each for each in part.shows if each.last.path not in seen)
    return replace(part, shows=left)


def _same_seeds(folder: Path, found: Sequence[Part]) -> Iterator[Show]:
    """Pairs a violating run in shadow mode with the guarded run of the same seed.

    Per scenario, the first pair in which the guard prevented the violation is chosen,
    or else the first pair.
    """
    campaigns = [each for each in found if isinstance(each, Campaign)]
    for without in (each for each in campaigns if each.mode == "shadow"):
        for acting in campaigns:
            if (acting.scenario, acting.mode) != (without.scenario, "guarded"):
                continue
            by_seed = {each.seed: each for each in acting.episodes}
            pairs = [
                (one, other)
                for one in without.episodes
                if one.violations and (other := by_seed.get(one.seed)) is not None
            ]
            pairs.sort(key=lambda pair: bool(pair[1].violations))
            paths = [
                [folder / each.record for each in pair if each.record is not None]
                for pair in pairs
            ]
            for both in paths:
                if len(both) == 2 and all(path.exists() for path in both):
                    yield Show((read_run(both[0]), read_run(both[1])))
                    break


def _telling(episodes: Sequence[Episode]) -> list[Episode]:
    """Sorts episodes: violations first, then interventions, then alarms; failed ones
    last.
    """
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
        told = str(content.get("format")) if isinstance(content, dict) else ""
        wanted = "a run record or a measurement"
        raise InvalidInput(
            other_kind(f"format: {told}", wanted)
            or f"not a measurement: {lacking[0]} is missing",
            source=str(path),
            mend="make a measurement with `forewarn measure --json` or `--out`",
        )
    found: Facts = content
    return found
