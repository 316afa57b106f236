"""Reads run records for a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from forewarn.abstractions.errors import ForewarnError, InvalidInput
from forewarn.abstractions.vocabularies.vocabulary import (
    SHIPPED,
    Vocabulary,
    load_vocabulary,
)
from forewarn.monitors.guarding.chain import ChainWatch
from forewarn.monitors.guarding.decision import Kind, Risk
from forewarn.monitors.guarding.drift import NO_LONGER
from forewarn.monitors.guarding.encoding import decoded
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.record import (
    BrokenRecord,
    UnfinishedRecord,
    read_record,
)
from forewarn.monitors.guarding.watch import States, Watch
from forewarn.monitors.laws.judging import instances
from forewarn.plugins.loop.records import model_file
from forewarn.plugins.loop.replay import replay
from forewarn.scenarios.report.events import RunEvent, events
from forewarn.scenarios.running.scenery import Scenery, read_scene, scene_file

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """The facts about a run in the header of its record.

    Args:
        scenario: The name of the scenario, or of the source of the frames.
        title: The scenario's title.
        seed: The seed; None for a loop without seeds.
        mode: Whether the guard intervened (`guarded`) or only watched (`shadow`).
        period_s: The time between two frames, in seconds.
        vocabulary: The name of the signals' vocabulary; empty if only the model names
            it.
        model: The model's digest.
        live: Whether the run has no scenario, so that only the guard reports
            violations.
    """

    scenario: str
    title: str
    seed: int | None
    mode: str
    period_s: float
    vocabulary: str
    model: str
    live: bool


def read_lines(path: Path) -> tuple[Line, list[Line], list[str]]:
    """Returns the header and the other lines of a record, and cautions if it is
    truncated.
    """
    contents: list[Line] = []
    try:
        for line in read_record(path):
            contents.append(line.content)
    except UnfinishedRecord:
        if len(contents) < 2:
            raise
        lost = (
            f"The record has no end line after its {len(contents)} lines: it was "
            "not closed, or it was truncated."
        )
        return contents[0], contents[1:], [lost]
    return contents[0], contents[1:], []


def head_of(header: Mapping[str, Any], reviews: Sequence[Line]) -> Head:
    """Returns the facts about a run; facts missing from the header are inferred from
    the reviews.
    """
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
    """Returns the scenario's title, from the text of its file."""
    for line in text.splitlines():
        if line.startswith("title:"):
            return line.removeprefix("title:").strip().strip("\"'")
    return ""


def _period(reviews: Sequence[Line]) -> float:
    times = [float(line["time_s"]) for line in reviews]
    gaps = [after - before for before, after in zip(times, times[1:], strict=False)]
    return median(gap for gap in gaps if gap > 0.0) if any(gaps) else 1.0


def told_by_the_guard(lines: Sequence[Line]) -> Iterator[Line]:
    """Yields the lines of a live run with times from zero, and adds the violations that
    the guard found.

    A faulty frame without a time gets the time of the previous frame.
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


SLOW_S = 0.5
"""The minimum period in seconds at which each frame counts as one action, so the
animation does not interpolate between frames.
"""


@dataclass(frozen=True, slots=True)
class LawStory:
    """The course of one law over a run.

    Args:
        name: The law's name.
        text: The law's formula.
        steps: The guard's thresholds.
        risks: The risk at every frame; None if unknown.
        left_s: The seconds at every frame until a pending obligation goes unmet; None
            if none is pending.
        broken: The time of each violation and of its trigger, in seconds.
    """

    name: str
    text: str
    steps: tuple[tuple[Kind, float], ...]
    risks: tuple[Risk | None, ...]
    left_s: tuple[float | None, ...]
    broken: tuple[tuple[float, float], ...]

    @property
    def instances(self) -> list[tuple[float, float]]:
        """The intervals in which the law was broken, in seconds."""
        return instances(time_s for time_s, _ in self.broken)

    @property
    def owes_later(self) -> bool:
        """Whether the law ever had a pending obligation in this run."""
        return any(left is not None for left in self.left_s)


@dataclass(frozen=True, slots=True)
class RecordedRun(Head):
    """A run as a report shows it.

    Args:
        path: The file of the run record.
        horizon_s: The prediction horizon H of the risk, in seconds.
        sequences: The sequence numbers of the frames.
        ended: Why the run ended.
        times_s: The time of each frame, in seconds.
        signals: The value of each signal at every frame; None if absent.
        decisions: The decision at every frame.
        foreseen: The risk of the predicted state at every frame; None if the decision
            used the observed state.
        laws: The course of each law.
        events: The events in chronological order.
        watch: The models and laws from the replay; None if the record was not replayed.
        chain: The model with the highest risk in the run; None if the record was not
            replayed.
        visits: The chain's state at every frame; None if never seen in training.
        scenery: The scenes; None if they were not stored.
        unseen: The reason why there are no scenes; empty if there are scenes.
        cautions: Warnings that the report shows at the top.
        notes: Notes on how to interpret the figures.
    """

    path: Path
    horizon_s: float
    sequences: tuple[int, ...]
    ended: str
    times_s: tuple[float, ...]
    signals: Mapping[str, tuple[Any, ...]]
    decisions: tuple[Kind, ...]
    foreseen: tuple[Risk | None, ...]
    laws: tuple[LawStory, ...]
    events: tuple[RunEvent, ...]
    watch: Watch | None = None
    chain: ChainWatch | None = None
    visits: tuple[int | None, ...] = ()
    scenery: Scenery | None = None
    unseen: str = ""
    cautions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The scenario's name, with the seed if there is one."""
        return self.scenario + ("" if self.seed is None else f", seed {self.seed}")


@dataclass(slots=True)
class _Replayed:
    """The data that a replay adds to a record: each law's risk and the models'
    states.
    """

    watch: Watch | None = None
    risks: dict[str, list[Risk | None]] = field(default_factory=dict)
    left_s: dict[str, list[float | None]] = field(default_factory=dict)
    visits: list[States] = field(default_factory=list)
    problem: str = ""

    def heard(self, line: int, watch: Watch) -> None:
        self.watch = watch
        for law in watch.laws:
            known = law.point == law.point
            self.risks.setdefault(law.name, []).append(law.risk if known else None)
            self.left_s.setdefault(law.name, []).append(law.left_s)
        self.visits.append(watch.states)

    def nearest(self) -> ChainWatch | None:
        """Returns the model with the highest risk in the run."""
        return None if self.watch is None else self.watch.parts[self._number]

    def states(self) -> tuple[int | None, ...]:
        """Returns the states of the model with the highest risk, at every frame."""
        number = self._number
        return tuple(states[number] for states in self.visits)

    @property
    def _number(self) -> int:
        def top(part: ChainWatch) -> float:
            told = (risk for law in part.laws for risk in self.risks[law.name])
            return max((risk.point for risk in told if risk), default=0.0)

        parts = () if self.watch is None else self.watch.parts
        return max(range(len(parts)), key=lambda i: top(parts[i]), default=0)


def read_run(path: Path) -> RecordedRun:
    """Reads a run record, replays it, and reads the scenes next to it.

    Raises:
        BrokenRecord: The record was modified, or it contains no complete frame.
    """
    header, lines, cautions = read_lines(path)
    try:
        return _run(path, header, lines, cautions)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenRecord(
            f"a report cannot show this run: {error!r:.80}", source=str(path)
        ) from error


def _run(
    path: Path, header: dict[str, Any], lines: list[dict[str, Any]], cautions: list[str]
) -> RecordedRun:
    reviews = [line for line in lines if "decision" in line]
    if not reviews:
        raise BrokenRecord("the record has no frames", source=str(path))
    head = head_of(header, reviews)
    if head.live:
        lines = list(told_by_the_guard(lines))
        reviews = [line for line in lines if "decision" in line]
    policy = Policy.from_dict(header["policy"], f"{path}: policy")
    told = _replay(path, head, len(reviews))
    end = lines[-1] if "end" in lines[-1] else {}
    scenery, unseen = _scenery(path, head, end.get("scene"))
    decisions = [line["decision"] for line in reviews]
    risks = [_risk(each["risk"]) for each in decisions]
    laws = _laws(lines, decisions, risks, told, policy)
    cautions = [
        *_drift(decisions),
        *([f"The run failed: {end['error']}."] if end.get("error") else []),
        *cautions,
        *([told.problem] if told.problem else []),
    ]
    head = replace(head, vocabulary=head.vocabulary or _vocabulary(told.watch))
    return RecordedRun(
        **asdict(head),
        path=path,
        horizon_s=policy.horizon_s,
        sequences=tuple(int(line["sequence"]) for line in reviews),
        ended=str(end.get("ended", "the record ends")),
        times_s=tuple(float(decoded(line["time_s"])) for line in reviews),
        signals=_signals(header.get("provides"), reviews),
        decisions=tuple(each["decision"] for each in decisions),
        foreseen=tuple(
            risk if "foreseen" in line else None
            for line, risk in zip(reviews, risks, strict=True)
        ),
        laws=laws,
        events=tuple(events(lines, head.mode != "guarded", head.period_s >= SLOW_S)),
        watch=told.watch,
        chain=told.nearest(),
        visits=told.states(),
        scenery=scenery,
        unseen=unseen,
        cautions=tuple(cautions),
        notes=tuple(_unknown(told)),
    )


def vocabulary_of(run: RecordedRun) -> Vocabulary | None:
    """Returns the vocabulary of a run's signals; None if it neither ships with Forewarn
    nor is stored in the run's model.
    """
    known = None if run.watch is None else run.watch.vocabulary
    if known is not None and known.name == run.vocabulary:
        return known
    return load_vocabulary(run.vocabulary) if run.vocabulary in SHIPPED else None


def _vocabulary(watch: Watch | None) -> str:
    known = None if watch is None else watch.vocabulary
    return "" if known is None else known.name


def _replay(path: Path, head: Head, frames: int) -> _Replayed:
    told = _Replayed()
    model = model_file(path, head.model)
    try:
        alike, divergence = replay(path, model, told.heard)
    except ForewarnError as error:
        if told.watch is None:
            problem = (
                "The run cannot be replayed, so only the recorded decisions are shown"
            )
            return _Replayed(problem=f"{problem}: {error}.")
        alike, divergence = len(told.visits), None
    if divergence is not None:
        problem = (
            f"The replay differs from the record: {divergence}. Only the recorded data"
        )
        return _Replayed(problem=f"{problem} is shown.")
    if len(told.visits) != frames:
        return _Replayed(problem=f"Only {alike} of {frames} frames can be replayed.")
    return told


def _scenery(path: Path, head: Head, digest: str | None) -> tuple[Scenery | None, str]:
    file = scene_file(path)
    if not file.exists():
        return None, (
            "No scenes were stored with this run, or its world cannot be drawn."
        )
    try:
        found = read_scene(file, head.scenario, head.seed or 0)
    except InvalidInput as error:
        return None, f"The scenes next to the record cannot be read: {error}."
    if digest is not None and found.sha256 != digest:
        return None, "The scenes next to the record were modified after the run."
    if not found.moments:
        return None, f"The world could not be drawn: {found.problem}."
    return found, ""


def _risk(content: Mapping[str, Any] | None) -> Risk | None:
    return None if content is None else Risk.from_dict(content)


def _laws(
    lines: Sequence[Mapping[str, Any]],
    decisions: Sequence[Mapping[str, Any]],
    risks: Sequence[Risk | None],
    told: _Replayed,
    policy: Policy,
) -> tuple[LawStory, ...]:
    broken: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if line.get("event") == "violated":
            times = float(line["time_s"]), float(line["since_s"])
            broken.setdefault(str(line["law"]), []).append(times)
    if told.watch is not None:
        parts = {law.name: law for law in told.watch.laws}
        texts = {name: law.law.text for name, law in parts.items()}
    else:
        texts = {each["law"]: "" for each in decisions if each["law"]}
    for name in broken:
        texts.setdefault(name, "")
    stories: list[LawStory] = []
    for name, text in texts.items():
        # Without a replay, each frame has the risk of only one law.
        mine = [each["law"] == name for each in decisions]
        recorded = [r if m else None for r, m in zip(risks, mine, strict=True)]
        left = [
            each["left_s"] if m else None
            for each, m in zip(decisions, mine, strict=True)
        ]
        stories.append(
            LawStory(
                name,
                text,
                tuple((s.kind, s.threshold) for s in policy.steps_for(name)),
                tuple(told.risks.get(name, recorded)),
                tuple(told.left_s.get(name, left)),
                tuple(broken.get(name, ())),
            )
        )
    return tuple(stories)


def _signals(
    provides: Sequence[str] | None, reviews: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[Any, ...]]:
    values = [decoded(line["signals"]) for line in reviews]
    names = provides or dict.fromkeys(name for each in values for name in each)
    return {name: tuple(each.get(name) for each in values) for name in names}


def _drift(decisions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    said = (text for each in decisions for text in each.get("notes", ()))
    for note in dict.fromkeys(text for text in said if text.startswith(NO_LONGER)):
        yield f"Caution: {note}."


def _unknown(told: _Replayed) -> Iterator[str]:
    unknown = sum(None in states for states in told.visits)
    if unknown:
        share = 100 * unknown / len(told.visits)
        yield (
            f"{unknown} of {len(told.visits)} frames ({share:.1f} %) were in "
            "states never seen in training; their risk is that of the riskiest "
            "neighbouring state."
        )
