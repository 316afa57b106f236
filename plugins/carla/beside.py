"""A guard for a vehicle that another client drives, in synchronous or asynchronous
mode.

The guard never ticks the world. Its callback only stores the newest snapshot, because
exceptions in a callback are lost, and a tick in a callback never returns. While
intervening, the guard repeats its control until the next snapshot, because only the
last control before a tick has an effect. CARLA's client does not send a control that
equals the previous one. The guard therefore sends its control in a batch, which is
always sent, and restores the driver's last control at the end of the intervention. A
driver that sends a control just before each tick would override every control of the
guard. In this case, the guard lowers the speed of the vehicle directly, which no
control can undo.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.carla.act import BRAKE, control_of
from forewarn.plugins.carla.guarded import OWN_STEP_S, GuardedVehicle
from forewarn.plugins.carla.support import carla_module

_TIMEOUT_S = 2.0  # timeout of a call to the server
_QUERY_S, _LEAVES_S = 1.0, 0.2
_AGAIN_S = 0.002
_REPEAT_S = 0.01  # interval of the watchdog's stops: a driver may tick fast
_WAIT_S = 0.1
_SEARCH_S = 0.2
_MOST_S = 0.5
_NOTICEABLE = 0.02  # smaller differences of a pedal or the steering are noise


def find_vehicle(world: Any, role: str, wait_s: float = 10.0) -> Any:
    """Waits until a vehicle with this role exists, and returns the vehicle.

    Raises:
        InvalidInput: No such vehicle appears within `wait_s` seconds.
    """
    until_s = time.monotonic() + wait_s
    roles: list[str] = []
    while True:
        vehicles = [a for a in world.get_actors() if a.type_id.startswith("vehicle.")]
        roles = [vehicle.attributes.get("role_name", "") for vehicle in vehicles]
        if role in roles:
            return vehicles[roles.index(role)]
        if time.monotonic() >= until_s:
            seen = f"the roles are {', '.join(sorted(set(roles)))}"
            raise InvalidInput(
                f"no vehicle has the role {role!r:.60}",
                mend=f"{seen:.200}" if roles else "the world has no vehicles",
            )
        time.sleep(_SEARCH_S)


class Newest:
    """A context manager that stores the newest snapshot and its time of arrival."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._snapshot: Any = None
        self.came_s = time.monotonic()
        self._fresh = threading.Event()

    def __enter__(self) -> Newest:
        self._number = self._world.on_tick(self._keep)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RuntimeError):
            self._world.remove_on_tick(self._number)

    def _keep(self, snapshot: Any) -> None:
        self._snapshot, self.came_s = snapshot, time.monotonic()
        self._fresh.set()

    def wait(self, timeout_s: float) -> Any:
        """Returns the next snapshot, or None if none arrives within the timeout."""
        if not self._fresh.wait(timeout_s):
            return None
        self._fresh.clear()
        return self._snapshot


class Beside:
    """Guards a vehicle that another client drives.

    Use it as a context manager.

    The vehicle is stopped until the first snapshot has been reviewed, whenever a review
    is late, and on exit. In shadow mode, nothing is sent to the server.

    Args:
        client: The `carla.Client` that is connected to the world's server.
        world: A `carla.World`.
        guarded: The vehicle, with its guard.
        told: Called with each frame and the action that was carried out for it.
    """

    def __init__(
        self,
        client: Any,
        world: Any,
        guarded: GuardedVehicle,
        told: Callable[[Frame, Action | None], None],
    ) -> None:
        self._guarded, self._told = guarded, told
        self._client, self._ego = client, guarded.watching.ego
        self._drivers = self._ego.get_control()
        self._newest = Newest(world)
        self._held: Action | None = None
        self._taken = False
        self._pace: float | None = None
        self._sent: Any = None
        self._stopped_s = 0.0
        self.lost = 0
        """The number of times that no snapshot arrived in time."""

    def __enter__(self) -> Beside:
        self._client.set_timeout(_TIMEOUT_S)
        self._newest.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._client.set_timeout(_LEAVES_S)
        self._newest.__exit__()
        self._guarded.close()

    def run(self, over: Callable[[], bool]) -> None:
        """Guards until the run is over or the vehicle is gone.

        Raises:
            RuntimeError: The server does not answer, so the vehicle can no longer be
                controlled.
        """
        self._guarded.begin(self._stop, _REPEAT_S)
        patience_s = self._guarded.guard.policy.max_age_s
        began, asked_s = False, -math.inf
        while not over():
            snapshot = self._newest.wait(_WAIT_S if self._held is None else _AGAIN_S)
            if snapshot is not None:
                began = True
                self._look(snapshot)
            elif self._held is not None:
                self._apply(self._held)
            late_s = time.monotonic() - self._newest.came_s
            if began and late_s > patience_s:
                self.lost += 1
                began = False
                self._blind(late_s)
            if late_s > patience_s and time.monotonic() > asked_s + _QUERY_S:
                # Commands are not acknowledged, so only a query shows that the server
                # is alive.
                self._client.get_server_version()
                asked_s = time.monotonic()
            if not self._ego.is_alive:
                return

    def _look(self, snapshot: Any) -> None:
        age_s = max(0.0, time.monotonic() - self._newest.came_s)
        frame = self._guarded.watching.frame(snapshot, age_s)
        self._decide(frame)

    def _blind(self, late_s: float) -> None:
        """Reviews a frame without signals, because no snapshot has arrived in time."""
        last = self._guarded.last
        if last is not None:
            empty = Frame(last.time_s + late_s, last.sequence + 1, {})
            self._decide(empty)

    def _decide(self, frame: Frame) -> None:
        overruled, before = self._hear_driver(), self._guarded.last
        executed = self._guarded.review(None, frame)
        self._held = None if self._shadow else executed
        passed_s = OWN_STEP_S if before is None else frame.time_s - before.time_s
        self._keep_pace(overruled, frame, passed_s)
        self._told(frame, executed)
        if self._held is not None:
            self._apply(self._held)
        elif self._taken:
            self._taken = False
            if not overruled:
                self._send(self._drivers)

    # -- controlling the vehicle ------------------------------------------------------

    @property
    def _shadow(self) -> bool:
        return self._guarded.guard.policy.shadow

    def _apply(self, action: Action) -> None:
        self._taken = True
        self._send(control_of(action))

    def _send(self, control: Any) -> None:
        self._sent = control
        command = carla_module().command
        batch = [command.ApplyVehicleControl(self._ego.id, control)]
        if self._taken and self._pace is not None:
            heading = self._ego.get_transform().get_forward_vector()
            batch.append(
                command.ApplyTargetVelocity(self._ego.id, heading * self._pace)
            )
        with contextlib.suppress(RuntimeError):
            self._client.apply_batch(batch)

    def _hear_driver(self) -> bool:
        """Whether the driver has replaced the control that the guard last sent."""
        control, sent = self._ego.get_control(), self._sent
        if sent is not None and not any(
            abs(getattr(control, name) - getattr(sent, name)) > _NOTICEABLE
            for name in ("throttle", "brake", "steer")
        ):
            return False
        self._drivers = control
        return True

    def _keep_pace(self, overruled: bool, frame: Frame, passed_s: float) -> None:
        """Computes the speed to set on a vehicle whose driver overrides the guard."""
        held = self._held
        wanted = 0.0 if held is None else float(held.arguments.get("brake", 0.0))
        speed = (frame.values.get("speed") or 0.0) / 3.6
        if wanted <= _NOTICEABLE:
            self._pace = None
            return
        if self._pace is not None or (overruled and self._taken):
            pace = speed if self._pace is None else min(self._pace, speed)
            self._pace = max(0.0, pace - wanted * BRAKE * passed_s)

    def _stop(self) -> None:
        """Stops the vehicle; the watchdog repeats this until a frame is reviewed."""
        now_s = time.monotonic()
        passed_s, self._stopped_s = now_s - self._stopped_s, now_s
        velocity = self._ego.get_velocity()
        speed = math.hypot(velocity.x, velocity.y)
        overruled = self._hear_driver() and self._taken
        if self._pace is not None or overruled:
            # A speed above the current one would accelerate the vehicle.
            pace = speed if self._pace is None else min(self._pace, speed)
            gained = BRAKE * min(passed_s, _MOST_S) if overruled else 0.0
            self._pace = max(0.0, pace - gained)
        # Pass no frame, because the last known position is out of date.
        self._apply(self._guarded.actuator.fallback())
