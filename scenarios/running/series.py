"""Risks frame by frame: what measuring needs of an episode, beside what happened."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import atomic_text, read_json
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import Watch
from forewarn.monitors.laws.lawbook import Law
from forewarn.plugins.baseline import Baseline
from forewarn.plugins.contracts import Source
from forewarn.plugins.registry import load
from forewarn.scenarios.running.baselines import Rival, knowledge

FORMAT = "forewarn.series/1"

Numbers = Mapping[str, Sequence[float]]
"""Of each law, one number a frame, or one a threshold."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a baseline made of one episode.

    Args:
        scores: Of each law, how alarming it found every frame.
        thresholds: Of each law, the scores from which on it would alarm.
        skipped: The laws that it cannot judge, and why.
    """

    scores: Numbers
    thresholds: Numbers
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Series:
    """The guard's risks at every frame of one episode.

    Args:
        times_s: When each frame was.
        risks: Of each law, as the policy judges it; NaN where it could not be told.
        forced: The frames at which the guard intervenes whatever the threshold: its
            inputs are at fault, or the state is unknown and the policy stops there.
        baselines: What other methods made of the same frames, by name.
    """

    times_s: Sequence[float]
    risks: Numbers
    forced: frozenset[int] = frozenset()
    baselines: Mapping[str, Judgement] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Writes it as JSON, gzipped if the path ends in .gz."""
        content = {
            "format": FORMAT,
            "times_s": list(self.times_s),
            "risks": _told(self.risks),
            "forced": sorted(self.forced),
            "baselines": {
                name: {
                    "scores": _told(judged.scores),
                    "thresholds": _told(judged.thresholds),
                    "skipped": dict(judged.skipped),
                }
                for name, judged in self.baselines.items()
            },
        }
        with atomic_text(path) as out:
            json.dump(content, out, separators=(",", ":"), allow_nan=False)


def read_series(path: Path) -> Series:
    """The series in a file."""
    content: Any = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidInput(f"not a series of format {FORMAT}", source=str(path))
    return Series(
        content["times_s"],
        _heard(content["risks"]),
        frozenset(content["forced"]),
        {
            name: Judgement(
                _heard(judged["scores"]),
                _heard(judged["thresholds"]),
                judged["skipped"],
            )
            for name, judged in content["baselines"].items()
        },
    )


def _told(numbers: Numbers) -> dict[str, list[float | None]]:
    """JSON has no NaN: what could not be told is null there."""
    return {
        law: [value if math.isfinite(value) else None for value in values]
        for law, values in numbers.items()
    }


def _heard(numbers: Mapping[str, Sequence[float | None]]) -> Numbers:
    return {
        law: [math.nan if value is None else value for value in values]
        for law, values in numbers.items()
    }


class SeriesLog(Listener):
    """Takes down the guard's risks.

    Args:
        policy: Says what an unknown state means.
    """

    def __init__(self, policy: Policy) -> None:
        self._unknown_stops = policy.unknown_state == "stop"
        self._times: list[float] = []
        self._risks: dict[str, list[float]] = {}
        self._forced: set[int] = set()

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Takes down one frame."""
        if decision.risk is None or (watch.unknown and self._unknown_stops):
            self._forced.add(len(self._times))
        self._times.append(frame.time_s)
        for law in watch.laws:
            risk = math.nan
            if decision.risk is not None:
                risk = law.judged
            self._risks.setdefault(law.name, []).append(risk)

    def series(self, judges: Sequence[Judge] = ()) -> Series:
        """All that was taken down, with what the baselines made of it."""
        return Series(
            self._times,
            self._risks,
            frozenset(self._forced),
            {judge.name: judge.judgement() for judge in judges},
        )


class Judge(Listener):
    """A baseline, judging every law that it can, frame by frame.

    Args:
        rival: Which one, with what it learned.
        laws: The laws of the scenario.
    """

    def __init__(self, rival: Rival, laws: Sequence[Law]) -> None:
        self.name, self._laws = rival.name, tuple(laws)
        self._factory = load("baseline", rival.name)
        self._knowledge = knowledge(rival)
        self._source: Source | None = None

    def began(self, run: Run) -> None:
        """Begins a new episode."""
        source = run.source
        if source != self._source:
            self._source = source
            self._apply(source)
        self._scores: dict[str, list[float]] = {law: [] for law in self._baselines}
        for baseline in self._baselines.values():
            baseline.reset()

    def _apply(self, source: Source) -> None:
        self._baselines: dict[str, Baseline] = {}
        self._skipped: dict[str, str] = {}
        for law in self._laws:
            try:
                self._baselines[law.name] = self._made(law, source)
            except InvalidInput as error:
                self._skipped[law.name] = str(error)

    def _made(self, law: Law, source: Source) -> Baseline:
        made: Baseline
        if self._knowledge is None:
            made = self._factory(law, source)
            return made
        if law.name in self._knowledge["refused"]:
            raise InvalidInput(self._knowledge["refused"][law.name])
        made = self._factory(law, source, self._knowledge["laws"][law.name])
        return made

    def frame(
        self, frame: Frame, proposal: Action | None, executed: Action | None
    ) -> None:
        """Judges one frame."""
        for law, baseline in self._baselines.items():
            self._scores[law].append(baseline.score(frame))

    def judgement(self) -> Judgement:
        """What it made of the episode."""
        thresholds = {law: each.thresholds for law, each in self._baselines.items()}
        return Judgement(self._scores, thresholds, self._skipped)
