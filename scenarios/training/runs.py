"""The runs that are trained and tuned on: run once more, or read from files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.readers.stored import Stored, batches
from forewarn.abstractions.trace import Kept, Trace, TraceHeader
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.training import digest_of_runs
from forewarn.scenarios.measuring.measure import Progress, seeds_of
from forewarn.scenarios.measuring.recorded import check_header, is_record, read_run
from forewarn.scenarios.running.campaign import Kept as KeptOf
from forewarn.scenarios.running.campaign import campaign, jobs, kept_in
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools.local import Pool
from forewarn.scenarios.schema import Scenario


def training_runs(
    scenario: Scenario,
    model: Path,
    on: Pool,
    folder: Path,
    progress: Progress = lambda items, *_: items,
) -> list[Stored]:
    """The runs that a model was learned from, run once more.

    Raises:
        InvalidInput: The model does not say which they were, or they come out
            differently now.
    """
    entries = [
        entry
        for entry in load_models(model)[0].training.get("files", ())
        if entry.get("scenario") == scenario.name and seeds_of(entry)
    ]
    if not entries:
        raise InvalidInput(
            f"it does not say which runs of {scenario.name} it was learned from",
            source=str(model),
            mend="give their traces with --runs",
        )
    # As they were kept then, so that their digests can be compared.
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
            which = f"run with seed {named[0]} comes"
            if len(named) > 1:
                which = f"runs with seeds {named[0]} to {named[-1]} come"
            raise InvalidInput(
                f"the training {which} out differently now",
                source=str(model),
                mend="give the traces with --runs, or learn anew",
            )
    return sorted(runs.values())


def kept_then(entries: Iterable[Mapping[str, Any]]) -> KeptOf:
    """How the runs were kept that a model names."""
    return "columns" if any("seeds" in entry for entry in entries) else "trace"


def kept_runs(
    runs: Sequence[Stored],
    names: Iterable[str] | None = None,
    progress: Callable[[Iterable[Any], str, int], Iterable[Any]] = lambda x, *_: x,
) -> list[Kept]:
    """Runs on file, with these signals or all."""
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
    """The laws that the runs' source can answer."""
    header = runs[0].header
    return [law for law in laws if all(map(header.can_know, law.signals))]
