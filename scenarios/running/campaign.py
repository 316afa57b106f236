"""Campaigns: many episodes, each with its own result files.

A file's name identifies its origin: the digests of the scenario, the model and the
policy, and the seed. A killed campaign can therefore resume where it left off, and a
campaign that was split over several machines is merged by copying its files together. A
failed episode also has a result file; it is counted, and repeated only if that file is
removed.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from forewarn import __version__
from forewarn.abstractions.dataset.layout import SUFFIX, is_installed
from forewarn.abstractions.dataset.tables import RunTable, run_table
from forewarn.abstractions.dataset.writing import (
    PENDING,
    group_of,
    join,
    join_all,
    pend,
)
from forewarn.abstractions.errors import ForewarnError, InvalidInput
from forewarn.abstractions.files import atomic_text
from forewarn.abstractions.places import place
from forewarn.abstractions.readers.stored import Stored, stored_runs
from forewarn.abstractions.trace import write_trace
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.laws.lawbook import Law
from forewarn.plugins.registry import load, make_world
from forewarn.scenarios.running.episode import FORMAT, Episode, by_seed, read_episode
from forewarn.scenarios.running.plan import RunPlan, runner_of
from forewarn.scenarios.running.pools import Here, Lost, Pool, Processes
from forewarn.scenarios.running.runner import FAILED, Keep
from forewarn.scenarios.running.scenery import scene_file
from forewarn.scenarios.running.series import (
    BaselineJudge,
    Rival,
    SeriesLog,
)
from forewarn.scenarios.running.tracker import Driven, Pace, Recorder
from forewarn.scenarios.schema import Scenario

Kept = Literal["record", "trace", "columns", "series", "scene", "tally"]
"""A kind of file to keep from an episode; frames are kept as JSON Lines (`trace`) or as
columns.
"""

Progress = Callable[[Iterable[Episode], str, int], Iterable[Episode]]
"""Shows progress over episodes: takes them, what they are and their number."""

_LINES = ".jsonl.gz"


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to run.

    Args:
        plan: The settings common to all episodes.
        scenario: The scenario's name.
        seed: The episode's seed.
        folder: The folder for the episode's files.
        keep: The files to write in addition to the episode's summary.
        baselines: Other methods that score the same frames.
    """

    plan: RunPlan
    scenario: str
    seed: int
    folder: str
    keep: tuple[Kept, ...] = ()
    baselines: tuple[Rival, ...] = ()

    @property
    def family(self) -> str:
        """The prefix of the file names before the seed, shared by episodes with the
        same settings.
        """
        plan = self.plan
        made_of = [
            __version__, plan.digest, plan.model_digest, plan.policy, *plan.judges,
            sorted(self.keep), [rival.identity for rival in self.baselines],
        ]  # fmt: skip
        digest = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()
        return f"{self.scenario}-{digest[:12]}"

    @property
    def stem(self) -> str:
        """The prefix of the episode's file names."""
        return f"{self.family}-{self.seed:06}"

    @property
    def result(self) -> Path:
        """The path of the episode's summary."""
        return place(self.folder) / "episodes" / f"{self.stem}.json"

    def write(self, episode: Episode) -> None:
        """Writes the episode's summary atomically."""
        with atomic_text(self.result) as out:
            json.dump({"format": FORMAT, **episode.as_dict()}, out, allow_nan=False)


def jobs(
    plan: RunPlan,
    scenario: Scenario,
    seeds: Iterable[int],
    folder: Path,
    keep: Sequence[Kept] = (),
    baselines: Sequence[Rival] = (),
) -> list[Job]:
    """Returns one job per seed."""
    return [
        Job(plan, scenario.name, seed, str(folder), tuple(keep), tuple(baselines))
        for seed in seeds
    ]


def let_pass(seeds: Iterable[int], share: float) -> list[int]:
    """Returns about this fraction of the seeds; whether a seed is included does not
    depend on the others.
    """
    return [seed for seed in seeds if _lot(seed) < share]


def refuse_severe(laws: Iterable[Law], policy: Policy) -> None:
    """Raises `InvalidInput` if letting runs pass would disable the protection of a
    severe law.
    """
    severe = [law.name for law in laws if law.severe]
    alerts = policy.only_alerts(severe)
    acts = [law for law in severe if policy.steps_for(law) and law not in alerts]
    if acts and not policy.shadow:
        raise InvalidInput(
            f"--let-pass cannot be used with severe laws: {', '.join(acts)}",
            mend="count all runs with --shadow, or watch other laws with --law",
        )


def _lot(seed: int) -> float:
    """Returns a pseudo-random number from 0 to 1 for a seed, independent of the seed's
    run.
    """
    digest = hashlib.sha256(f"let pass {seed}".encode()).digest()
    return float(int.from_bytes(digest[:4], "big") / 2**32)


def pool(processes: int, on: str | None = None) -> Pool:
    """Creates a pool; for one process, jobs run in this process.

    Args:
        processes: The number of processes.
        on: The address of a Ray cluster to run on; None for this machine.
    """
    if on is not None:
        from forewarn.scenarios.running.on_ray import OnRay

        return OnRay(on, processes)
    return Here() if processes == 1 else Processes(processes)


def campaign(
    todo: Sequence[Job], on: Pool, again: bool = False
) -> Generator[Episode, None, None]:
    """Yields the episodes of all jobs, existing ones first; missing ones are run.

    Args:
        todo: The episodes to run.
        on: The pool in which the episodes run.
        again: Whether to repeat existing runs.
    """
    left: list[Job] = []
    for job in todo:
        if not again and job.result.exists():
            yield read_episode(job.result)
        else:
            left.append(job)
    with _Joined(left, todo) as joined:
        if not left:
            return
        _tidy(left)
        # Records need the model, so it is written before them.
        if "record" in left[0].keep:
            left[0].plan.keep_model(place(left[0].folder))
        with closing(on.map(play, left)) as done:  # type: ignore[type-var]
            for job, episode in done:
                if isinstance(episode, Lost):
                    mode = job.plan.mode
                    # No result is written, so the next campaign runs the episode again.
                    _tidy([job])
                    episode = Episode(
                        seed=job.seed, mode=mode, ended=FAILED, error=episode.error
                    )
                joined.done(job)
                yield episode


def all_of(
    todo: Sequence[Job], on: Pool, what: str, progress: Progress
) -> list[Episode]:
    """Runs all jobs; returns the episodes in the order of their seeds.

    Raises:
        InvalidInput: A run failed.
    """
    found = by_seed(list(progress(campaign(todo, on), what, len(todo))))
    if failed := [each for each in found if each.failed]:
        raise InvalidInput(f"seed {failed[0].seed} failed: {failed[0].error}")
    return found


def _tidy(left: Sequence[Job]) -> None:
    """Removes incomplete files of these episodes that a dead process left behind."""
    first, seeds = left[0], {f"{job.seed:06}" for job in left}
    own, prefix = place(first.folder), f".{first.family}-"
    for folder in (own, own / PENDING, first.result.parent):
        for half in folder.glob(f"{glob.escape(prefix)}*"):
            if half.name.removeprefix(prefix).partition(".")[0] in seeds:
                half.unlink(missing_ok=True)


def finished(job: Job) -> list[Episode]:
    """Returns all runs in the job's folder with the same settings, also those of
    earlier campaigns, in the order of their seeds.
    """
    files = job.result.parent.glob(f"{job.family}-*.json")
    return by_seed([read_episode(each) for each in files])


class _Joined:
    """Merges the columns of episodes into larger files, as soon as all episodes of a
    file are done.

    If the campaign ends early, the finished episodes are merged too.
    """

    def __init__(self, left: Sequence[Job], todo: Sequence[Job]) -> None:
        kept = [job for job in todo if "columns" in job.keep]
        self._families = {job.family: place(job.folder) for job in kept[:1]}
        self._left = Counter(group_of(job.seed) for job in left)

    def __enter__(self) -> _Joined:
        return self

    def done(self, job: Job) -> None:
        group = group_of(job.seed)
        self._left[group] -= 1
        if not self._left[group]:
            for family, folder in self._families.items():
                join(folder, family, group)

    def __exit__(self, *_: object) -> None:
        for family, folder in self._families.items():
            join_all(folder, family)


def frames_kept(folder: Path) -> Kept:
    """Returns the format for frames in a folder: its current one, or else columns if
    pyarrow is installed.
    """
    begun = next(folder.glob(f"*{_LINES}"), None) is not None
    return "columns" if is_installed() and not begun else "trace"


def kept_in(folder: Path, episodes: Iterable[Episode]) -> list[Stored]:
    """Returns the stored traces of these episodes in the campaign's folder."""
    parts = stored_runs(sorted(folder.glob(f"*{SUFFIX}")))
    columns = {run.run: run for run in parts}
    names = (episode.trace for episode in episodes if episode.trace is not None)
    return [columns.get(name) or Stored(folder / name) for name in names]


def play(job: Job) -> Episode:
    """Runs one episode and writes its files."""
    runner = runner_of(job.plan)
    folder, keep = place(job.folder), job.keep
    names: dict[Kept, str] = {
        "record": f"{job.stem}.run.jsonl",
        "trace": f"{job.stem}{_LINES}",
        "series": f"{job.stem}.series.json.gz",
        "tally": f"{job.stem}.tally.json.gz",
    }
    guarding = runner.guarding
    log = SeriesLog(guarding.policy if guarding else Policy())
    recorder = Recorder()
    judges = _judges(job.plan, job.baselines)
    listeners: list[Listener] = [recorder] if {"trace", "columns"} & {*keep} else []
    if "series" in keep:
        listeners.append(log)
    driven = Driven()
    if job.plan.pace:
        listeners.append(Pace(job.plan.pace))
    recorded = "record" in keep and guarding is not None
    episode = runner.run(
        job.seed,
        Keep(
            folder / names["record"] if recorded else None,
            (*listeners, *judges, driven),
            scene_file(folder / names["record"]) if "scene" in keep else None,
            folder / names["tally"] if "tally" in keep else None,
        ),
    )
    if recorded:
        episode = replace(episode, record=names["record"])
    if "tally" in keep and (folder / names["tally"]).exists():
        episode = replace(episode, tally=names["tally"])
    if not episode.failed:
        episode = replace(episode, facts={**episode.facts, **driven.facts()})
        try:
            if "trace" in keep:
                write_trace(
                    folder / names["trace"], recorder.trace(job.scenario, episode)
                )
                episode = replace(episode, trace=names["trace"])
            if "columns" in keep:
                pend(folder, _table(job, recorder, episode))
                episode = replace(episode, trace=job.stem)
            if "series" in keep:
                log.series(judges).write(folder / names["series"])
                episode = replace(episode, series=names["series"])
        except ForewarnError as error:
            episode = replace(episode, ended=FAILED, error=str(error))
    job.write(episode)
    return episode


@lru_cache(maxsize=2)
def _judges(plan: RunPlan, baselines: tuple[Rival, ...]) -> tuple[BaselineJudge, ...]:
    """Creates the baselines of a plan, once per process because this takes time."""
    laws = runner_of(plan).scenario.laws
    return tuple(BaselineJudge(rival, laws) for rival in baselines)


def _table(job: Job, recorder: Recorder, episode: Episode) -> RunTable:
    """Converts the recorded frames to columns."""
    trace = recorder.trace(job.scenario, episode)
    noted = ((f, trace.notes.get(i)) for i, f in enumerate(trace.frames))
    vocabulary = runner_of(job.plan).scenario.abstraction.vocabulary
    return run_table(job.stem, trace.header, noted, vocabulary)


def recordings(scenario: Scenario) -> int | None:
    """Returns the number of recordings in the scenario's world; None if it is
    simulated.
    """
    if not hasattr(load("world", scenario.world.name), "episodes"):
        return None
    settings = scenario.settings(scenario.world, 0)
    with closing(make_world(scenario.world.name, settings, scenario.source)) as world:
        count: int = world.episodes  # type: ignore[attr-defined]
        return count if world.source.fixed else None


def recorded_files(scenario: Scenario) -> list[str]:
    """Returns the file name of each recording of a log scenario, in order; empty if a
    file contains several recordings, or if the world is simulated.
    """
    if not hasattr(load("world", scenario.world.name), "episodes"):
        return []
    settings = scenario.settings(scenario.world, 0)
    with closing(make_world(scenario.world.name, settings, scenario.source)) as world:
        names: list[str] = getattr(world, "names", [])
        return names if len(names) == getattr(world, "episodes", 0) else []
