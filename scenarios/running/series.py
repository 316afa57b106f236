"""The risk at every frame of an episode, for measuring."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import atomic_text, read_json, write_json
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.readers.stored import Stored
from forewarn.abstractions.serial import from_json, to_json
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import Watch
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.evidence import dealt, needed_abstraction
from forewarn.plugins.contracts import Baseline, LearningBaseline, Lessons, Source
from forewarn.plugins.registry import load

FORMAT = "forewarn.series/1"

Score = Annotated[
    float,
    PlainSerializer(lambda value: value if math.isfinite(value) else None),
    BeforeValidator(lambda value: math.nan if value is None else value),
]
"""A number that files store as null if it is unknown."""

Numbers = Mapping[str, Sequence[Score]]
"""For each law, one number per frame or per threshold."""


@dataclass(frozen=True, slots=True)
class BaselineScores:
    """The scores of a baseline in one episode.

    Args:
        scores: The score at every frame, by law.
        thresholds: For each law, the lowest score at which the baseline raises an
            alarm.
        skipped: The laws that the baseline cannot evaluate, and why.
    """

    scores: Numbers
    thresholds: Numbers
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Series:
    """The estimated risk at every frame of one episode.

    Args:
        times_s: The time of each frame, in seconds.
        risks: The risk that the policy compares with its thresholds, by law; NaN if
            unknown.
        forced: The frames at which the guard intervenes regardless of the threshold,
            because its inputs are faulty, or because the state is unknown and the
            policy stops in unknown states.
        baselines: The scores of other methods on the same frames, by name.
    """

    times_s: Sequence[float]
    risks: Numbers
    forced: frozenset[int] = frozenset()
    baselines: Mapping[str, BaselineScores] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Writes the series as JSON, compressed if the path ends in `.gz`."""
        with atomic_text(path) as out:
            content = {"format": FORMAT, **to_json(self)}
            json.dump(content, out, separators=(",", ":"), allow_nan=False)


def read_series(path: Path) -> Series:
    """Reads a series."""
    content: Any = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidInput(f"not a series of format {FORMAT}", source=str(path))
    return from_json(Series, content, str(path))


class SeriesLog(Listener):
    """Records the estimated risk at every frame.

    Args:
        policy: The policy, which determines the treatment of unknown states.
    """

    def __init__(self, policy: Policy) -> None:
        self._unknown_stops = policy.unknown_state == "stop"
        self._times: list[float] = []
        self._risks: dict[str, list[float]] = {}
        self._forced: set[int] = set()

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Records one frame."""
        if decision.risk is None or (watch.unknown and self._unknown_stops):
            self._forced.add(len(self._times))
        self._times.append(frame.time_s)
        for law in watch.laws:
            risk = math.nan
            if decision.risk is not None:
                risk = law.judged
            self._risks.setdefault(law.name, []).append(risk)

    def series(self, judges: Sequence[BaselineJudge] = ()) -> Series:
        """Returns the recorded series, with the baselines' scores."""
        return Series(
            self._times,
            self._risks,
            frozenset(self._forced),
            {judge.name: judge.judgement() for judge in judges},
        )


class BaselineJudge(Listener):
    """Computes a baseline's scores frame by frame, for every law that it can evaluate.

    Args:
        rival: The baseline, with its learned parameters.
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
        """Scores one frame."""
        for law, baseline in self._baselines.items():
            self._scores[law].append(baseline.score(frame))

    def judgement(self) -> BaselineScores:
        """Returns the baseline's scores in the episode."""
        thresholds = {law: each.thresholds for law, each in self._baselines.items()}
        return BaselineScores(self._scores, thresholds, self._skipped)


BASELINE_FORMAT = "forewarn.baseline/1"


@dataclass(frozen=True, slots=True)
class Rival:
    """A baseline to compare with the guard.

    Args:
        name: The baseline's registered name.
        file: The file with the learned parameters; empty if the baseline needs no
            training.
        digest: The digest of the learned parameters.
    """

    name: str
    file: str = ""
    digest: str = ""

    @property
    def identity(self) -> str | list[str]:
        """The data that identifies the baseline in the digest of file names."""
        return [self.name, self.digest] if self.digest else self.name


def learns(name: str) -> bool:
    """Whether a baseline must be trained before use."""
    return isinstance(load("baseline", name), LearningBaseline)


LessonsOf = Mapping[str, Lessons]
"""The training data for baselines, by law."""


def lessons_of(
    path: Path, laws: Sequence[Law], traces: Sequence[Stored], horizon_s: float
) -> LessonsOf:
    """Returns the training data for baselines; the traces must be those that the models
    were learned from.
    """
    models = load_models(path)
    found: dict[str, Lessons] = {}
    for model, of in zip(models, dealt(models, laws), strict=True):
        abstraction = needed_abstraction(model, str(path))
        period_s = traces[0].kept((), abstraction.vocabulary).header.period_s
        if period_s is None:
            source = str(traces[0].path)
            raise InvalidInput("the header has no period_s", source=source)
        lessons = Lessons(tuple(traces), period_s, abstraction, horizon_s)
        found |= {law.name: lessons for law in of}
    return found


def rivals(
    names: Sequence[str], laws: Sequence[Law], lessons: LessonsOf | None, folder: Path
) -> tuple[Rival, ...]:
    """Returns the baselines with these names, trained if necessary.

    Args:
        names: The registered names of the baselines.
        laws: The laws of the scenario.
        lessons: The training data; None if no baseline needs training.
        folder: The folder for the learned parameters.
    """
    found: list[Rival] = []
    for name in names:
        if not learns(name):
            found.append(Rival(name))
        elif lessons is None:
            raise InvalidInput(
                f"the baseline {name} must be trained, but there are no training runs",
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
    content = {
        "format": BASELINE_FORMAT,
        "name": name,
        "laws": learned,
        "refused": refused,
    }
    text = json.dumps(content, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = folder / "baselines" / f"{name}-{digest[:12]}.json"
    write_json(path, content)
    return Rival(name, str(path), digest)


@lru_cache(maxsize=16)
def knowledge(rival: Rival) -> dict[str, Any] | None:
    """Reads a baseline's learned parameters; None if it needs no training."""
    if not rival.file:
        return None
    content = read_json(Path(rival.file))
    if not isinstance(content, dict) or content.get("format") != BASELINE_FORMAT:
        problem = f"not of format {BASELINE_FORMAT}"
        raise InvalidInput(problem, source=rival.file)
    return content
