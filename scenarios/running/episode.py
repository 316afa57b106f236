"""An episode: the summary of one run of a scenario, as an object and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_json
from forewarn.abstractions.serial import from_json, to_json
from forewarn.monitors.evaluation.evidence import Outcome
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.guarding.decision import Kind, Risk

FORMAT = "forewarn.episode/1"

TIME_UP = "s had passed"
"""The suffix of `Episode.ended` if the time limit ended the run."""

Mode = Literal["unguarded", "shadow", "guarded"]


KeptRisk = Annotated[
    Risk | None,
    PlainSerializer(lambda risk: risk and risk.as_dict()),
    BeforeValidator(lambda kept: Risk.from_dict(kept) if kept else None),
]
"""A risk, which files store as a mapping."""


class InvalidEpisode(InvalidInput):
    """The file does not contain a valid episode."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An alarm: a decision that begins or escalates the guard's response to a law.

    Args:
        law: The law at risk; empty if the guard's inputs are faulty.
        time_s: The time of the alarm, in seconds.
        risk: The risk of violating the law; None if it is unknown.
        decision: The decision.
    """

    law: str
    time_s: float
    risk: KeptRisk
    decision: Kind


@dataclass(frozen=True, slots=True)
class Intervention:
    """An intervention, from its beginning to its end.

    Args:
        law: The law at risk.
        time_s: The time of its first frame, in seconds.
        until_s: The time of its last frame, in seconds.
        kind: The intervention that was carried out.
        decided: The intervention that the guard chose.
        because: Why `kind` differs from `decided`; empty if it does not.
        obeyed_s: The time in seconds at which the world first showed that the
            intervention was obeyed; None if it never did, or for an alert.
    """

    law: str
    time_s: float
    until_s: float
    kind: Kind
    decided: Kind
    because: str = ""
    obeyed_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The summary of one run of a scenario.

    Args:
        seed: The run's seed.
        mode: `unguarded`, `shadow` (the guard only watched) or `guarded`.
        ended: Why the run ended, as text; "failed" if it failed.
        duration_s: The duration on the world's clock, in seconds.
        frames: The number of frames.
        violations: The violations in chronological order.
        alarms: The guard's alarms.
        interventions: The guard's interventions.
        decisions: The number of frames by decision.
        unknown: The number of frames in a state that was never seen in training.
        states: The models' states over the clock's ticks, run-length encoded: a state's
            number per model (-1 if unknown), then the number of ticks.
        outcomes: The outcome of the run under each law, for detecting drift.
        goal_s: The time at which the scenario's goal was first reached, in seconds;
            None if it never was.
        record: The run record's file name in the campaign's folder.
        head: The hash of the record's last line.
        trace: The trace's file name in the campaign's folder.
        series: The name of the file with the risk at every frame, in the campaign's
            folder.
        tally: The name of the file with the guard's tally, in the campaign's folder.
        error: The error message if the run failed.
        facts: Driving measurements (see `Driven`), and facts that the world reports.
        usage: The pilot's resource usage, such as model calls and tokens.
        machine: Facts that the seed does not determine, such as processing times.
    """

    seed: int
    violations: tuple[Broken, ...] = ()
    goal_s: float | None = None
    alarms: tuple[Raised, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    ended: str
    record: str | None = None
    mode: Mode
    duration_s: float = 0.0
    frames: int = 0
    decisions: Mapping[str, int] = field(default_factory=dict)
    unknown: int = 0
    states: tuple[tuple[int, ...], ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    head: str | None = None
    trace: str | None = None
    series: str | None = None
    tally: str | None = None
    error: str | None = None
    facts: Mapping[str, int | float | bool | None] = field(default_factory=dict)
    usage: Mapping[str, int | float] = field(default_factory=dict)
    machine: Mapping[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the run failed with an error."""
        return self.error is not None

    @property
    def timed_out(self) -> bool:
        """Whether the scenario's time limit ended the run."""
        return self.ended.endswith(TIME_UP)

    @property
    def arrived(self) -> bool:
        """Whether the run is known to have reached its destination or its goal."""
        return self.facts.get("destination_s", self.goal_s) is not None

    def first(self, law: str) -> Broken | None:
        """Returns the first violation of a law; None if it was kept."""
        return next((broken for broken in self.violations if broken.law == law), None)

    def within(self, folder: Path) -> Episode:
        """Returns the episode with its file names joined to the folder."""
        names = {
            "record": self.record,
            "trace": self.trace,
            "series": self.series,
            "tally": self.tally,
        }
        found = {key: str(folder / name) for key, name in names.items() if name}
        return replace(self, **found)  # type: ignore[arg-type]

    def as_dict(self) -> dict[str, Any]:
        """Converts the episode to JSON."""
        return to_json(self)


def read_episode(path: Path) -> Episode:
    """Reads the summary of an episode that a campaign wrote."""
    content = read_json(path)
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InvalidEpisode(f"not an episode of format {FORMAT}", source=str(path))
    try:
        return from_json(Episode, content, str(path))
    except InvalidInput as error:
        raise InvalidEpisode(
            f"not a valid episode: {error.problem}",
            source=str(path),
            mend="delete the file to repeat the episode",
        ) from error


def by_seed(episodes: Sequence[Episode]) -> list[Episode]:
    """Sorts episodes by seed."""
    return sorted(episodes, key=lambda episode: episode.seed)
