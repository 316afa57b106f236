"""The blueprint library: what can be spawned, with attributes and sizes.

Names and attributes are those that scripts look for; sizes are those of such vehicles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from forewarn.standins.carla import actors
from forewarn.standins.carla.actors import (
    BICYCLE,
    BUS,
    CAR,
    MOTORCYCLE,
    PEDESTRIAN,
    STATIC,
    TRUCK,
    Refusal,
    Vector,
)

BOOL, INT, FLOAT, STRING, COLOUR = 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a blueprint, all values as text."""

    name: str
    kind: int
    value: str
    choices: tuple[str, ...] = ()
    modifiable: bool = True
    restricted: bool = False

    def check(self, text: str) -> None:
        """Rejects a text that is not a value of this attribute's kind."""
        try:
            if self.kind == INT:
                actors.number(int(text))
            elif self.kind == FLOAT:
                actors.number(float(text))
        except ValueError:
            raise Refusal(f"{self.name} is {text!r:.40}, not a number") from None

    def encoded(self) -> list[Any]:
        return [
            self.name, self.kind, self.value, list(self.choices), self.modifiable,
            self.restricted,
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Something that can be spawned; `half` is half its length, width and height."""

    number: int
    name: str
    attributes: tuple[Attribute, ...]
    half: Vector = (0.0, 0.0, 0.0)
    tag: int = 0
    mass: float = 0.0
    wheels: int = 0

    def given(self, values: Mapping[str, str]) -> list[list[Any]]:
        """The attributes of an actor, encoded, some with values of their own.

        Raises:
            Refusal: A number is none.
        """
        for attribute in self.attributes:
            if attribute.name in values:
                attribute.check(values[attribute.name])
        return [[a.name, a.kind, values.get(a.name, a.value)] for a in self.attributes]

    def encoded(self) -> list[Any]:
        tags = self.name.replace(".", ",")
        return [self.number, self.name, tags, [a.encoded() for a in self.attributes]]


# name: base type, wheels, generation, special type, length, width, height, mass
_VEHICLES: Mapping[str, tuple[str, int, int, str, float, float, float, float]] = {
    "vehicle.audi.a2": ("car", 4, 1, "", 3.71, 1.79, 1.55, 1200),
    "vehicle.audi.etron": ("car", 4, 1, "electric", 4.86, 2.03, 1.65, 2490),
    "vehicle.audi.tt": ("car", 4, 1, "", 4.18, 1.99, 1.39, 1355),
    "vehicle.bh.crossbike": ("bicycle", 2, 1, "", 1.49, 0.86, 1.61, 90),
    "vehicle.bmw.grandtourer": ("car", 4, 1, "", 4.61, 2.24, 1.67, 1600),
    "vehicle.carlamotors.carlacola": ("truck", 4, 1, "", 5.20, 2.61, 2.47, 5500),
    "vehicle.carlamotors.european_hgv": ("truck", 6, 2, "", 7.94, 2.89, 3.88, 18000),
    "vehicle.carlamotors.firetruck": ("truck", 4, 2, "emergency", 8.47, 2.89, 3.83,
                                      18000),
    "vehicle.chevrolet.impala": ("car", 4, 1, "", 5.36, 2.03, 1.41, 1700),
    "vehicle.citroen.c3": ("car", 4, 1, "", 3.99, 1.85, 1.62, 1150),
    "vehicle.diamondback.century": ("bicycle", 2, 1, "", 1.64, 0.37, 1.63, 90),
    "vehicle.dodge.charger_2020": ("car", 4, 2, "", 5.01, 1.88, 1.53, 1900),
    "vehicle.dodge.charger_police": ("car", 4, 1, "emergency", 4.97, 2.04, 1.54, 1900),
    "vehicle.dodge.charger_police_2020": ("car", 4, 2, "emergency", 5.24, 1.93, 1.64,
                                          1900),
    "vehicle.ford.ambulance": ("van", 4, 2, "emergency", 6.36, 2.35, 2.43, 4500),
    "vehicle.ford.crown": ("car", 4, 2, "taxi", 5.37, 1.80, 1.57, 1800),
    "vehicle.ford.mustang": ("car", 4, 1, "", 4.72, 1.89, 1.30, 1650),
    "vehicle.gazelle.omafiets": ("bicycle", 2, 1, "", 1.84, 0.66, 1.78, 90),
    "vehicle.harley-davidson.low_rider": ("motorcycle", 2, 1, "", 2.35, 0.77, 1.64,
                                          330),
    "vehicle.jeep.wrangler_rubicon": ("car", 4, 1, "", 3.87, 1.91, 1.88, 1950),
    "vehicle.kawasaki.ninja": ("motorcycle", 2, 1, "", 2.03, 0.80, 1.52, 200),
    "vehicle.lincoln.mkz_2017": ("car", 4, 1, "", 4.90, 2.06, 1.51, 1800),
    "vehicle.lincoln.mkz_2020": ("car", 4, 2, "", 4.89, 1.84, 1.49, 1800),
    "vehicle.mercedes.coupe": ("car", 4, 1, "", 5.03, 2.15, 1.64, 1700),
    "vehicle.mercedes.coupe_2020": ("car", 4, 2, "", 4.67, 1.82, 1.44, 1700),
    "vehicle.mercedes.sprinter": ("van", 4, 2, "", 5.92, 1.99, 2.56, 2400),
    "vehicle.micro.microlino": ("car", 4, 1, "electric", 2.21, 1.48, 1.38, 513),
    "vehicle.mini.cooper_s": ("car", 4, 1, "", 3.81, 1.97, 1.48, 1200),
    "vehicle.mini.cooper_s_2021": ("car", 4, 2, "", 4.55, 2.10, 1.77, 1200),
    "vehicle.mitsubishi.fusorosa": ("bus", 4, 2, "", 10.27, 3.94, 4.25, 7000),
    "vehicle.nissan.micra": ("car", 4, 1, "", 3.63, 1.85, 1.50, 1000),
    "vehicle.nissan.patrol": ("car", 4, 1, "", 4.60, 1.93, 1.85, 2200),
    "vehicle.nissan.patrol_2021": ("car", 4, 2, "", 5.57, 2.15, 2.05, 2500),
    "vehicle.seat.leon": ("car", 4, 1, "", 4.19, 1.82, 1.47, 1300),
    "vehicle.tesla.cybertruck": ("truck", 4, 2, "electric", 6.27, 2.40, 2.10, 3000),
    "vehicle.tesla.model3": ("car", 4, 2, "electric", 4.79, 2.16, 1.49, 1845),
    "vehicle.toyota.prius": ("car", 4, 1, "electric", 4.51, 2.01, 1.52, 1400),
    "vehicle.vespa.zx125": ("motorcycle", 2, 1, "", 1.80, 0.87, 1.56, 110),
    "vehicle.volkswagen.t2": ("van", 4, 1, "", 4.48, 2.07, 2.04, 1600),
    "vehicle.volkswagen.t2_2021": ("van", 4, 2, "", 4.44, 1.77, 1.99, 1600),
    "vehicle.yamaha.yzf": ("motorcycle", 2, 1, "", 2.21, 0.87, 1.53, 190),
}  # fmt: skip
_TAGS = {
    "car": CAR, "van": CAR, "truck": TRUCK, "bus": BUS, "motorcycle": MOTORCYCLE,
    "bicycle": BICYCLE,
}  # fmt: skip
_COLOURS = ("17,37,103", "180,44,44", "240,240,240", "10,10,10", "120,120,125")
_WALKERS = 51
_CHILDREN = range(9, 15)

_PROPS: Mapping[str, Vector] = {
    "barrel": (0.35, 0.35, 0.5), "bench01": (0.9, 0.4, 0.45), "bin": (0.4, 0.4, 0.6),
    "box01": (0.3, 0.3, 0.3), "busstop": (2.0, 0.9, 1.4),
    "chainbarrier": (0.8, 0.1, 0.5),
    "clothcontainer": (0.7, 0.6, 0.9), "constructioncone": (0.2, 0.2, 0.35),
    "container": (1.1, 0.8, 0.8), "creasedbox01": (0.3, 0.3, 0.1),
    "dirtdebris01": (0.8, 0.8, 0.05), "fountain": (2.0, 2.0, 1.5),
    "gnome": (0.15, 0.15, 0.3), "kiosk_01": (1.2, 1.2, 1.4),
    "mailbox": (0.3, 0.3, 0.6), "plantpot01": (0.4, 0.4, 0.5),
    "shoppingcart": (0.45, 0.3, 0.5), "streetbarrier": (0.6, 0.2, 0.5),
    "trafficcone01": (0.2, 0.2, 0.35), "trafficcone02": (0.2, 0.2, 0.35),
    "trafficwarning": (0.9, 0.6, 1.0), "trashcan01": (0.3, 0.3, 0.5),
    "vendingmachine": (0.5, 0.45, 0.95), "warningconstruction": (0.4, 0.2, 0.6),
}  # fmt: skip

_CAMERA = (
    ("image_size_x", INT, "800"), ("image_size_y", INT, "600"), ("fov", FLOAT, "90.0"),
    ("lens_circle_falloff", FLOAT, "5.0"), ("lens_circle_multiplier", FLOAT, "0.0"),
    ("lens_k", FLOAT, "-1.0"), ("lens_kcube", FLOAT, "0.0"),
    ("lens_x_size", FLOAT, "0.08"), ("lens_y_size", FLOAT, "0.08"),
)  # fmt: skip
_RGB = (
    ("bloom_intensity", FLOAT, "0.675"), ("enable_postprocess_effects", BOOL, "True"),
    ("exposure_compensation", FLOAT, "0.0"), ("exposure_mode", STRING, "histogram"),
    ("fstop", FLOAT, "1.4"), ("gamma", FLOAT, "2.2"), ("iso", FLOAT, "100.0"),
    ("lens_flare_intensity", FLOAT, "0.1"), ("motion_blur_intensity", FLOAT, "0.45"),
    ("shutter_speed", FLOAT, "200.0"),
)  # fmt: skip
_RAYS = (
    ("channels", INT, "32"), ("range", FLOAT, "10.0"),
    ("points_per_second", INT, "56000"), ("rotation_frequency", FLOAT, "10.0"),
    ("upper_fov", FLOAT, "10.0"), ("lower_fov", FLOAT, "-30.0"),
    ("horizontal_fov", FLOAT, "360.0"),
)  # fmt: skip
_NOISE_GNSS = tuple(
    (f"noise_{axis}_{what}", FLOAT, "0.0")
    for axis in ("alt", "lat", "lon")
    for what in ("bias", "stddev")
) + (("noise_seed", INT, "0"),)
_NOISE_IMU = (
    tuple((f"noise_accel_stddev_{a}", FLOAT, "0.0") for a in "xyz")
    + tuple((f"noise_gyro_stddev_{a}", FLOAT, "0.0") for a in "xyz")
    + tuple((f"noise_gyro_bias_{a}", FLOAT, "0.0") for a in "xyz")
    + (("noise_seed", INT, "0"),)
)
_EACH = (("sensor_tick", FLOAT, "0.0"),)

_SENSORS: Mapping[str, Sequence[tuple[str, int, str]]] = {
    "sensor.camera.rgb": (*_EACH, *_CAMERA, *_RGB),
    "sensor.camera.depth": (*_EACH, *_CAMERA),
    "sensor.camera.semantic_segmentation": (*_EACH, *_CAMERA),
    "sensor.camera.instance_segmentation": (*_EACH, *_CAMERA),
    "sensor.lidar.ray_cast": (
        *_EACH, *_RAYS, ("atmosphere_attenuation_rate", FLOAT, "0.004"),
        ("dropoff_general_rate", FLOAT, "0.0"),
        ("dropoff_intensity_limit", FLOAT, "1.0"),
        ("dropoff_zero_intensity", FLOAT, "0.0"), ("noise_stddev", FLOAT, "0.0"),
    ),
    "sensor.lidar.ray_cast_semantic": (*_EACH, *_RAYS),
    "sensor.other.collision": (),
    "sensor.other.gnss": (*_EACH, *_NOISE_GNSS),
    "sensor.other.imu": (*_EACH, *_NOISE_IMU),
    "sensor.other.lane_invasion": (),
    "sensor.other.obstacle": (
        *_EACH, ("distance", FLOAT, "5.0"), ("hit_radius", FLOAT, "0.5"),
        ("only_dynamics", BOOL, "False"), ("debug_linetrace", BOOL, "False"),
    ),
    "sensor.other.radar": (
        *_EACH, ("horizontal_fov", FLOAT, "30.0"), ("vertical_fov", FLOAT, "30.0"),
        ("range", FLOAT, "100.0"), ("points_per_second", INT, "1500"),
    ),
}  # fmt: skip


@cache
def library() -> Mapping[str, Blueprint]:
    """All blueprints by name."""
    return {
        made.name: made for made in (*_vehicles(), *_walkers(), *_sensors(), *_others())
    }


def find(name: str) -> Blueprint:
    """A blueprint by name.

    Raises:
        Refusal: There is none.
    """
    found = library().get(name)
    if found is None:
        raise Refusal(f"no blueprint {name!r:.80} in this server's library")
    return found


def _vehicles() -> Iterator[Blueprint]:
    for number, (name, row) in enumerate(_VEHICLES.items(), start=1):
        base, wheels, generation, special, length, width, height, mass = row
        lights = generation == 2 or special == "emergency"
        attributes = [
            Attribute("role_name", STRING, "autopilot",
                      ("autopilot", "scenario", "ego_vehicle")),
            Attribute("sticky_control", BOOL, "True"),
            Attribute("terramechanics", BOOL, "False"),
            Attribute("object_type", STRING, "", modifiable=False),
            Attribute("base_type", STRING, base, modifiable=False),
            Attribute("special_type", STRING, special, modifiable=False),
            Attribute("generation", INT, str(generation), modifiable=False),
            Attribute("number_of_wheels", INT, str(wheels), modifiable=False),
            Attribute("has_lights", BOOL, str(lights).lower(), modifiable=False),
            Attribute("has_dynamic_doors", BOOL, "false", modifiable=False),
            Attribute("ros_name", STRING, name),
        ]  # fmt: skip
        if special not in ("emergency",):
            attributes.append(
                Attribute("color", COLOUR, _COLOURS[0], _COLOURS, restricted=False)
            )
        if wheels == 2:
            attributes.append(
                Attribute("driver_id", INT, "1", tuple("123"), restricted=True)
            )
        half = length / 2.0, width / 2.0, height / 2.0
        yield Blueprint(
            number, name, tuple(attributes), half, _TAGS[base], mass, wheels
        )


def _walkers() -> Iterator[Blueprint]:
    for number in range(1, _WALKERS + 1):
        child = number in _CHILDREN
        yield Blueprint(
            1000 + number,
            f"walker.pedestrian.{number:04d}",
            (
                Attribute("role_name", STRING, "pedestrian", ("pedestrian",)),
                Attribute("gender", STRING, "female" if number % 2 else "male",
                          modifiable=False),
                Attribute("age", STRING, "child" if child else "adult",
                          modifiable=False),
                Attribute("generation", INT, "1" if number < 15 else "2",
                          modifiable=False),
                Attribute("speed", FLOAT, "1.4", ("0.0", "1.4", "2.5")),
                Attribute("is_invincible", BOOL, "true"),
                Attribute("can_use_wheelchair", BOOL, "false", modifiable=False),
                Attribute("use_wheelchair", BOOL, "false"),
                Attribute("ros_name", STRING, f"walker.pedestrian.{number:04d}"),
            ),
            (0.19, 0.19, 0.55 if child else 0.93),
            PEDESTRIAN,
            75.0,
        )  # fmt: skip


def _sensors() -> Iterator[Blueprint]:
    for number, (name, rows) in enumerate(_SENSORS.items(), start=2001):
        attributes = [Attribute("role_name", STRING, "front")]
        attributes += [Attribute(*row) for row in rows]
        attributes.append(Attribute("ros_name", STRING, name))
        yield Blueprint(number, name, tuple(attributes))


def _others() -> Iterator[Blueprint]:
    named = Attribute("role_name", STRING, "prop")
    yield Blueprint(3001, "controller.ai.walker", (named,))
    for number, (name, half) in enumerate(_PROPS.items(), start=3101):
        size = Attribute("size", STRING, "medium", modifiable=False)
        yield Blueprint(number, f"static.prop.{name}", (named, size), half, STATIC)
    yield Blueprint(3099, "static.trigger.friction", (named,))
