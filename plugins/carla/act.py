"""Decisions to what a CARLA vehicle is told, and whether it shows that it obeys.

A vehicle's actions carry the numbers of a `carla.VehicleControl` by their names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.plugins.actions import CAP
from forewarn.plugins.carla.support import carla_module
from forewarn.plugins.carla.vehicle.handling import BRAKE, THRUST, Pedals
from forewarn.plugins.driving.act import (
    Around,
    CarActuator,
    amount,
    wanted_acceleration,
)

_BELOW = 0.1  # m/s
_STEP_S = 0.05
_LATE = 0.5  # m/s: the Traffic Manager brakes late, and below it nothing is pressed
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


class CarlaActuator(CarActuator):
    """Slows and stops a vehicle by its pedals; the steering stays the driver's."""

    def __init__(self, look: Callable[[], Around] | None = None) -> None:
        super().__init__(look)
        self._pedals = Pedals()
        self._steer = 0.0
        self._seen_s, self._passed_s = math.nan, _STEP_S

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        if proposal is not None:
            self._steer = float(proposal.arguments.get("steer", 0.0))
        self._notice(frame)
        if decision.kind in ("proceed", "alert"):
            self._give_back()
            return proposal
        if decision.kind == "slow" and decision.cap_kmh is not None:
            self.let_go()
            return self._slow(decision.cap_kmh, proposal, frame)
        return self.fallback(frame)

    def fallback(self, frame: Frame | None = None) -> Action:
        if frame is None:
            return self._press(-BRAKE, 0.0, 0.0)
        self._notice(frame)
        wanted = -BRAKE
        if "stop_line_distance" in frame.values:
            wanted = amount(super().fallback(frame), "acceleration", wanted)
        return self._press(wanted, *_motion(frame))

    def _notice(self, frame: Frame) -> None:
        if frame.time_s != self._seen_s:
            passed_s = frame.time_s - self._seen_s
            self._passed_s = passed_s if math.isfinite(passed_s) else _STEP_S
            self._seen_s = frame.time_s

    def _slow(
        self, cap_kmh: float, proposal: Action | None, frame: Frame
    ) -> Action | None:
        speed, acceleration = _motion(frame)
        if proposal is None:
            # What the driver asks for is not known: above the cap it is held back.
            if speed < cap_kmh / 3.6 - _BELOW:
                self._pedals.lift()
                return None
            asked = 0.0
        else:
            asked = THRUST * amount(proposal, "throttle", 0.0)
            asked -= BRAKE * amount(proposal, "brake", 0.0)
        capped = Action("control", {"acceleration": asked, CAP: cap_kmh})
        wanted = wanted_acceleration(capped, speed)
        if proposal is not None and wanted >= min(asked, THRUST):
            self._pedals.lift()
            return proposal  # it drives slowly enough by itself
        return self._press(wanted, speed, acceleration)

    def _press(self, wanted: float, speed: float, acceleration: float) -> Action:
        control = carla_module().VehicleControl(steer=self._steer)
        self._pedals.press(control, wanted, acceleration, self._passed_s, speed)
        return action_of(control)

    def _give_back(self) -> None:
        self.let_go()
        self._pedals.lift()


def _motion(frame: Frame) -> tuple[float, float]:
    """The ego's speed and acceleration, as far as the frame shows them."""
    speed = frame.values.get("speed")
    acceleration = frame.values.get("acceleration")
    return (
        speed / 3.6 if isinstance(speed, float) else 0.0,
        acceleration if isinstance(acceleration, float) else 0.0,
    )


class TrafficManagerActuator(CarlaActuator):
    """Slows an ego of CARLA's Traffic Manager by its own knobs; stops by the pedals.

    Args:
        manager: The `carla.TrafficManager` that drives the vehicle.
        ego: The vehicle's actor.
        look: What is around the vehicle.
    """

    def __init__(
        self, manager: Any, ego: Any, look: Callable[[], Around] | None = None
    ) -> None:
        super().__init__(look)
        self._manager, self._ego = manager, ego
        self._taken, self._capped = False, False

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        if decision.kind == "slow" and decision.cap_kmh is not None and not self._taken:
            self._manager.set_desired_speed(self._ego, decision.cap_kmh)
            self._capped = True
            if _motion(frame)[0] - decision.cap_kmh / 3.6 <= _LATE:
                return None
        carried = super().carry_out(decision, proposal, frame)
        # It drives by itself: what it proposes is nobody's to send.
        return None if decision.kind in ("proceed", "alert") else carried

    def fallback(self, frame: Frame | None = None) -> Action:
        if not self._taken:
            self._ego.set_autopilot(False, self._manager.get_port())
            self._taken = True
        return super().fallback(frame)

    def _give_back(self) -> None:
        super()._give_back()
        if self._capped:
            self._manager.vehicle_percentage_speed_difference(self._ego, 0.0)
        if self._taken:
            self._ego.set_autopilot(True, self._manager.get_port())
        self._taken = self._capped = False
