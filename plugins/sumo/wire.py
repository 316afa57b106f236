"""Loads simulations into libsumo, which the worlds of a process share.

libsumo can hold only one simulation per process. If another world has loaded a
simulation, a world loads its own simulation again and repeats its commands. The same
seed and commands produce the same episode.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.sumo.support import libsumo

QUIET = (
    "--no-step-log", "true", "--no-warnings", "true", "--duration-log.disable", "true",
    "--xml-validation", "never", "--xml-validation.net", "never",
)  # fmt: skip

PHYSICS = (
    "--step-method.ballistic", "true", "--time-to-teleport", "-1",
    "--pedestrian.model", "striping", "--lanechange.duration", "2",
    "--collision.action", "warn", "--collision.check-junctions", "true",
    "--collision.mingap-factor", "0",
)  # fmt: skip
"""Options that prevent SUMO from removing vehicles.

Vehicles are removed neither to resolve a jam nor after a collision.
"""


_NO_CHECKS = 32  # speed mode: SUMO enforces no gaps, lights or right of way
_NO_LANE_CHANGES = 0


class _Process:
    owner: object | None = None
    running = False
    folder: tempfile.TemporaryDirectory[str] | None = None


def connect(
    owner: object, arguments: Sequence[str], routes: str, route_files: str = ""
) -> Any:
    """Loads a simulation for a world, which replaces the simulation of any other world.

    Args:
        owner: The new owner of the simulation.
        arguments: The options of SUMO that set the net, the step length and the seed.
        routes: The text of a route file; may be empty.
        route_files: Additional route files, separated by commas.

    Returns:
        The module libsumo, for further commands.
    """
    sumo = libsumo()
    if _Process.folder is None:
        _Process.folder = tempfile.TemporaryDirectory(prefix="forewarn-sumo-")
    options = [*arguments, *QUIET, *PHYSICS]
    files = [route_files] if route_files else []
    if routes:
        path = Path(_Process.folder.name) / "routes.rou.xml"
        path.write_text(routes, encoding="utf-8")
        files.insert(0, str(path))
    if files:
        options += ["--route-files", ",".join(files)]
    _Process.owner = None
    try:
        if _Process.running:
            sumo.load(options)
        else:
            sumo.start(["sumo", *options])
    except (sumo.TraCIException, sumo.FatalTraCIError) as error:
        _Process.running = False
        problem = " ".join(str(error).split())
        raise InvalidInput(f"SUMO cannot load this map: {problem:.400}") from error
    _Process.running = True
    _Process.owner = owner
    return sumo


def has(owner: object) -> bool:
    """Whether a world still owns the loaded simulation."""
    return _Process.owner is owner


def release(owner: object) -> None:
    """Releases the simulation if a world owns it."""
    if _Process.owner is owner:
        _Process.owner = None


def give_up_checks(sumo: Any, name: str) -> None:
    """Turns off SUMO's safety checks for a vehicle that SUMO does not drive."""
    sumo.vehicle.setSpeedMode(name, _NO_CHECKS)
    sumo.vehicle.setLaneChangeMode(name, _NO_LANE_CHANGES)
    sumo.vehicle.setMinGap(name, 0.0)  # otherwise, reported gaps exclude it
