"""Clients of a stand-in server, each in a process of its own.

CARLA's client can block or end its process.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PREAMBLE = """
import json, sys, time, carla
client = carla.Client("127.0.0.1", int(sys.argv[1]))
client.set_timeout(10.0)
world = client.get_world()
while world.get_snapshot().frame == 0:  # in synchronous mode nothing may have come yet
    time.sleep(0.005)
def tell(value):
    print("=" + json.dumps(value))
def synchronous(step=0.05):
    settings = world.get_settings()
    settings.synchronous_mode = True
    settings.fixed_delta_seconds = step
    world.apply_settings(settings)
def spawn(kind="vehicle.tesla.model3", point=0, **attributes):
    blueprint = world.get_blueprint_library().find(kind)
    for name, value in attributes.items():
        blueprint.set_attribute(name, value)
    return world.spawn_actor(blueprint, world.get_map().get_spawn_points()[point])
"""

EPILOGUE = """
import os
sys.stdout.flush()
os._exit(0)  # Sensors that still listen may abort a client that leaves by itself.
"""


@dataclass(frozen=True)
class Standin:
    """A server that runs."""

    port: int
    process: subprocess.Popen[str]

    def script(self, body: str, timeout_s: float = 60.0) -> list[Any]:
        """Runs a client's script; gives what it told.

        CARLA's client sometimes crashes in its own code; then the script runs again.
        """
        source = PREAMBLE + textwrap.dedent(body) + EPILOGUE
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", source, str(self.port)],
                capture_output=True, text=True, timeout=timeout_s, check=False,
            )  # fmt: skip
            if done.returncode not in (-signal.SIGSEGV, -signal.SIGABRT):
                break
        told = f"{done.returncode}: {done.stderr[-3000:]}{done.stdout[-1000:]}"
        assert done.returncode == 0, told
        lines = done.stdout.splitlines()
        return [json.loads(line[1:]) for line in lines if line.startswith("=")]


Serve = Callable[..., Standin]
