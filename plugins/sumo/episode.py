"""An episode's beginning, and what its other cars do when: the same for every world.

The embedded world and the stand-in for CARLA both begin here, so that a scenario's
seed gives the same traffic in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.sumo import wire
from forewarn.plugins.sumo.traffic import (
    EGO,
    Ego,
    Light,
    Manoeuvre,
    Traffic,
    car_name,
    route_file,
)

WAIT_S = 120.0
"""How long the ego may wait for room to appear in."""

Command = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where an episode begins, all but its seed.

    Args:
        map: A `.net.xml` or `.sumocfg`.
        ego: Where the ego begins and where it goes.
        traffic: All that moves besides.
        light: Where the first traffic light's programme stands at the start.
        route_files: More of SUMO's own route files, separated by commas.
        period_s: The time of a step.
    """

    map: Path
    ego: Ego
    traffic: Traffic
    light: Light | None = None
    route_files: str = ""
    period_s: float = 0.1

    @property
    def ego_name(self) -> str:
        return self.ego.vehicle or EGO

    def manoeuvres(self) -> Manoeuvres:
        """What the other cars of one episode are to do."""
        return Manoeuvres(self.traffic)

    def load(self, owner: object, seed: int) -> Any:
        """Loads the episode of that seed, and runs it until the ego is there.

        Args:
            owner: Whose the simulation is from now on.
            seed: The episode's seed.

        Returns:
            libsumo, to command it.
        """
        config = self.map.name.endswith(".sumocfg")
        arguments = [
            "--configuration-file" if config else "--net-file", str(self.map),
            "--step-length", str(self.period_s), "--seed", str(seed % 2**31),
        ]  # fmt: skip
        routes = route_file(self.ego, self.traffic, seed)
        if self.ego.vehicle and self.traffic == Traffic((), (), (), ()):
            routes = ""
        sumo = wire.connect(owner, arguments, routes, self.route_files)
        name = self.ego_name
        deadline_s = sumo.simulation.getTime() + self.ego.departs_s + WAIT_S
        while name not in sumo.vehicle.getIDList():
            if sumo.simulation.getTime() > deadline_s:
                raise InvalidInput(
                    f"the ego {name!r:.60} found no room to appear in",
                    mend="is its lane, position and speed free for it?",
                )
            sumo.simulationStep()
        wire.give_up_checks(sumo, name)
        coming = sumo.vehicle.getNextTLS(name)
        if self.light is not None and coming:
            light, phase = coming[0][0], self.light.phase
            programme = sumo.trafficlight.getAllProgramLogics(light)[0]
            sumo.trafficlight.setPhase(light, phase % len(programme.phases))
            sumo.trafficlight.setPhaseDuration(light, self.light.left_s)
        return sumo


class Manoeuvres:
    """What single cars are to do, in the order in which it is due."""

    def __init__(self, traffic: Traffic) -> None:
        self._left: list[tuple[float, str, Manoeuvre]] = sorted(
            (move.at_s, car_name(i), move)
            for i, car in enumerate(traffic.cars)
            if car.present
            for move in car.manoeuvres
        )

    def due(self, now_s: float, sumo: Any) -> Iterator[Command]:
        """The commands of SUMO's vehicles that are due now."""
        while self._left and self._left[0][0] <= now_s + 1e-9:
            _, car, move = self._left.pop(0)
            if car not in sumo.vehicle.getIDList():
                continue
            if move.to_kmh is None:
                yield "setSpeed", (car, -1.0)
            else:
                yield "slowDown", (car, move.to_kmh / 3.6, move.within_s)
