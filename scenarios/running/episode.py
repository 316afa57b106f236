"""An episode: the events of one run of a scenario, as a value and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_json
from forewarn.monitors.evaluation.evidence import Outcome
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.guarding.decision import Kind, Risk

FORMAT = "forewarn.episode/1"

TIME_UP = "s had passed"
"""The ending of the reason why a run ended, if the time limit ended it."""

Mode = Literal["unguarded", "shadow", "guarded"]


class InvalidEpisode(InvalidInput):
    """A file that does not hold an episode."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An alarm: a decision to do more than proceed, where there was none before.

    Args:
        law: Its law; empty for a fault of the guard's inputs.
        time_s: The time of the alarm.
        risk: The risk of that law; None if it is unknown.
        decision: The decision.
    """

    law: str
    time_s: float
    risk: Risk | None
    decision: Kind

    def as_dict(self) -> dict[str, Any]:
        risk = None if self.risk is None else self.risk.as_dict()
        return {
            "law": self.law,
            "time_s": self.time_s,
            "risk": risk,
            "decision": self.decision,
        }


@dataclass(frozen=True, slots=True)
class Intervention:
    """An intervention, from its beginning to its end.

    Args:
        law: The law that required it.
        time_s: The time at which it began.
        until_s: The time of its last frame.
        kind: The intervention that was carried out.
        decided: The intervention that the guard decided.
        because: Why these two differ; empty if they do not.
        obeyed_s: When the world first showed that it was obeyed; None if it never did,
            or for an alert.
    """

    law: str
    time_s: float
    until_s: float
    kind: Kind
    decided: Kind
    because: str = ""
    obeyed_s: float | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """One run of a scenario.

    Args:
        seed: Its seed.
        mode: Without a guard, with one that only watched, or with one that acted.
        ended: Why the run ended, as a sentence; "failed" if it failed.
        duration_s: The duration on the world's clock.
        frames: The number of frames.
        violations: The laws that were broken, in order of time.
        alarms: The guard's warnings.
        interventions: The interventions.
        decisions: The number of frames with each decision.
        unknown: Frames in a state that was never seen in training.
        states: The ticks' states in the model, as runs: number (-1: unknown), length.
        outcomes: Its outcome under each law, for detecting drift.
        goal_s: When the scenario's goal was first reached; None if it never was.
        record: The run record's file, in the campaign's folder.
        head: The hash of the record's last line.
        trace: The trace's file, in the campaign's folder.
        series: The file of the risks frame by frame, in the campaign's folder.
        tally: The file of its guard's tally, in the campaign's folder.
        error: What went wrong.
        facts: Measurements of the driving (see `Driven`), and the facts that the world
            reports.
        usage: The pilot's cost: calls of its model, tokens.
        machine: Facts about the machine and the time, which the seed does not
            determine.
    """

    seed: int
    mode: Mode
    ended: str
    duration_s: float = 0.0
    frames: int = 0
    violations: tuple[Broken, ...] = ()
    alarms: tuple[Raised, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    decisions: Mapping[str, int] = field(default_factory=dict)
    unknown: int = 0
    states: tuple[tuple[int, ...], ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    goal_s: float | None = None
    record: str | None = None
    head: str | None = None
    trace: str | None = None
    series: str | None = None
    tally: str | None = None
    error: str | None = None
    facts: Mapping[str, float | bool | None] = field(default_factory=dict)
    usage: Mapping[str, float] = field(default_factory=dict)
    machine: Mapping[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the run failed before its end."""
        return self.error is not None

    @property
    def timed_out(self) -> bool:
        """Whether the scenario's time limit ended it."""
        return self.ended.endswith(TIME_UP)

    @property
    def arrived(self) -> bool:
        """Whether the run is known to have reached its destination or its goal."""
        return self.facts.get("destination_s", self.goal_s) is not None

    def first(self, law: str) -> Broken | None:
        """The first time that a law was broken."""
        return next((broken for broken in self.violations if broken.law == law), None)

    def within(self, folder: Path) -> Episode:
        """The same episode with file paths relative to the current folder."""
        names = {
            "record": self.record,
            "trace": self.trace,
            "series": self.series,
            "tally": self.tally,
        }
        found = {key: str(folder / name) for key, name in names.items() if name}
        return replace(self, **found)  # type: ignore[arg-type]

    def as_dict(self) -> dict[str, Any]:
        """The episode as JSON."""
        return {
            "seed": self.seed,
            "violations": [broken.as_dict() for broken in self.violations],
            "goal_s": self.goal_s,
            "alarms": [alarm.as_dict() for alarm in self.alarms],
            "interventions": [asdict(each) for each in self.interventions],
            "ended": self.ended,
            "record": self.record,
            "mode": self.mode,
            "duration_s": self.duration_s,
            "frames": self.frames,
            "decisions": dict(self.decisions),
            "unknown": self.unknown,
            "states": [list(run) for run in self.states],
            "outcomes": {law: asdict(each) for law, each in self.outcomes.items()},
            "head": self.head,
            "trace": self.trace,
            "series": self.series,
            "tally": self.tally,
            "error": self.error,
            "facts": dict(self.facts),
            "usage": dict(self.usage),
            "machine": dict(self.machine),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Episode:
        """The episode that `as_dict` wrote."""
        kept = dict(content)
        kept["violations"] = tuple(Broken(**each) for each in kept["violations"])
        kept["alarms"] = tuple(
            Raised(**{**each, "risk": each["risk"] and Risk.from_dict(each["risk"])})
            for each in kept["alarms"]
        )
        kept["interventions"] = tuple(
            Intervention(**each) for each in kept["interventions"]
        )
        kept["states"] = tuple(map(tuple, kept["states"]))
        kept["outcomes"] = {
            law: Outcome(**each) for law, each in kept["outcomes"].items()
        }
        return cls(**kept)


def read_episode(path: Path) -> Episode:
    """An episode's file, as a campaign wrote it."""
    content = read_json(path)
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InvalidEpisode(f"not an episode of format {FORMAT}", source=str(path))
    try:
        return Episode.from_dict(content)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidEpisode(
            f"not an episode: {error}",
            source=str(path),
            mend="delete the file to repeat the episode",
        ) from error


def by_seed(episodes: Sequence[Episode]) -> list[Episode]:
    """Episodes in the order of their seeds."""
    return sorted(episodes, key=lambda episode: episode.seed)
