"""Reads stored runs (traces and run records), replays them through a guard, or repeats
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from forewarn.abstractions.dataset.layout import SUFFIX
from forewarn.abstractions.errors import InvalidInput, InvalidModel, mend_of
from forewarn.abstractions.files import parse_json
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.lines import first_line
from forewarn.abstractions.places import files_below
from forewarn.abstractions.readers.stored import Stored, batches, stored_runs
from forewarn.abstractions.trace import Kept, Trace, TraceHeader
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.guarding.encoding import decoded
from forewarn.monitors.guarding.record import FORMAT as RECORD
from forewarn.monitors.guarding.record import BrokenRecord, read_record
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.training import digest_of_runs
from forewarn.plugins.contracts import Source
from forewarn.plugins.loop.guarding import Guarding
from forewarn.scenarios.measuring.seeds import seeds_of, trained_seeds
from forewarn.scenarios.running.campaign import Kept as KeptOf
from forewarn.scenarios.running.campaign import Progress, campaign, jobs, kept_in
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import Pool
from forewarn.scenarios.running.runner import FAILED
from forewarn.scenarios.running.scenery import SUFFIX as SCENE
from forewarn.scenarios.running.series import (
    BaselineJudge,
    Rival,
    Series,
    SeriesLog,
)
from forewarn.scenarios.running.tracker import Tracker, Truth
from forewarn.scenarios.schema import Scenario
from forewarn.scenarios.shipped import shipped_with


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One stored run.

    Args:
        path: The file of the run, or the part of a dataset that contains it.
        scenario: The scenario that was run.
        seed: The run's seed.
        source: The source of the frames.
        frames: All frames of the run.
        error: Why the run is incomplete; empty if it is complete.
    """

    path: Path
    scenario: str
    seed: int
    source: Source
    frames: tuple[Frame, ...]
    error: str = ""


def recorded_runs(folder: Path) -> list[Stored]:
    """Lists the traces and run records in a folder, from single files and datasets."""
    if not folder.exists():
        mend = mend_of(FileNotFoundError(), folder)
        if folder.name.isdigit():
            mend = "for a number of runs, use --episodes"
        problem = "there is no such folder"
        raise InvalidInput(problem, source=str(folder), mend=mend)
    endings = (".jsonl", ".jsonl.gz", SUFFIX)
    paths = [
        path
        for path in files_below(folder)
        if path.name.endswith(endings) and not path.name.endswith(SCENE)
    ]
    if not paths:
        raise InvalidInput(
            "the folder contains no trace or run record",
            source=str(folder),
            mend=f"record traces with `forewarn collect … --out {folder}`",
        )
    return stored_runs(paths)


def is_record(run: Stored) -> bool:
    """Whether a stored run is a run record and not a trace."""
    if run.run:
        return False
    head = first_line(run.path)
    content = parse_json(head, str(run.path), "line 1") if head.startswith("{") else {}
    return isinstance(content, dict) and content.get("format") == RECORD


def read_run(run: Stored) -> StoredRun:
    """Reads a trace or a run record.

    Raises:
        InvalidInput: The run cannot be read, or a guard intervened in it, so that its
            outcome without a guard is unknown.
    """
    if is_record(run):
        return _from_record(run.path)
    trace = run.trace()
    source, seed = check_header(run, trace.header)
    return StoredRun(run.path, trace.header.scenario, seed, source, trace.frames)


def check_header(run: Stored, header: TraceHeader) -> tuple[Source, int]:
    """Returns the source and the seed of a trace.

    Raises:
        InvalidInput: The header lacks the period or the seed, or a guard intervened in
            the run.
    """
    _refuse_guarded(run.path, header.guarded)
    if header.period_s is None or header.seed is None:
        raise InvalidInput(
            "the header lacks period_s or seed",
            source=str(run.path),
            mend="write traces with `forewarn collect`",
        )
    source = Source(
        header.source, header.vocabulary or "", header.provides, header.period_s
    )
    return source, header.seed


def _refuse_guarded(path: Path, guarded: bool) -> None:
    if guarded:
        raise InvalidInput(
            "a guard intervened in this run, so its unguarded outcome is unknown",
            source=str(path),
            mend="use runs without a guard, or in shadow mode",
        )


def _from_record(path: Path) -> StoredRun:
    lines = read_record(path)
    header: dict[str, Any] = next(lines).content
    try:
        _refuse_guarded(path, header["mode"] == "guarded")
        source = Source(
            header["source"],
            header["vocabulary"],
            tuple(header["provides"]),
            header["period_s"],
        )
        scenario, seed = header["scenario"]["name"], header["seed"]
    except (KeyError, TypeError) as error:
        raise BrokenRecord(f"the header lacks {error}", source=str(path)) from error
    frames: list[Frame] = []
    problem = ""
    try:
        for line in lines:
            content = line.content
            if "decision" in content:
                values = decoded(content["signals"])
                frames.append(Frame(content["time_s"], content["sequence"], values))
            problem = str(content.get("error", ""))
    except BrokenRecord as error:
        problem = str(error)
    return StoredRun(path, scenario, seed, source, tuple(frames), problem)


class Spectator:
    """Replays stored runs through a guard in shadow mode, one after the other.

    Args:
        guarding: The parts of the guard.
        laws: The laws of the scenario.
        baselines: Other methods that score the same frames.
    """

    def __init__(
        self,
        guarding: Guarding,
        laws: Sequence[Law],
        baselines: Sequence[Rival] = (),
    ) -> None:
        self._guarding, self._laws = guarding, tuple(laws)
        self._judges = [BaselineJudge(rival, laws) for rival in baselines]
        self._made: tuple[Source, int] | None = None

    def look(self, run: StoredRun) -> tuple[Episode, Series]:
        """Returns the episode, with the decisions that the guard would have made, and
        its risks.
        """
        if run.error or not run.frames:
            error = run.error or "the run has no frames"
            failed = Episode(seed=run.seed, mode="shadow", ended=FAILED, error=error)
            return failed, Series((), {})
        made = run.source, os.getpid()  # a forked process needs its own guard
        if made != self._made:
            try:
                self._loop = self._guarding.open(run.source)
            except InvalidModel as error:
                place = f"vocabulary {run.source.vocabulary}"
                raise error.within(str(run.path), place) from None
            self._truth = Truth(self._laws, run.source)
            self._made = made
        loop, truth, log = self._loop, self._truth, SeriesLog(self._guarding.policy)
        truth.reset()
        tracker = Tracker()
        loop.prepare(listeners=(tracker, log, *self._judges))
        loop.begin(None)
        for frame in run.frames:
            truth.frame(frame)
            loop.review(frame)
            for judge in self._judges:
                judge.frame(frame, None, None)
        loop.close("the recording ended")
        truth.finish()
        episode = Episode(
            seed=run.seed,
            mode="shadow",
            ended="the recording ended",
            duration_s=run.frames[-1].time_s - run.frames[0].time_s,
            frames=len(run.frames),
            violations=tuple(truth.broken),
            alarms=tuple(tracker.alarms),
            decisions=tracker.decisions,
            unknown=tracker.unknown,
            states=tracker.states,
            outcomes=tracker.outcomes(truth.broken),
        )
        return episode, log.series(self._judges)


def look_at_all(
    runs: Sequence[Stored], spectator: Spectator
) -> Iterator[tuple[Episode, Series]]:
    """Yields each run's episode and risks, as `Spectator.look` returns them."""
    for run in runs:
        yield spectator.look(read_run(run))


def training_runs(
    scenario: Scenario,
    model: Path,
    on: Pool,
    folder: Path,
    progress: Progress = lambda items, *_: items,
) -> list[Stored]:
    """Repeats a model's training runs.

    Raises:
        InvalidInput: The model does not list its training runs, or a repeated run
            differs from the original.
    """
    entries = [
        entry
        for entry in load_models(model)[0].training.get("files", ())
        if entry.get("scenario") == scenario.name and seeds_of(entry)
    ]
    if not entries:
        raise InvalidInput(
            f"the model does not list the runs of {scenario.name} that it was "
            "learned from",
            source=str(model),
            mend="give the traces of held-out runs with --runs",
        )
    # The format must be the original one, so that digests can be compared.
    seeds = sorted({seed for entry in entries for seed in seeds_of(entry)})
    todo = jobs(plan(scenario), scenario, seeds, folder, [kept_then(entries)])
    done = list(progress(campaign(todo, on), "training runs", len(todo)))
    whole = [episode for episode in done if not episode.failed]
    runs = {
        episode.seed: run
        for episode, run in zip(whole, kept_in(folder, whole), strict=True)
    }
    for entry in entries:
        told = [runs[seed].digest for seed in seeds_of(entry) if seed in runs]
        digest = told[0] if "seed" in entry and told else digest_of_runs(told)
        if digest != entry["sha256"]:
            named = seeds_of(entry)
            which = f"run with seed {named[0]} has"
            if len(named) > 1:
                which = f"runs with seeds {named[0]} to {named[-1]} have"
            raise InvalidInput(
                f"the training {which} a different result now",
                source=str(model),
                mend="give the original traces with --runs, or learn a new model",
            )
    return sorted(runs.values())


def kept_then(entries: Iterable[Mapping[str, Any]]) -> KeptOf:
    """Returns the format in which a model's training runs were stored."""
    return "columns" if any("seeds" in entry for entry in entries) else "trace"


def kept_runs(
    runs: Sequence[Stored],
    names: Iterable[str] | None = None,
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda x, *_: x,
) -> list[Kept]:
    """Reads stored runs with the named signals; with all signals if `names` is None."""
    read = _read(runs, None if names is None else list(names))
    return list(progress(read, "runs read", len(runs)))


def _read(runs: Sequence[Stored], names: Sequence[str] | None) -> Iterator[Kept]:
    for recorded, some in groupby(runs, is_record):
        if recorded:
            yield from (_of_record(run, names) for run in some)
            continue
        for batch in batches(some, names):
            for run, kept in zip(batch.runs, batch.apart(), strict=True):
                check_header(run, kept.header)
                yield kept


def _of_record(run: Stored, names: Sequence[str] | None) -> Kept:
    record = read_run(run)
    if record.error:
        raise InvalidInput(record.error, source=str(run.path))
    source = record.source
    header = TraceHeader(
        source.vocabulary, source.provides, source.period_s, record.scenario,
        record.seed, source.name,
    )  # fmt: skip
    return Kept.of(Trace(header, record.frames), names or source.provides)


def applicable(laws: Sequence[Law], runs: Sequence[Kept]) -> list[Law]:
    """Returns the laws whose signals the runs' source can provide."""
    header = runs[0].header
    return [law for law in laws if all(map(header.can_know, law.signals))]


def shipped_runs(scenario: Scenario) -> tuple[list[int], KeptOf]:
    """Returns the training seeds of the model that ships with a scenario, and the
    format of its training runs.
    """
    files = shipped_with(scenario)
    if files is None:
        raise InvalidInput(f"no model ships with {scenario.name}")
    model = load_models(files.model)[0]  # all share their training runs
    kept = kept_then(model.training.get("files", ()))
    return sorted(trained_seeds(model, scenario.name)), kept
