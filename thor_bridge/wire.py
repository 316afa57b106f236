"""The connection to AI2-THOR: ai2thor's controller, with a watchdog for the simulator.

`connect` returns ai2thor's `Controller` for the real Unity player or the embedded
household. Where ai2thor 5.0.0 alone would hang, an error is raised within seconds, and
no process, pipe or port is left behind.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.thor_bridge.household.scenes import harvested
from forewarn.thor_bridge.support import NoBuild, SimulatorError

if TYPE_CHECKING:
    from forewarn.thor_bridge.watchdog import WatchedController

HOUSEHOLD = "household"
UNITY = "unity"


def household_command(
    *,
    scenes: Path | None = None,
    seed: int = 0,
    failures: str = "off",
    frames: bool = True,
) -> str:
    """Returns the command line that starts the embedded household in place of Unity.

    The player sends frames even to a headless controller, unless `frames` is false.
    """
    words = [sys.executable, "-m", "forewarn.thor_bridge.household"]
    if scenes is not None:
        words += ["--scenes", str(scenes.resolve())]
    words += ["--seed", str(seed), "--failures", failures]
    words += [] if frames else ["--no-frames"]
    return shlex.join(words)


def connect(
    scene: str | None,
    *,
    player: str = HOUSEHOLD,
    scenes: Path | None = None,
    seed: int = 0,
    failures: str = "off",
    start_timeout_s: float = 20.0,
    action_timeout_s: float = 10.0,
    headless: bool = True,
    width: int = 300,
    height: int = 300,
    **initialization: Any,
) -> WatchedController:
    """Returns ai2thor's controller with a scene loaded.

    Args:
        scene: The name of the initial scene; None for the player's first scene.
        player: `household`, `unity` (the build that ai2thor downloads), or the command
            line of a player.
        scenes: A scene file, which only the household uses.
        seed: The seed of the household.
        failures: `real` if the household's actions also fail at random; otherwise
            `off`.
        start_timeout_s: The time limit for the player's first answer in seconds.
        action_timeout_s: The time limit for an action in seconds.
        headless: Whether to run without frames, which needs no display.
        width: The width of frames in pixels.
        height: The height of frames in pixels.
        initialization: Other settings of AI2-THOR, such as `visibilityDistance`.

    Raises:
        MissingDependency: ai2thor is not installed.
        NoBuild: The Unity build is not installed and cannot be downloaded.
        SimulatorError: The player does not start, or does not speak the protocol.
    """
    from forewarn.thor_bridge.watchdog import WatchedController, WatchedServer

    if player == HOUSEHOLD:
        player = household_command(
            scenes=scenes, seed=seed, failures=failures, frames=not headless
        )
    with _without_gpu_choice(), _build_at_hand(player):
        return WatchedController(
            local_executable_path=None if player == UNITY else player,
            server_class=WatchedServer,
            # ai2thor requires a display even if none is used.
            x_display=os.environ.get("DISPLAY") or "0",
            scene=scene,
            headless=headless,
            width=width,
            height=height,
            server_start_timeout=start_timeout_s,
            server_timeout=action_timeout_s,
            **initialization,
        )


@contextmanager
def _build_at_hand(player: str) -> Iterator[None]:
    """Raises `NoBuild` with advice if ai2thor cannot get its Unity build."""
    try:
        yield
    except (ValueError, OSError) as error:
        if player != UNITY:
            raise
        told = " ".join(str(error).split())
        raise NoBuild(
            f"ai2thor's Unity build is not available: {told:.200} (connect "
            "to the internet, or use the embedded household: --player household)"
        ) from error


@contextmanager
def _without_gpu_choice() -> Iterator[None]:
    """Hides CUDA_VISIBLE_DEVICES, because ai2thor would otherwise run vulkaninfo, which
    few machines have.
    """
    chosen = os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        yield
    finally:
        if chosen is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = chosen


SUFFIX = "_physics"


def harvest(
    player: str, wanted: Sequence[str] = (), *, timeout_s: float = 120.0
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Reads scenes from a player; yields each name with its entry for a scene file.

    Args:
        player: `unity`, `household`, or the command line of a player.
        wanted: The names of the scenes; by default all of the player's rooms.
        timeout_s: The time limit in seconds for the player's start and for each action.

    Raises:
        InvalidInput: The player does not have a requested scene.
        SimulatorError: The player does not start or does not answer.
    """
    controller = connect(
        wanted[0] if wanted else None,
        player=player,
        start_timeout_s=timeout_s,
        action_timeout_s=timeout_s,
    )
    try:
        has = {name.removesuffix(SUFFIX) for name in controller.scenes_in_build}
        names = [name.removesuffix(SUFFIX) for name in wanted] or rooms(has)
        for name in names:
            # Old builds do not report their scenes.
            if has and name not in has:
                raise InvalidInput(
                    f"the player has no scene {name!r:.60}",
                    mend=near_miss(name[:60], has)
                    or (f"the player has {len(has)} other scenes"),
                )
            begun = controller.reset(name)
            told = controller.step("GetReachablePositions")
            positions = told.metadata["actionReturn"]
            if not positions:
                why = told.metadata["errorMessage"] or "no position was reported"
                raise SimulatorError(
                    f"{name}: the robot's reachable positions could not be "
                    f"determined: {why}"
                )
            yield name, harvested(name, begun.metadata, positions)
    finally:
        controller.stop()


def rooms(names: Collection[str]) -> list[str]:
    """Returns AI2-THOR's own rooms among the scenes, in order; all scenes if there are
    none.

    A build also contains procedural houses and mazes.
    """
    found = [name for name in names if _ROOM.fullmatch(name)]
    return sorted(found, key=lambda name: int(name[9:])) or sorted(names)


_ROOM = re.compile(r"FloorPlan\d+")
