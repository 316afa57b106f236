"""Progress, messages and the choice of seeds, for commands that run scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.abstractions.errors import InvalidInput
from forewarn.cli.command import (
    given_options,
)
from forewarn.cli.groups import (
    Working,
)
from forewarn.cli.printing import (
    progress,
)

if TYPE_CHECKING:
    from forewarn.plugins.sumo.bridge import SumoWorld
    from forewarn.scenarios.running.episode import Episode
    from forewarn.scenarios.schema import Scenario
    from forewarn.scenarios.warrant.runs import Facts


def recorded_by(path: Path, working: Working) -> Path:
    """Writes all recordings of a log scenario as traces to a temporary folder.

    The folder is deleted when the command ends.
    """
    from tempfile import TemporaryDirectory

    from forewarn.abstractions.files import format_of, other_kind, read_text
    from forewarn.scenarios.running.campaign import recordings
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.training.train import collected

    text = read_text(path)
    if format_of(text) not in ("", "forewarn.scenario"):
        problem = other_kind(text, "a trace")
        mend = "give a file that `forewarn collect` wrote, or a CSV file"
        raise InvalidInput(problem, source=str(path), mend=mend)
    scenario = load_scenario(path)
    count = recordings(scenario)
    if count is None:
        raise InvalidInput(
            "the world of this scenario is simulated and has no recordings",
            source=str(path),
            mend="record traces with `forewarn collect`, and give their folder",
        )
    folder = Path(click.get_current_context().with_resource(TemporaryDirectory()))
    collected(scenario, range(count), working.pool(), folder, counted)
    return folder


def with_recordings(
    logs: Sequence[Path], working: Working
) -> tuple[Sequence[Path], Path | None]:
    """Returns the logs; a scenario file, which is returned too, is replaced with the
    traces of its recordings.
    """
    from forewarn.abstractions.vocabularies.vocabulary import YAML

    if not any(path.suffix in YAML for path in logs):
        return logs, None
    if len(logs) > 1:
        raise click.UsageError("a log scenario cannot be combined with other inputs")
    return [recorded_by(logs[0], working)], logs[0]


def facts_about(logs: Sequence[Path], table: Path | None) -> Facts:
    """Reads the facts about runs: from a table, or from the one next to the logs."""
    from forewarn.abstractions.vocabularies.vocabulary import YAML
    from forewarn.scenarios.running.campaign import recorded_files
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.warrant.runs import Facts

    facts = Facts.beside(logs) if table is None else Facts.read(table)
    if logs[0].suffix not in YAML or not facts.columns:
        return facts
    return facts.by_order(recorded_files(load_scenario(logs[0])))


def sumo_world(scenario: Scenario, seed: int) -> SumoWorld:
    """Returns the SUMO world of a scenario.

    Raises:
        InvalidInput: The scenario does not run on SUMO.
    """
    from forewarn.plugins.registry import make_world
    from forewarn.plugins.sumo.bridge import SumoWorld

    settings = scenario.settings(scenario.world, seed)
    world = make_world(scenario.world.name, settings, scenario.source)
    if not isinstance(world, SumoWorld):
        world.close()
        raise InvalidInput(
            f"the scenario {scenario.name} does not run on SUMO",
            mend="choose a driving scenario; `forewarn scenarios` lists them",
        )
    return world


def unknown_to(model: Path, scenario: Scenario, first: int, count: int) -> range:
    """Returns the requested seeds; by default, seeds not used to learn the model."""
    from forewarn.scenarios.measuring.seeds import unknown_seeds

    given = given_options()
    seed = first if "seed" in given else None
    wanted = count if "episodes" in given else None
    return unknown_seeds(model, scenario, seed, wanted, first, count)


def counted(episodes: Iterable[Episode], what: str, total: int) -> Iterator[Episode]:
    """Yields the runs, and shows a progress line with counts."""
    seen = {"violations": 0, "alarms": 0, "interventions": 0, "failed": 0}

    def so_far() -> str:
        said = (f"{number} {name}" for name, number in seen.items() if number)
        return "".join(f", {part}" for part in said)

    def heard() -> Iterator[Episode]:
        for episode in episodes:
            seen["violations"] += len(episode.violations)
            seen["alarms"] += len(episode.alarms)
            seen["interventions"] += len(episode.interventions)
            seen["failed"] += episode.failed
            yield episode

    yield from progress(heard(), what, total, so_far)


def failure_lines(episodes: Sequence[Episode], folder: Path | None) -> Iterator[str]:
    """Yields lines about failed runs."""
    failed = [episode for episode in episodes if episode.failed]
    if failed:
        yield (
            f"{len(failed)} of {len(episodes)} runs failed, the first with seed"
            f" {failed[0].seed}: {failed[0].error}"
        )
        if folder is not None:
            yield f"Their results are kept in {folder}; --rerun repeats all runs."
