"""Commands in a batch: each by its place in CARLA 0.9.16's list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forewarn.abstractions.errors import ForewarnError
from forewarn.plugins.carla.standin import encoding
from forewarn.plugins.carla.standin.calls import (
    CALLS,
    Call,
    Handler,
    Host,
    actors,
    signals,
    vehicles,
)
from forewarn.plugins.carla.standin.encoding import Refusal

MOST = 20_000
DESTROY = 1


def _nothing(host: Host, *_: Any) -> None:
    pass


def _lamps(host: Host, which: int, wanted: int) -> None:
    vehicles.set_lamps(host, which, [wanted])


_COMMANDS: Sequence[tuple[str, Handler]] = (
    ("SpawnActor", actors.spawn_by_command),
    ("DestroyActor", actors.destroy),
    ("ApplyVehicleControl", vehicles.control),
    ("ApplyVehicleAckermannControl", vehicles.ackermann),
    ("ApplyWalkerControl", vehicles.walk),
    ("ApplyVehiclePhysicsControl", vehicles.set_physics),
    ("ApplyTransform", actors.set_transform),
    ("ApplyWalkerState", vehicles.walker_state),
    ("ApplyTargetVelocity", actors.set_velocity),
    ("ApplyTargetAngularVelocity", actors.set_spin),
    ("ApplyImpulse", actors.impulse),
    ("ApplyForce", actors.force),
    ("ApplyAngularImpulse", _nothing),
    ("ApplyTorque", _nothing),
    ("SetSimulatePhysics", actors.simulate_physics),
    ("SetEnableGravity", _nothing),
    ("SetAutopilot", lambda host, which, on, *_: vehicles.autopilot(host, which, on)),
    ("ShowDebugTelemetry", _nothing),
    ("SetVehicleLightState", _lamps),
    ("ApplyLocation", actors.set_location),
    ("ConsoleCommand", _nothing),
    ("SetTrafficLightState", signals.set_state),
)


def apply(host: Host, commands: Sequence[Any], then_tick: bool) -> list[Any]:
    if len(commands) > MOST:
        raise Refusal(f"more than {MOST} commands in a batch")
    answers = [_apply(host, command) for command in commands]
    if then_tick:
        host.world.tick()
    return answers


def _apply(host: Host, command: Sequence[Any], spawned: int | None = None) -> list[Any]:
    ((index, payload),) = command
    name, handler = _COMMANDS[index]
    try:
        if index == 0:
            number = actors.spawn_by_command(host, payload)
            for following in payload[-1]:
                _apply(host, following, number)
            return encoding.result(number)
        number = payload[0] if payload and isinstance(payload[0], int) else 0
        if spawned is not None:
            number = spawned
            payload = [spawned, *payload[1:]]
        done = handler(host, *payload)
    except ForewarnError as problem:
        return encoding.refused(str(problem))
    except Exception as problem:  # the payload is a stranger's
        return encoding.refused(f"{name}: {type(problem).__name__}: {problem}"[:300])
    if index == DESTROY and not done:
        return encoding.refused(f"unable to destroy actor {number}: not found")
    return encoding.result(number)


class _Batch(Call):
    """Its answers stand bare, without the frame that other calls have."""

    def answer(self, host: Host, arguments: list[Any]) -> Any:
        try:
            return apply(host, *arguments)
        except Exception as problem:  # the arguments are a stranger's
            return [encoding.refused(f"apply_batch: {problem}"[:300])]


CALLS["apply_batch"] = _Batch("apply_batch", "answers", apply)
