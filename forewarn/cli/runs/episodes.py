"""What the commands that run episodes share: options, progress, sentences."""

from __future__ import annotations

import re
from collections.abc import (
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.options.models import facts_of
from forewarn.cli.support import Count, given_options, keyed, progress

if TYPE_CHECKING:
    from forewarn.scenarios.running.episode import Episode
    from forewarn.scenarios.schema import Scenario

NAME_WIDTH = 40

world_option = click.option(
    "--world",
    metavar="NAME",
    help="Run it in this world instead of its own: `carla` takes SUMO's scenarios."
    " SCENARIO@NAME means the same.",
)
pilot_option = click.option(
    "--pilot",
    metavar="NAME",
    help="Who drives instead of the scenario's own pilot, such as driving-llm.",
)
settings_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the pilot, such as model=ollama:llama3.1; may be repeated.",
)
jobs_option = click.option(
    "--jobs",
    type=Count(min=1),
    default=1,
    show_default=True,
    help="How many processes share the work.",
)


def _ray(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None or value == "ray" or re.fullmatch(r"ray://[^\s/]+:\d+", value):
        return value
    raise click.BadParameter(f"{value!r:.60} is neither ray nor ray://HOST:PORT")


on_option = click.option(
    "--on",
    metavar="ray[://HOST:PORT]",
    callback=_ray,
    help="Do the work on Ray: on a cluster, or on one that is started here and ended"
    " with the command. --jobs says how many at a time.",
)
again_option = click.option(
    "--again", is_flag=True, help="Run also what is in the folder already."
)


def scenario_named(name: str, world: str | None) -> Scenario:
    """The scenario of that name, in its own world or in another."""
    from forewarn.scenarios.schema import load_scenario

    scenario = load_scenario(name)
    return scenario if world is None else scenario.on(world)


def driven_by(
    scenario: Scenario, name: str | None, settings: Sequence[str]
) -> Scenario:
    """The scenario with another pilot, or other settings of its own."""
    from forewarn.scenarios.schema import Plug

    given = keyed(settings, "--set")
    if name is None:
        name, given = scenario.pilot.name, {**scenario.pilot.settings, **given}
    return scenario.driven_by(Plug(name=name, settings=given))


purpose_option = click.option(
    "--for",
    "purpose",
    type=click.Choice(["alert", "stop"]),
    default="alert",
    show_default=True,
    help="Which of the policies that ship: the one that alerts, or the one that was"
    " tuned with the guard stepping in (`forewarn tune --for stop`).",
)


def unless_given(
    scenario: Scenario,
    model: Path | None,
    policy: Path | None,
    accept: bool = False,
    purpose: str = "alert",
) -> tuple[Path | None, Path | None, str]:
    """The model and the policy that were given, or else those that ship.

    The third says so, where they do. A model of something else is refused, unless it
    is accepted all the same.
    """
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.monitors.chains.model import load_models, refuse_other
    from forewarn.scenarios.shipped import shipped_with

    if model is not None and not accept:
        for each in load_models(model):
            refuse_other(each, str(model), **facts_of(scenario))
    if model is not None and policy is None and purpose != "alert":
        raise InvalidInput(
            f"--for {purpose} is a policy that ships, for the model that ships",
            mend="give yours with --policy beside --model",
        )
    if model is not None or (files := shipped_with(scenario)) is None:
        return model, policy, ""
    said = f"Guarded by the model that ships with {scenario.name}"
    if policy is None:
        policy = files.policy_for(purpose)
        if not policy.exists():
            raise InvalidInput(
                f"no policy to {purpose} ships with {scenario.name}",
                mend=f"make one: forewarn tune {scenario.name} --for {purpose}",
            )
        said += f", at the thresholds tuned to {purpose}"
    return files.model, policy, f"{said}."


def recordings(scenario: Scenario) -> int | None:
    """How many runs the scenario's world has recorded; None: it is run."""
    from forewarn.plugins.registry import load, make_world

    if not hasattr(load("world", scenario.world.name), "episodes"):
        return None
    settings = scenario.settings(scenario.world, 0)
    with closing(make_world(scenario.world.name, settings, scenario.source)) as world:
        count: int = world.episodes  # type: ignore[attr-defined]
        return count if world.source.fixed else None


def recorded_by(path: Path, jobs: int, on: str | None) -> Path:
    """A folder with the traces of all that a scenario's world has recorded.

    It is there until the command ends.
    """
    from tempfile import TemporaryDirectory

    from forewarn.abstractions.errors import InvalidInput
    from forewarn.scenarios.running.campaign import pool
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.training.train import collected

    scenario = load_scenario(path)
    count = recordings(scenario)
    if count is None:
        raise InvalidInput(
            "its world is run, and holds no recordings",
            source=str(path),
            mend="write traces with `forewarn collect`, and give these",
        )
    kept = click.get_current_context().with_resource(TemporaryDirectory())
    folder = Path(kept)
    collected(scenario, range(count), pool(jobs, on), folder, counted)
    return folder


def unknown_to(model: Path, scenario: Scenario, first: int, count: int) -> range:
    """The seeds that were asked for, or else some that the model does not know.

    Of recordings all that it does not know.
    """
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.monitors.chains.model import load_models
    from forewarn.scenarios.measuring.measure import trained_seeds

    given, held = given_options(click.get_current_context()), recordings(scenario)
    if "seed" not in given:
        known = [trained_seeds(each, scenario.name) for each in load_models(model)]
        after = max(set().union(*known), default=-1) + 1
        first = after if held is not None else max(first, after)
        if first == held:
            raise InvalidInput(
                f"the model was learned from all {held} logs",
                mend="learn from fewer of them: `forewarn collect` takes --episodes",
            )
    if "episodes" not in given and held is not None:
        count = max(held - first, 1)  # of what is not there its world says so
    return seeds(first, count)


def seeds(first: int, count: int) -> range:
    """The seeds of a campaign: one after the other."""
    return range(first, first + count)


def shown(law: str) -> str:
    """A law's name, cut where it is a long formula."""
    return law if len(law) <= NAME_WIDTH else law[: NAME_WIDTH - 1] + "…"


def counted(episodes: Iterable[Episode], what: str, total: int) -> Iterator[Episode]:
    """The episodes, with a line of what there was so far."""
    seen = {"violations": 0, "alarms": 0, "interventions": 0, "failed": 0}

    def note() -> str:
        said = (f"{number} {name}" for name, number in seen.items() if number)
        return "".join(f", {part}" for part in said)

    def heard() -> Iterator[Episode]:
        for episode in episodes:
            seen["violations"] += len(episode.violations)
            seen["alarms"] += len(episode.alarms)
            seen["interventions"] += len(episode.interventions)
            seen["failed"] += episode.failed
            yield episode

    yield from progress(heard(), what, total, note)


def refuse_total_failure(episodes: Sequence[Episode]) -> None:
    """Raises if no episode came to its end: there is nothing to report then."""
    from forewarn.abstractions.errors import ForewarnError

    if episodes and all(episode.failed for episode in episodes):
        raise ForewarnError(f"all {len(episodes)} episodes failed: {episodes[0].error}")


def failure_lines(episodes: Sequence[Episode], folder: Path | None) -> Iterator[str]:
    """What there is to say of episodes that failed."""
    failed = [episode for episode in episodes if episode.failed]
    if failed:
        yield (
            f"{len(failed)} of {len(episodes)} episodes failed, the first with seed"
            f" {failed[0].seed}: {failed[0].error}"
        )
        if folder is not None:
            yield f"They stay in {folder}; --again runs all of it again."
