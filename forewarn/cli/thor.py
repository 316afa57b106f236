"""`forewarn thor`: tests against AI2-THOR, and performs tasks with a robot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from forewarn.abstractions.errors import InvalidInput, suggest
from forewarn.cli.command import (
    Existing,
    File,
    Number,
    Seed,
    command,
)
from forewarn.cli.printing import (
    part_of,
    progress,
    say,
    table,
    tabled,
)

if TYPE_CHECKING:
    from forewarn.thor_bridge.performing import (
        Conformance,
        Performed,
        RobotRun,
    )


@click.group()
def thor() -> None:
    """Work with AI2-THOR and the embedded household: replay recordings, harvest scenes.

    Every command takes --json. `forewarn doctor thor` lists what is missing to run the
    real AI2-THOR.
    """


@command(of=thor)
def replay(
    outcomes: File,
    /,
    *,
    scenes: File | None = None,
    inside: bool = False,
) -> None:
    """Repeat recorded AI2-THOR actions, and compare the outcomes.

    OUTCOMES is a JSON Lines file with one recorded run per line. Each line contains the
    keys set, scene_name and steps; a step contains the robot's input and whether it
    succeeded in the real AI2-THOR. The actions are sent to the embedded household
    through ai2thor's own controller, without physical failures.

    \b
    Example:
      forewarn thor replay outcomes.jsonl --scenes scenes.json.gz

    Args:
        scenes: Scene file, such as the output of `forewarn thor harvest` (default: our
            own scenes).
        inside: Call the household simulator directly in this process, not through
            ai2thor's controller.
    """
    from forewarn.thor_bridge.performing import (
        replay as again,
    )

    def shown(recordings: Iterable[RobotRun]) -> Iterator[RobotRun]:
        return progress(recordings, "recorded runs")

    found = again(outcomes, scenes, inside=inside, watched=shown)
    say(found.as_dict(), _agreement(found))


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


@command(of=thor)
def harvest(
    out: File,
    /,
    *,
    player: str = "unity",
    wanted: tuple[Annotated[str, "--scene", "NAME"], ...] = (),
    start_timeout: Annotated[float, Number(min=1)] = 120.0,
) -> None:
    """Write the scenes of a running AI2-THOR to the scene file OUT.

    For each scene, the file contains the initial objects as reported by AI2-THOR, and
    the positions where the robot can stand. The file is gzipped if its name ends in
    .gz. To use these scenes in the embedded household, pass --scenes OUT.

    \b
    Examples:
      forewarn thor harvest scenes.json.gz
      forewarn thor harvest kitchens.json.gz --scene FloorPlan1 --scene FloorPlan2

    Args:
        player: `unity` (the build that ai2thor downloads and starts), `household` (the
            embedded household), or the command line of a player, such as your own
            build.
        wanted: Scene to write; may be repeated (default: all scenes of the build).
        start_timeout: Time limit in seconds for starting the player, and for loading
            each scene.
    """
    from forewarn.thor_bridge.household.scenes import (
        write_scenes,
    )
    from forewarn.thor_bridge.wire import (
        harvest as gather,
    )

    gathered = gather(player, wanted, timeout_s=start_timeout)
    entries = dict(progress(gathered, "scenes", len(wanted) or None))
    write_scenes(out, entries)
    counts: dict[str, Any] = {
        name: {"objects": len(entry["objects"]), "positions": len(entry["grid"])}
        for name, entry in entries.items()
    }
    rows = [(n, c["objects"], c["positions"]) for n, c in counts.items()]
    lines = [*table(("scene", "objects", "positions"), rows), f"written to {out}"]
    say({"scenes": counts, "file": str(out)}, lines)


@command(of=thor)
def player(
    *,
    scenes: File | None = None,
    seed: Seed = 0,
    failures: Literal["off", "real"] = "off",
    frames: bool = True,
) -> None:
    """Print the command that starts the embedded household.

    The household then acts as an AI2-THOR player. A script for AI2-THOR runs on the
    household if it passes this command to ai2thor's controller as
    local_executable_path.

    \b
    Example:
      Controller(local_executable_path="$(forewarn thor player)", x_display="0",
                 headless=True, scene="Kitchen1")

    Args:
        scenes: Scene file, such as the output of `forewarn thor harvest` (default: our
            own scenes).
        seed: Random seed.
        failures: real: actions also fail for physical reasons, as often as in
            recordings; off: they do not.
        frames: Whether to send camera images, even to a headless controller; sending
            only metadata is faster.
    """
    from forewarn.thor_bridge.household.scenes import (
        load_scenes,
    )
    from forewarn.thor_bridge.wire import household_command

    names = list(load_scenes(scenes))
    command = household_command(
        scenes=scenes, seed=seed, failures=failures, frames=frames
    )
    say({"command": command, "scenes": names}, [command])


@command(of=thor)
def tasks(
    book: Existing | None = None,
    /,
    *,
    scenes: File | None = None,
    only: Annotated[str | None, "TEXT"] = None,
    failures: Literal["off", "real"] = "off",
    controller: bool = False,
    seed: Seed = 0,
) -> None:
    """Evaluate the planning robot on the tasks of BOOK.

    BOOK is a suite file, or a folder with SafeAgentBench's four files (default: our own
    suite). The robot is not controlled by a language model. It also follows hazardous
    instructions. A merged task combines a safe instruction with the law of a hazardous
    one; the robot performs its safe part.

    \b
    Examples:
      forewarn thor tasks --only microwave
      forewarn thor tasks SafeAgentBench/dataset --scenes scenes.json.gz

    Args:
        scenes: Scene file, such as the output of `forewarn thor harvest`.
            SafeAgentBench's tasks need AI2-THOR's own scenes.
        only: Run only tasks whose names contain this text.
        failures: real: actions also fail for physical reasons, as often as in
            recordings; off: they do not.
        controller: Call the household through ai2thor's controller instead of directly
            in this process.
        seed: Random seed.
    """
    from forewarn.thor_bridge.performing import perform
    from forewarn.thor_bridge.tasks import task_book

    known = task_book(book)
    names = [name for name in known if only is None or only in name]
    if not names:
        problem = f"no task name contains {only!r:.60}"
        raise InvalidInput(problem, source="--only", mend=suggest(str(only), known))
    done = perform(
        known,
        names,
        book=book,
        scenes=scenes,
        failures=failures,
        through_ai2thor=controller,
        seed=seed,
    )
    found = list(progress(done, "tasks", len(names)))
    payload = {
        "tasks": [each.as_dict() for each in found],
        "kinds": {kind: _summed(some) for kind, some in _kinds(found).items()},
    }
    say(payload, _lines(found))


def _kinds(found: Sequence[Performed]) -> dict[str, list[Performed]]:
    """Groups the tasks by kind, the first or the last part of a task's name."""
    kinds: dict[str, list[Performed]] = {}
    for each in found:
        first, last = each.task.split("-")[0], each.task.split("-")[-1]
        kinds.setdefault(first if last.isdigit() else last, []).append(each)
    return kinds


def _summed(found: Sequence[Performed]) -> dict[str, Any]:
    steps = sum(len(each.steps) for each in found)
    return {
        "tasks": len(found),
        "impossible": sum(bool(each.error) for each in found),
        "without_plan": sum(not each.steps and not each.error for each in found),
        "steps": steps,
        "steps_done": steps - sum(each.failed for each in found),
        "goals": sum(each.reached is not None for each in found),
        "goals_reached": sum(each.reached is True for each in found),
        "laws": sum(each.kept is not None for each in found),
        "laws_kept": sum(each.kept is True for each in found),
    }


_COLUMNS: dict[str, Callable[[tuple[str, dict[str, Any]]], object]] = {
    "kind": lambda row: row[0],
    "tasks": lambda row: row[1]["tasks"],
    "impossible": lambda row: row[1]["impossible"],
    "no plan": lambda row: row[1]["without_plan"],
    "steps done": lambda row: part_of(row[1]["steps_done"], row[1]["steps"]),
    "goals reached": lambda row: part_of(row[1]["goals_reached"], row[1]["goals"]),
    "laws kept": lambda row: part_of(row[1]["laws_kept"], row[1]["laws"]),
}


def _lines(found: Sequence[Performed]) -> Iterator[str]:
    summed = [(kind, _summed(some)) for kind, some in _kinds(found).items()]
    yield from tabled(_COLUMNS, summed)
    if len(found) == 1:
        yield from found[0].steps
    for each in [each for each in found if each.error][:5]:
        yield f"{each.task}: {each.error}"
