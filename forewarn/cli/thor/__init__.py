"""`forewarn thor`: AI2-THOR, real and embedded, and how alike the two are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import Number, emit, json_option, progress, seed_option, table
from forewarn.cli.thor.tasks import tasks

if TYPE_CHECKING:
    from forewarn.thor_bridge.performing import Conformance, Recording

FILE = click.Path(dir_okay=False, path_type=Path)

scenes_option = click.option(
    "--scenes",
    type=FILE,
    help="A scene file, such as `forewarn thor harvest` writes; by default our own"
    " scenes.",
)


@click.group()
def thor() -> None:
    """AI2-THOR: replay recordings, harvest scenes, start the embedded household.

    Every command takes --json. `forewarn doctor thor` says what is missing for the
    real one.
    """


thor.add_command(tasks)


@thor.command()
@click.argument("outcomes", type=FILE)
@scenes_option
@click.option(
    "--inside",
    is_flag=True,
    help="In this process, rather than through ai2thor's own controller.",
)
@json_option
def replay(outcomes: Path, scenes: Path | None, inside: bool, as_json: bool) -> None:
    """Carry out recorded actions again, and count where the outcomes agree.

    OUTCOMES is JSON Lines, a recorded run a line: its set, its scene_name, and steps
    with the robot's input and its success in the real AI2-THOR. They are sent through
    ai2thor's own controller to the embedded household, physical failures off.

    \b
    Example:
      forewarn thor replay outcomes.jsonl --scenes scenes.json.gz
    """
    from forewarn.thor_bridge.performing import replay as again

    def shown(recordings: Iterable[Recording]) -> Iterator[Recording]:
        return progress(recordings, "recorded runs")

    found = again(outcomes, scenes, inside=inside, watched=shown)
    emit(as_json, found.as_dict(), _agreement(found))


def _agreement(found: Conformance) -> Iterator[str]:
    rows = [*found.by_set.items(), ("all", found.total)]
    yield from table(
        ("set", "steps", "agree", "agreement", "runs", "identical"),
        [
            (
                name,
                tally.steps,
                tally.agree,
                f"{tally.agree / tally.steps:.3f}" if tally.steps else "-",
                tally.trajectories,
                tally.identical,
            )
            for name, tally in rows
        ],
    )


@thor.command()
@click.argument("out", type=FILE)
@click.option(
    "--player",
    default="unity",
    show_default=True,
    help="`unity`: the build that ai2thor downloads and starts; `household`: ours; or"
    " the command line of a player, such as a build of one's own.",
)
@click.option(
    "--scene",
    "wanted",
    multiple=True,
    metavar="NAME",
    help="Which scene; may be given again. By default all rooms of the build.",
)
@click.option(
    "--start-timeout",
    type=Number(min=1),
    default=120.0,
    show_default=True,
    help="How many seconds the player may take to start, and to load a scene.",
)
@json_option
def harvest(
    out: Path,
    player: str,
    wanted: tuple[str, ...],
    start_timeout: float,
    as_json: bool,
) -> None:
    """Write the scenes of a running AI2-THOR to the scene file OUT.

    A scene file has each scene's objects as AI2-THOR reports them at its beginning,
    and where the robot can stand; it is gzipped if its name ends in .gz. The embedded
    household then plays these scenes: --scenes OUT.

    \b
    Examples:
      forewarn thor harvest scenes.json.gz
      forewarn thor harvest kitchens.json.gz --scene FloorPlan1 --scene FloorPlan2
    """
    from forewarn.thor_bridge.household.scenes import write_scenes
    from forewarn.thor_bridge.wire import harvest as gather

    gathered = gather(player, wanted, timeout_s=start_timeout)
    entries = dict(progress(gathered, "scenes", len(wanted) or None))
    write_scenes(out, entries)
    counts: dict[str, Any] = {
        name: {"objects": len(entry["objects"]), "positions": len(entry["grid"])}
        for name, entry in entries.items()
    }
    rows = [(n, c["objects"], c["positions"]) for n, c in counts.items()]
    lines = [*table(("scene", "objects", "positions"), rows), f"written to {out}"]
    emit(as_json, {"scenes": counts, "file": str(out)}, lines)


@thor.command()
@scenes_option
@seed_option
@click.option(
    "--failures",
    type=click.Choice(["off", "real"]),
    default="off",
    show_default=True,
    help="Whether actions also fail for physical reasons, as often as recorded.",
)
@click.option(
    "--frames/--no-frames",
    default=True,
    help="Whether cameras' pictures are sent, to a headless controller too; metadata"
    " alone is faster.",
)
@json_option
def player(
    scenes: Path | None, seed: int, failures: str, frames: bool, as_json: bool
) -> None:
    """Print the command line that starts the embedded household as a player.

    A script that drives AI2-THOR runs on the household when it gives this command line
    to ai2thor's own controller, as its local_executable_path.

    \b
    Example:
      Controller(local_executable_path="$(forewarn thor player)", x_display="0",
                 headless=True, scene="Kitchen1")
    """
    from forewarn.thor_bridge.household.scenes import load_scenes
    from forewarn.thor_bridge.wire import household_command

    names = list(load_scenes(scenes))
    command = household_command(
        scenes=scenes, seed=seed, failures=failures, frames=frames
    )
    emit(as_json, {"command": command, "scenes": names}, [command])
