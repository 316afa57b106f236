"""Players that misbehave, each in one way: `python players.py WAY`.

mute        starts, and never says a word
late        opens its pipe, and then says nothing
dies-first  ends before it has said anything
dies        ends in the middle of a RotateRight
hangs       never answers a RotateRight
child       as hangs, with a child process that would outlive it
liar        answers a RotateRight as if it were another action
half        sends half an answer to a RotateRight and ends
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

from forewarn.thor_bridge.household.__main__ import answer
from forewarn.thor_bridge.household.channels import Channel
from forewarn.thor_bridge.household.world import World


def main(way: str) -> None:
    if way == "mute":
        time.sleep(60)
    if way == "dies-first":
        sys.exit(3)
    if way == "child":
        subprocess.Popen(["sleep", "61.25"])
    channel = Channel.of(os.environ)
    if way == "late":
        time.sleep(60)
    world = World()
    action: dict[str, object] | None = {"action": "Initialize", "sequenceId": 0}
    while action is not None:
        message = answer(world, action, frames=False)
        if action["action"] == "RotateRight":
            if way == "dies":
                os._exit(4)
            if way in ("hangs", "child"):
                time.sleep(60)
            if way == "half":
                with open(os.environ["AI2THOR_FIFO_SERVER_PIPE_PATH"], "wb") as pipe:
                    pipe.write(b"\x01\x00\x00\x10\x00half")
                os._exit(5)
            if way == "liar":
                message = replace(message, sequence=message.sequence + 7)
        action = channel.exchange(message)


if __name__ == "__main__":
    main(sys.argv[1])
