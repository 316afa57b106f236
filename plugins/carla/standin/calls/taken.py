"""Calls that are accepted although nothing in this world comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.plugins.carla.standin.actors import Actor, Vehicle, Walker
from forewarn.plugins.carla.standin.calls import Handler, Host, takes
from forewarn.plugins.carla.standin.encoding import Refusal

_ANY = -1

_OF_NOBODY: Mapping[str, int] = {
    "load_map_layer": 1, "unload_map_layer": 1, "enable_environment_objects": 2,
    "apply_color_texture_to_objects": _ANY,
    "apply_float_color_texture_to_objects": _ANY, "update_lights_state": _ANY,
    "update_day_night_cycle": _ANY, "enable_sensor_for_ros": 1,
    "disable_sensor_for_ros": 1, "draw_debug_shape": 1, "clear_debug_shape": 0,
    "clear_debug_string": 0, "set_annotations_traverse_translucency": 1,
}  # fmt: skip
"""How many arguments each has."""

_OF: Mapping[type[Actor], Mapping[str, int]] = {
    Actor: {
        "set_ignored_vehicles": 2, "show_vehicle_debug_telemetry": 2,
        "set_actor_enable_gravity": 2, "add_actor_angular_impulse": 2,
        "add_actor_torque": 2,
    },
    Vehicle: {
        "open_vehicle_door": 2, "close_vehicle_door": 2,
        "set_wheel_steer_direction": 3, "set_wheel_pitch_angle": 3,
        "enable_carsim": _ANY, "use_carsim_road": _ANY, "enable_chrono_physics": _ANY,
        "restore_physx_physics": 1,
    },
    Walker: {
        "set_bones_transform": 2, "blend_pose": 2, "get_pose_from_animation": 1,
    },
}  # fmt: skip
"""The same of those about an actor of a kind, which is their first."""


def _taking(count: int, kind: type[Actor] | None = None) -> Handler:
    def take(host: Host, *given: Any) -> None:
        if count not in (_ANY, len(given)):
            raise Refusal(f"there are {len(given)} arguments, not {count}")
        if kind is not None and not isinstance(host.world.actor(*given[:1]), kind):
            raise Refusal(f"actor {given[0]} is no {kind.__name__.lower()}")

    return take


for _name, _count in _OF_NOBODY.items():
    takes(_name)(_taking(_count))
for _kind, _calls in _OF.items():
    for _name, _count in _calls.items():
        takes(_name)(_taking(_count, _kind))
