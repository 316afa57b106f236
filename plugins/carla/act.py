"""Decisions to what a CARLA vehicle is told, and whether it shows that it obeys.

A vehicle's actions carry the numbers of a `carla.VehicleControl` by their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.carla.driving import BRAKE, THRUST, Pedals
from forewarn.plugins.carla.support import carla_module
from forewarn.plugins.driving.act import CarActuator, wanted_acceleration
from forewarn.plugins.driving.scene import Behind
from forewarn.plugins.driving.seeing.arriving import Conflict
from forewarn.plugins.driving.stopping import Stop

_BELOW = 0.1  # m/s
_NUMBERS = ("throttle", "steer", "brake")
_SWITCHES = ("hand_brake", "reverse")


def action_of(control: Any) -> Action:
    """A `carla.VehicleControl` as an action."""
    numbers = {name: float(getattr(control, name)) for name in _NUMBERS}
    switches = {name: bool(getattr(control, name)) for name in _SWITCHES}
    return Action("control", {**numbers, **switches})


def control_of(action: Action) -> Any:
    """An action as a `carla.VehicleControl`."""
    given = action.arguments
    return carla_module().VehicleControl(
        **{name: float(given.get(name, 0.0)) for name in _NUMBERS},
        **{name: bool(given.get(name, False)) for name in _SWITCHES},
    )


@dataclass(slots=True)
class Situation:
    """What an actuator must know of the moment to slow and stop well.

    Args:
        values: The frame's signals.
        dt: The time since the frame before.
        behind: Who follows, if anyone is near.
        conflicts: Where others cross the ego's way soon.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    dt: float = 0.05
    behind: Behind | None = None
    conflicts: Sequence[Conflict] = ()

    @property
    def speed(self) -> float:
        """In m/s."""
        speed = self.values.get("speed")
        return speed / 3.6 if isinstance(speed, float) else 0.0

    @property
    def acceleration(self) -> float:
        found = self.values.get("acceleration")
        return found if isinstance(found, float) else 0.0


class CarlaActuator(CarActuator):
    """Slows and stops a CARLA vehicle by its pedals; the steering stays the driver's.

    `now` is to be kept up to date with every frame.
    """

    def __init__(self) -> None:
        self.now = Situation()
        self._pedals, self._stop = Pedals(), Stop()
        self._steer = 0.0

    def carry_out(self, decision: Decision, proposal: Action | None) -> Action | None:
        if proposal is not None:
            self._steer = float(proposal.arguments.get("steer", 0.0))
        if decision.kind in ("proceed", "alert"):
            self._stop.let_go()
            self._pedals.lift()
            return proposal
        if decision.kind == "slow" and decision.cap_kmh is not None:
            self._stop.let_go()
            return self._slow(decision.cap_kmh, proposal)
        return self.fallback()

    def fallback(self) -> Action | None:
        now = self.now
        wanted = -BRAKE
        if now.values.get("stop_line_distance", ...) is not ...:
            wanted = self._stop.acceleration(
                now.values, now.speed, now.behind, now.conflicts, now.dt
            )
        return self._press(wanted)

    def _slow(self, cap_kmh: float, proposal: Action | None) -> Action | None:
        if proposal is None:
            # What the driver asks for is not known: above the cap it is held back.
            if self.now.speed < cap_kmh / 3.6 - _BELOW:
                self._pedals.lift()
                return None
            asked = 0.0
        else:
            given = proposal.arguments
            asked = THRUST * float(given.get("throttle", 0.0))
            asked -= BRAKE * float(given.get("brake", 0.0))
        capped = Action("control", {"acceleration": asked, "speed_cap_kmh": cap_kmh})
        wanted = wanted_acceleration(capped, self.now.speed)
        if proposal is not None and wanted >= min(asked, THRUST):
            self._pedals.lift()
            return proposal  # it drives slowly enough by itself
        return self._press(wanted)

    def _press(self, wanted: float) -> Action:
        now = self.now
        control = carla_module().VehicleControl(steer=self._steer)
        self._pedals.press(control, wanted, now.acceleration, now.dt, now.speed)
        return action_of(control)


class TrafficManagerActuator(CarlaActuator):
    """Slows an ego of CARLA's Traffic Manager by its own knobs; stops by the pedals.

    Args:
        manager: The `carla.TrafficManager` that drives the vehicle.
        ego: The vehicle's actor.
    """

    def __init__(self, manager: Any, ego: Any) -> None:
        super().__init__()
        self._manager, self._ego = manager, ego
        self._taken, self._capped = False, False

    def carry_out(self, decision: Decision, proposal: Action | None) -> Action | None:
        kind: Kind = decision.kind
        if kind in ("proceed", "alert"):
            self._give_back()
            return None
        if kind == "slow" and decision.cap_kmh is not None and not self._taken:
            self._manager.set_desired_speed(self._ego, decision.cap_kmh)
            self._capped = True
            over = self.now.speed - decision.cap_kmh / 3.6
            # Its own controller brakes late: nothing is pressed below the cap.
            return super().carry_out(decision, proposal) if over > 0.5 else None
        return super().carry_out(decision, proposal)

    def fallback(self) -> Action | None:
        if not self._taken:
            self._ego.set_autopilot(False, self._manager.get_port())
            self._taken = True
        return super().fallback()

    def _give_back(self) -> None:
        self._stop.let_go()
        if self._capped:
            self._manager.vehicle_percentage_speed_difference(self._ego, 0.0)
        if self._taken:
            self._ego.set_autopilot(True, self._manager.get_port())
        self._taken = self._capped = False
