"""What the commands of `forewarn apollo` share."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from forewarn.cli.support import Number

if TYPE_CHECKING:
    from forewarn.apollo_bridge.channels import Edition
    from forewarn.standins.apollo.play import StandIn
    from forewarn.standins.apollo.server import FakeCyber

_Command = TypeVar("_Command", bound=Callable[..., Any])

edition_option = click.option(
    "--edition",
    type=click.Choice(["8", "9"]),
    default="9",
    show_default=True,
    callback=lambda ctx, param, value: int(value),
    help="Whose messages: 9 is Apollo 9 and later, 8 is Apollo 8 and earlier.",
)
map_option = click.option(
    "--map",
    "map_path",
    type=click.Path(path_type=Path),
    help="The folder or file of Apollo's map; without it few signals are known.",
)
told_option = click.option(
    "--told",
    multiple=True,
    metavar="SIGNAL=VALUE",
    help="What no channel tells: rain=0.2, time_of_day=21, …; may be given again.",
)
body_option = click.option(
    "--body",
    metavar="FRONT,BACK,WIDTH",
    help="The car's size in m, from the rear axle; by default Apollo's usual car.",
)
pace_option = click.option(
    "--pace",
    type=Number(min=0.0, max=1000.0),
    default=1.0,
    show_default=True,
    help="How fast the stand-in's clock goes; 0: as fast as it can.",
)


def way_options(command: _Command) -> _Command:
    """How Apollo is reached: the options that several commands share."""
    for option in (
        click.option("--node", is_flag=True, help="As a node, inside its container."),
        click.option(
            "--bridge",
            metavar="tcp://HOST:PORT",
            help="From outside, through Apollo's cyber_bridge.",
        ),
    ):
        command = option(command)
    return command


def way(bridge: str | None, node: bool) -> str:
    """The way that was chosen."""
    if node == (bridge is not None):
        raise click.UsageError("give either --bridge tcp://HOST:PORT or --node")
    return bridge or "node"


def drive(
    scenario: str, seed: int, cyber: FakeCyber, edition: Edition, guardian: bool
) -> StandIn:
    """The stand-in that drives a scenario."""
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.apollo_bridge.channels import messages
    from forewarn.plugins.registry import make_pilot, make_world
    from forewarn.plugins.sumo.bridge import SumoWorld
    from forewarn.scenarios.schema import load_scenario
    from forewarn.standins.apollo.play import StandIn

    wanted = load_scenario(scenario)
    settings = wanted.settings(wanted.world, seed)
    world = make_world(wanted.world.name, settings, wanted.source)
    if not isinstance(world, SumoWorld):
        world.close()
        raise InvalidInput(
            f"the scenario {wanted.name} does not run on SUMO",
            mend="forewarn scenarios lists those that drive",
        )
    settings = wanted.settings(wanted.pilot, seed)
    pilot = make_pilot(wanted.pilot.name, settings, wanted.source)
    return StandIn(
        cyber, messages(edition), world, pilot, guardian=guardian,
        max_time_s=wanted.end.max_time_s,
    )  # fmt: skip


@contextlib.contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """SIGTERM ends things in an orderly way, as Ctrl-C does by itself."""
    before = signal.signal(signal.SIGTERM, lambda *_: end())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        end()


def surroundings(told: tuple[str, ...]) -> dict[str, Any]:
    """What is told of the surroundings, each in the type of its signal."""
    from forewarn.abstractions.errors import InvalidInput, suggest
    from forewarn.abstractions.files import parse_yaml
    from forewarn.abstractions.serial import validated
    from forewarn.plugins.driving.sense import Surroundings

    given: dict[str, Any] = {}
    for each in told:
        name, equals, value = each.partition("=")
        if not equals or name not in Surroundings.model_fields:
            raise InvalidInput(
                f"--told takes SIGNAL=VALUE, not {each!r:.60}",
                mend=suggest(name, Surroundings.model_fields),
            )
        given[name] = parse_yaml(value, "--told")
    checked = validated(Surroundings, given, "--told")
    return {name: getattr(checked, name) for name in given}


def body_size(text: str | None) -> dict[str, float] | None:
    """The car's size, from what an option says of it."""
    if text is None:
        return None
    try:
        front, back, width = (float(part) for part in text.split(","))
    except ValueError:
        raise click.UsageError(
            f"--body takes FRONT,BACK,WIDTH in m, not {text!r:.60}"
        ) from None
    if not (0 < front < 30 and 0 <= back < 30 and 0 < width < 10):
        raise click.UsageError(f"--body {text!r:.60} is the size of no car")
    return {"front_m": front, "back_m": back, "width_m": width}
