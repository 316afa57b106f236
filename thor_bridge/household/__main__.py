"""The household as a separate process, in place of AI2-THOR's Unity player.

ai2thor's `Controller` starts the process: its `local_executable_path` may be a whole
command line, such as `python -m forewarn.thor_bridge.household --seed 7`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from forewarn.abstractions.errors import ForewarnError
from forewarn.thor_bridge.household.actions import perform
from forewarn.thor_bridge.household.channels import Channel, Message
from forewarn.thor_bridge.household.scenes import load_scenes
from forewarn.thor_bridge.household.world import PROFILES, World

_GREY: Final = b"\x80"


def serve(world: World, channel: Channel, *, frames: bool) -> None:
    """Answers actions until the controller ends the connection.

    Args:
        world: The household.
        channel: The channel on which actions arrive.
        frames: Whether to send camera frames.
    """
    message = _told(world, 0, frames)
    while (action := channel.exchange(message)) is not None:
        message = answer(world, action, frames=frames)


def answer(world: World, action: Mapping[str, Any], *, frames: bool) -> Message:
    """Carries out an action and returns the message about its result."""
    perform(world, action)
    return _told(world, action.get("sequenceId", 0), frames)


def _told(world: World, sequence: int, frames: bool) -> Message:
    """Returns the complete message, with a plain grey image if frames are sent."""
    image = _GREY * (3 * world.width * world.height) if frames else b""
    return Message(sequence, world.metadata(), image)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the household process and returns its exit status."""
    parser = argparse.ArgumentParser(prog="forewarn household", description=__doc__)
    parser.add_argument(
        "--scenes", type=Path, help="scene file (default: the included scenes)"
    )
    parser.add_argument(
        "--scene", default="", help="name of the initial scene (default: the first one)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", choices=sorted(PROFILES), default="off")
    # The controller adds Unity's options, of which only the image size is used.
    parser.add_argument("-screen-width", type=int, default=300, dest="width")
    parser.add_argument("-screen-height", type=int, default=300, dest="height")
    parser.add_argument(
        "--no-frames",
        action="store_true",
        help="send no camera frames, which is faster",
    )
    given, _ = parser.parse_known_args(arguments)
    try:
        scenes = load_scenes(given.scenes)
        world = World(
            scenes, given.scene, seed=given.seed, failures=PROFILES[given.failures]
        )
        world.width, world.height = given.width, given.height
        serve(world, Channel.of(os.environ), frames=not given.no_frames)
    except ForewarnError as error:
        print(f"forewarn household: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
