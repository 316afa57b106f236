"""Translates decisions into commands for a CARLA vehicle, and checks that it obeys.

The arguments of an action are the fields of a `carla.VehicleControl`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.plugins.actions import CAP
from forewarn.plugins.carla.support import carla_module
from forewarn.plugins.driving.act import (
    CarActuator,
    CarSurroundings,
    amount,
    wanted_acceleration,
)
from forewarn.plugins.driving.places import Places
from forewarn.plugins.driving.roads import Point, Roads, Way
from forewarn.plugins.driving.scene import Mover

_BELOW = 0.1  # m/s
_STEP_S = 0.05
_LATE = 0.5  # m/s: the Traffic Manager brakes late; a smaller excess is left to it
_NUMBERS = ("throttle", "steer", "brake")
_SWITCHES = ("hand_brake", "reverse")


def action_of(control: Any) -> Action:
    """Converts a `carla.VehicleControl` to an action."""
    numbers = {name: float(getattr(control, name)) for name in _NUMBERS}
    switches = {name: bool(getattr(control, name)) for name in _SWITCHES}
    return Action("control", {**numbers, **switches})


def control_of(action: Action) -> Any:
    """Converts an action to a `carla.VehicleControl`."""
    given = action.arguments
    return carla_module().VehicleControl(
        **{name: float(given.get(name, 0.0)) for name in _NUMBERS},
        **{name: bool(given.get(name, False)) for name in _SWITCHES},
    )


class CarlaActuator(CarActuator):
    """Slows and stops a vehicle through its pedals; the driver still steers."""

    def __init__(self, look: Callable[[], CarSurroundings] | None = None) -> None:
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
            # What the driver asks for is unknown, so the car is slowed only above the
            # cap.
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
            return proposal  # already slow enough
        return self._press(wanted, speed, acceleration)

    def _press(self, wanted: float, speed: float, acceleration: float) -> Action:
        control = carla_module().VehicleControl(steer=self._steer)
        self._pedals.press(control, wanted, acceleration, self._passed_s, speed)
        return action_of(control)

    def _give_back(self) -> None:
        self.let_go()
        self._pedals.lift()


def _motion(frame: Frame) -> tuple[float, float]:
    """Returns the ego's speed and acceleration from a frame; 0 if they are missing."""
    speed = frame.values.get("speed")
    acceleration = frame.values.get("acceleration")
    return (
        speed / 3.6 if isinstance(speed, float) else 0.0,
        acceleration if isinstance(acceleration, float) else 0.0,
    )


class TrafficManagerActuator(CarlaActuator):
    """Slows a vehicle by setting the Traffic Manager's desired speed, and stops it
    with the pedals.

    Args:
        manager: The `carla.TrafficManager` that drives the vehicle.
        ego: The actor of the vehicle.
        look: Returns the surroundings of the vehicle.
    """

    def __init__(
        self, manager: Any, ego: Any, look: Callable[[], CarSurroundings] | None = None
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
        # The Traffic Manager drives, so there is no proposal to send.
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


THRUST = 4.0  # m/s² at full throttle, approximately
BRAKE = 9.0  # m/s² at full brake
_AHEAD_S, _AHEAD_M = 0.45, 3.0
_LANE_CHANGE_S = 1.2
_LEARNING_RATE = 0.5  # learning rate of the correction for this car, per second
_MOST = 3.0  # m/s², maximum correction
_STANDSTILL = 0.05


class Steering:
    """Steers along the lanes of the route, towards a point on their centre line ahead.

    Args:
        roads: The road network of the map.
        places: Finds the lanes at a position.
        half_m: Half the length of the car in m.
        wheelbase_m: The distance between the axles in m.
    """

    def __init__(
        self, roads: Roads, places: Places, half_m: float, wheelbase_m: float
    ) -> None:
        self._roads, self._places = roads, places
        self._half_m, self._wheelbase_m = half_m, wheelbase_m
        self._wanted = ""

    def change_to(self, lane: str) -> None:
        """Starts a lane change to an adjacent lane."""
        self._wanted = lane

    def angle(self, mover: Mover, way: Way) -> float:
        """Returns the steering angle in radians; positive is to the right."""
        changes = bool(self._wanted) and self._wanted != mover.lane
        if not changes:
            self._wanted = ""
        look_s = _LANE_CHANGE_S if changes else _AHEAD_S
        rear_m = self._half_m + self._wheelbase_m / 2.0
        look_m = rear_m + max(_AHEAD_M, look_s * mover.speed)
        x, y = self._rear(mover, rear_m)
        target = self._target(mover, way, look_m - rear_m, changes)
        dx, dy = target[0] - x, target[1] - y
        off = math.atan2(dy, dx) - mover.heading
        reach = max(0.5, math.hypot(dx, dy))
        return -math.atan2(2.0 * self._wheelbase_m * math.sin(off), reach)

    def _rear(self, mover: Mover, rear_m: float) -> Point:
        x = mover.x - rear_m * math.cos(mover.heading)
        return x, mover.y - rear_m * math.sin(mover.heading)

    def _target(self, mover: Mover, way: Way, ahead_m: float, changes: bool) -> Point:
        """Returns the point on the path at a distance ahead of the car's front."""
        if changes:
            return self._places.at(self._wanted, mover.at_m + ahead_m)[0]
        start = way.start_m.get(mover.lane)
        if start is None:
            return self._places.at(mover.lane, mover.at_m + ahead_m)[0]
        at = start + mover.at_m + ahead_m
        names = [name for name, begins in way.start_m.items() if begins <= at]
        last = max(names, key=lambda name: way.start_m[name])
        return self._places.at(last, at - way.start_m[last])[0]


class Pedals:
    """Converts an acceleration to throttle and brake, and adapts to the car."""

    def __init__(self) -> None:
        self._wanted: float | None = None
        self._more = 0.0

    def press(
        self, control: Any, wanted: float, measured: float, dt: float, speed: float
    ) -> Any:
        """Sets the pedals of a `carla.VehicleControl` so that the car reaches an
        acceleration.

        Args:
            control: The control to change; its steering is not changed.
            wanted: The target acceleration in m/s².
            measured: The measured acceleration since the previous call, in m/s².
            dt: The time since the previous call, in seconds.
            speed: The car's speed in m/s.
        """
        if self._wanted is not None and speed > _STANDSTILL:
            missed = self._wanted - measured
            self._more += _LEARNING_RATE * dt * max(-_MOST, min(_MOST, missed))
            self._more = max(-_MOST, min(_MOST, self._more))
        self._wanted = wanted
        push = wanted + (self._more if wanted > -BRAKE / 2.0 else 0.0)
        control.throttle = max(0.0, min(1.0, push / THRUST))
        control.brake = max(0.0, min(1.0, -push / BRAKE))
        if wanted < 0.0:
            control.throttle = 0.0
        if speed < _STANDSTILL and wanted < 0.0:
            control.brake = 1.0
        control.hand_brake = False
        return control

    def lift(self) -> None:
        """Resets the learned correction, because another driver uses the pedals."""
        self._wanted, self._more = None, 0.0
