"""Channels to signals: what is known, what is not there, what is unknown."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")
pytest.importorskip("libsumo", reason="libsumo is not installed")

from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.apollo_bridge import channels
from forewarn.apollo_bridge.channels import INPUTS, messages
from forewarn.apollo_bridge.lockstep import draw_map
from forewarn.apollo_bridge.maps import RoadMap, read_map
from forewarn.apollo_bridge.scene import Body
from forewarn.apollo_bridge.sense import ApolloSenses, provided
from forewarn.plugins.driving.sense import Surroundings

KNOWN = messages()
BODY = Body.of(4.8, 1.8)
TOLD = Surroundings().model_dump()
WEST = math.pi
LINE_X = 16.0  # of the stop line from the east
LANE_1_Y, LANE_2_Y = 4.875, 1.625
"""The right and the left lane from the east; people walk beside them."""


@pytest.fixture(scope="module")
def road_map() -> RoadMap:
    return read_map(draw_map("crossing"))


@pytest.fixture(scope="module")
def free_map() -> RoadMap:
    return read_map(draw_map("highway"))


class Scene:
    """An ego that drives to the crossing from the east, and what is around it."""

    def __init__(self, to_line_m: float = 30.0, speed: float = 10.0) -> None:
        self.inputs = {n: KNOWN[c.type]() for n, c in INPUTS.items()}
        self.speed = speed
        self.place(LINE_X + to_line_m, LANE_1_Y, WEST)
        chassis = self.inputs["chassis"]
        chassis.speed_mps, chassis.engine_started = speed, True
        chassis.throttle_percentage = chassis.brake_percentage = 0.0
        chassis.driving_mode, chassis.gear_location = 1, 1
        self.route("east_in_1", ":centre_5_0", "west_out_1")
        self.light("centre_5", 3)
        self.inputs["planning"].decision.main_decision.cruise.SetInParent()

    def place(self, front_x: float, y: float, heading: float) -> None:
        pose = self.inputs["localization"].pose
        pose.position.x = front_x - BODY.front_m * math.cos(heading)
        pose.position.y = y - BODY.front_m * math.sin(heading)
        pose.heading = heading
        gains = pose.linear_acceleration
        gains.x, gains.y, gains.z = 0.0, 0.0, 9.81

    def route(self, *lanes: str) -> None:
        del self.inputs["planning"].lane_id[:]
        for lane in lanes:
            self.inputs["planning"].lane_id.add(id=lane)

    def light(self, name: str, color: int, blink: bool = False) -> None:
        self.inputs["lights"].traffic_light.add(
            id=name, color=color, blink=blink, tracking_time=2.5
        )
        self.inputs["lights"].contain_lights = True

    def someone(
        self,
        x: float,
        y: float,
        heading: float,
        speed: float,
        kind: int = 5,
        way: tuple[tuple[float, float], ...] = (),
    ) -> Any:
        """Adds a car (5) or a pedestrian (3), its middle at x and y."""
        found = self.inputs["obstacles"].perception_obstacle
        made = found.add(id=len(found) + 1, type=kind, theta=heading)
        made.length, made.width = (4.6, 1.8) if kind == 5 else (0.4, 0.5)
        made.position.x, made.position.y = x, y
        made.velocity.x = speed * math.cos(heading)
        made.velocity.y = speed * math.sin(heading)
        if way:
            foretold = self.inputs["prediction"].prediction_obstacle.add()
            foretold.perception_obstacle.id = made.id
            points = foretold.trajectory.add(probability=0.9).trajectory_point
            for px, py in way:
                point = points.add().path_point
                point.x, point.y = px, py
        return made

    def values(self, road_map: RoadMap, **settings: Any) -> dict[str, Any]:
        values, fault = self.told(road_map, **settings)
        assert fault == ""
        return values

    def told(self, road_map: RoadMap, **settings: Any) -> tuple[dict[str, Any], str]:
        """The signals, and which message was nonsense."""
        senses = ApolloSenses(road_map, BODY, settings.get("told", TOLD))
        return senses.values(1.0, self.inputs), senses.fault


def test_the_route_ahead_is_found_on_the_map(road_map: RoadMap) -> None:
    values = Scene(30.0).values(road_map)
    assert values["speed"] == 36.0
    assert values["stop_line_distance"] == pytest.approx(30.0)
    assert values["junction_distance"] == pytest.approx(30.0)
    assert values["lane_count"] == 2 and values["lane_direction"] == "forward_right"
    assert values["direction"] == "forward"
    assert values["speed_limit"] == 50.0
    assert values["signal_ahead"] is True and values["traffic_light"] == "green"
    assert values["traffic_light_age"] == 2.5
    assert values["in_junction"] is False and values["collision"] is False
    assert values["time_to_stop_line"] == pytest.approx(3.0)


def test_live_view_shows_road_and_traffic(road_map: RoadMap) -> None:
    scene = Scene(30.0)
    scene.someone(LINE_X + 60.0, LANE_1_Y, WEST, 5.0)
    senses = ApolloSenses(road_map, BODY, TOLD)
    shown = senses.shown
    assert shown is not None
    senses.values(1.0, scene.inputs)
    ego, other, *rest = shown.things()
    assert (ego.kind, other.kind) == ("ego", "vehicle")
    assert ego.x == pytest.approx(LINE_X + 30.0 + ego.length_m / 2.0)
    assert ego.heading_deg == pytest.approx(270.0)
    assert other.x - ego.x == pytest.approx(30.0 - ego.length_m / 2.0, abs=0.3)
    lit = {each.state for each in rest if each.kind == "light"}
    assert "green" in lit
    assert {shape.kind for shape in shown.ground()} >= {"lane", "junction"}


def test_every_value_is_valid_in_the_vocabulary_and_declared(
    road_map: RoadMap,
) -> None:
    scene = Scene()
    scene.someone(30.0, LANE_1_Y, WEST, 5.0)
    scene.someone(10.0, -10.0, math.pi / 2, 1.2, kind=3)
    vocabulary = load_vocabulary("driving")
    values = scene.values(road_map)
    for name, value in values.items():
        vocabulary.check_value(name, value)
    promised = {n for n in provided(INPUTS, TOLD) if n[:-4] not in INPUTS}
    assert promised <= set(values)


@pytest.mark.parametrize("told", [{}, {"rain": 0.3}, TOLD])
@pytest.mark.parametrize("without", [(), ("prediction",), ("lights", "planning")])
def test_every_declared_signal_is_in_the_frame(
    road_map: RoadMap, told: dict[str, Any], without: tuple[str, ...]
) -> None:
    scene = Scene()
    scene.inputs["chassis"].chassis_gps.gps_valid = True
    scene.inputs["chassis"].chassis_gps.hours = 21
    for name in without:
        del scene.inputs[name]
    inputs = [name for name in INPUTS if name not in without]
    values = scene.values(road_map, told=told)
    for name in provided(inputs, told):
        assert name in values or name[:-4] in INPUTS, name


class TestNotThere:
    def test_an_empty_road_has_no_others(self, road_map: RoadMap) -> None:
        values = Scene().values(road_map)
        for name in ("lead_distance", "nearest_distance", "arrival_gap", "lead_speed"):
            assert values[name] is None

    def test_without_lights_on_the_map_no_light_governs(
        self, free_map: RoadMap
    ) -> None:
        scene = Scene()
        lane = next(iter(free_map.lanes.values()))
        (ax, ay), (bx, by) = lane.shape[:2]
        scene.place((ax + bx) / 2, (ay + by) / 2, math.atan2(by - ay, bx - ax))
        scene.route(lane.name)
        values = scene.values(free_map)
        assert values["traffic_light"] is None and values["signal_ahead"] is False
        assert values["junction_distance"] is None


class TestUnknown:
    """What is not known is never a zero."""

    def test_a_chassis_without_a_speed(self, road_map: RoadMap) -> None:
        scene = Scene()
        scene.inputs["chassis"].ClearField("speed_mps")
        values = scene.values(road_map)
        assert "speed" not in values and "stop_line_distance" not in values
        assert values["gear"] == "drive"

    @pytest.mark.parametrize("field", ["throttle", "brake"])
    def test_missing_pedal_percentages_are_unknown(
        self, road_map: RoadMap, field: str
    ) -> None:
        scene = Scene()
        scene.inputs["chassis"].ClearField(f"{field}_percentage")
        assert field not in scene.values(road_map)

    def test_nothing_at_all(self, road_map: RoadMap) -> None:
        senses = ApolloSenses(road_map, BODY, TOLD)
        assert senses.values(1.0, {}) == {}
        scene = Scene()
        del scene.inputs["chassis"]
        assert senses.values(1.0, scene.inputs) == {}

    @pytest.mark.parametrize(
        ("name", "signals"),
        [
            ("obstacles", ["lead_distance", "nearest_distance", "collision"]),
            ("lights", ["traffic_light", "traffic_light_age"]),
            ("planning", ["destination_reached", "direction"]),
        ],
    )
    def test_an_input_that_never_came(
        self, road_map: RoadMap, name: str, signals: list[str]
    ) -> None:
        scene = Scene()
        del scene.inputs[name]
        values = scene.values(road_map)
        for signal in signals:
            assert signal not in values
        assert values["stop_line_distance"] == pytest.approx(30.0)

    def test_a_place_off_the_map(self, road_map: RoadMap) -> None:
        scene = Scene()
        scene.place(500.0, 500.0, WEST)
        values = scene.values(road_map)
        assert values["speed"] == 36.0 and "stop_line_distance" not in values

    def knows_itself(self, scene: Scene, road_map: RoadMap, says: str) -> None:
        """What the fault touches is left out, and nothing else."""
        sound = Scene().values(road_map)
        values, fault = scene.told(road_map)
        assert says in fault
        assert values["speed"] == 36.0 and values["engine_on"] is True
        about_others = {"lead_distance", "collision", "shortfall", "headway"}
        assert not about_others & values.keys() and about_others <= sound.keys()
        if "obstacle" in says:
            assert values["stop_line_distance"] == sound["stop_line_distance"]
            assert values["traffic_light"] == sound["traffic_light"]

    @pytest.mark.parametrize("axis", ["x", "y"])
    def test_one_obstacle_whose_speed_is_unset_leaves_the_rest(
        self, road_map: RoadMap, axis: str
    ) -> None:
        scene = Scene()
        scene.someone(60.0, LANE_1_Y, WEST, 5.0)
        setattr(scene.someone(30.0, LANE_1_Y, WEST, 5.0).velocity, axis, math.nan)
        self.knows_itself(scene, road_map, "obstacle 2 has no")
        assert "lead_distance" not in scene.told(road_map)[0]

    def test_a_place_that_is_none(self, road_map: RoadMap) -> None:
        scene = Scene()
        scene.inputs["localization"].pose.ClearField("position")
        self.knows_itself(scene, road_map, "localization has no position")

    @pytest.mark.parametrize("field", ["position", "velocity"])
    def test_an_obstacle_without_a_place_or_a_speed(
        self, road_map: RoadMap, field: str
    ) -> None:
        scene = Scene()
        scene.someone(30.0, LANE_1_Y, WEST, 5.0).ClearField(field)
        self.knows_itself(scene, road_map, "obstacle 1 has no")

    @pytest.mark.parametrize("length", [math.nan, math.inf])
    def test_an_obstacle_without_a_size(self, road_map: RoadMap, length: float) -> None:
        scene = Scene()
        scene.someone(30.0, LANE_1_Y, WEST, 5.0).length = length
        self.knows_itself(scene, road_map, "obstacle 1 has no")

    def test_a_foretold_way_that_is_none(self, road_map: RoadMap) -> None:
        scene = Scene(20.0)
        way = ((math.nan, 0.0), (math.inf, 1.0))
        scene.someone(1.625, -40.0, math.pi / 2, 12.0, way=way)
        assert scene.values(road_map)["arrival_gap"] is not None

    @pytest.mark.parametrize("color", [0, None])
    def test_a_light_that_is_not_seen(
        self, road_map: RoadMap, color: int | None
    ) -> None:
        scene = Scene()
        del scene.inputs["lights"].traffic_light[:]
        if color is not None:
            scene.light("centre_5", color)
        scene.light("centre_99", 1)
        values = scene.values(road_map)
        assert values["traffic_light"] == "unknown" and values["signal_ahead"] is True


@pytest.mark.parametrize(
    ("color", "blink", "shown"),
    [(1, False, "red"), (2, False, "yellow"), (2, True, "yellow"), (3, True, "green"),
     (4, False, "off")],
)  # fmt: skip
def test_light_colors_are_translated(
    road_map: RoadMap, color: int, blink: bool, shown: str
) -> None:
    scene = Scene()
    del scene.inputs["lights"].traffic_light[:]
    scene.light("centre_5", color, blink)
    values = scene.values(road_map)
    assert values["traffic_light"] == shown
    assert values["traffic_light_blinking"] is blink


def test_each_lane_has_its_own_light(road_map: RoadMap) -> None:
    scene = Scene()
    scene.light("centre_4", 1)
    assert scene.values(road_map)["traffic_light"] == "green"
    scene.route("east_in_1", ":centre_4_0", ":centre_18_0", "north_out_1")
    values = scene.values(road_map)
    assert values["traffic_light"] == "red" and values["direction"] == "right"


def test_acceleration_is_along_the_heading_without_gravity(road_map: RoadMap) -> None:
    scene = Scene()
    gains = scene.inputs["localization"].pose.linear_acceleration
    gains.x, gains.y = 2.0, 5.0  # it looks west
    values = scene.values(road_map)
    assert values["acceleration"] == -2.0 and values["braking"] is True


def test_missing_acceleration_is_computed_from_speeds(
    road_map: RoadMap,
) -> None:
    scene = Scene()
    scene.inputs["localization"].pose.ClearField("linear_acceleration")
    senses = ApolloSenses(road_map, BODY, TOLD)
    assert senses.values(1.0, scene.inputs)["acceleration"] == 0.0
    scene.inputs["chassis"].speed_mps = 9.7
    assert senses.values(1.1, scene.inputs)["acceleration"] == pytest.approx(-3.0, 0.01)


class TestLead:
    def test_ahead_in_the_ego_s_lane(self, road_map: RoadMap) -> None:
        scene = Scene(30.0)
        scene.someone(LINE_X + 12.3, LANE_1_Y, WEST, 6.0)
        values = scene.values(road_map)
        assert values["lead_distance"] == pytest.approx(30.0 - 12.3 - 2.3)
        assert values["lead_speed"] == pytest.approx(21.6)
        # v² / 2d, to where the lead would come to stand.
        room = values["lead_distance"] + 36.0 / 12.0
        assert values["required_deceleration"] == pytest.approx(100 / (2 * room), 0.01)

    def test_not_in_the_next_lane(self, road_map: RoadMap) -> None:
        scene = Scene(30.0)
        scene.someone(LINE_X + 12.3, LANE_2_Y, WEST, 6.0)
        values = scene.values(road_map)
        assert values["lead_distance"] is None
        assert values["nearest_distance"] is not None

    def test_oncoming_car_is_not_the_lead_vehicle(self, road_map: RoadMap) -> None:
        scene = Scene(30.0)
        scene.someone(LINE_X + 20.0, -LANE_2_Y, 0.0, 10.0)
        values = scene.values(road_map)
        assert values["lead_distance"] is None
        assert values["oncoming_distance"] is not None
        assert values["oncoming_speed"] == pytest.approx(36.0)

    def test_behind_the_junction_on_the_ego_s_way(self, road_map: RoadMap) -> None:
        scene = Scene(5.0)
        scene.someone(-30.0, LANE_1_Y, WEST, 10.0)
        assert scene.values(road_map)["lead_distance"] == pytest.approx(48.7)


ACROSS = tuple((1.625, -60.0 + 4.0 * i) for i in range(40))
TO_THE_RIGHT = (*ACROSS[:11], (4.0, -12.0), (10.0, -4.9), (16.0, -4.9), (30.0, -4.9))


class TestCrossing:
    def test_prediction_determines_who_crosses(self, road_map: RoadMap) -> None:
        found = []
        for way in (ACROSS, TO_THE_RIGHT):
            scene = Scene(20.0)
            scene.someone(1.625, -40.0, math.pi / 2, 12.0, way=way)
            found.append(scene.values(road_map)["arrival_gap"])
        assert found[0] is not None and found[1] is None

    def test_without_prediction_every_possible_crossing_car_counts(
        self, road_map: RoadMap
    ) -> None:
        scene = Scene(20.0)
        scene.someone(1.625, -40.0, math.pi / 2, 12.0)
        assert scene.values(road_map)["arrival_gap"] is not None

    def test_car_facing_red_is_not_expected_to_cross(self, road_map: RoadMap) -> None:
        scene = Scene(20.0)
        scene.someone(1.625, -40.0, math.pi / 2, 12.0, way=ACROSS)
        scene.light("centre_10", 1)
        assert scene.values(road_map)["arrival_gap"] is None


class TestPeople:
    def test_on_the_crosswalk(self, road_map: RoadMap) -> None:
        scene = Scene(20.0)
        scene.someone(14.0, -1.0, math.pi / 2, 1.4, kind=3)
        values = scene.values(road_map)
        assert values["pedestrian_distance"] is not None
        assert values["priority_pedestrian"] is True
        assert values["lead_distance"] is None, "a pedestrian is no vehicle"

    def test_about_to_enter_it(self, road_map: RoadMap) -> None:
        way = tuple((14.0, 8.0 - i) for i in range(16))
        for path, near in ((way, True), ((), False)):
            scene = Scene(20.0)
            scene.someone(14.0, 8.0, -math.pi / 2, 1.4, kind=3, way=path)
            seen = scene.values(road_map)["pedestrian_distance"]
            assert (seen is not None) is near


class TestCollision:
    @pytest.mark.parametrize(("beside_m", "hit"), [(1.7, True), (1.9, False)])
    def test_bodies_that_overlap_collide(
        self, road_map: RoadMap, beside_m: float, hit: bool
    ) -> None:
        scene = Scene(30.0)
        scene.someone(LINE_X + 31.0, LANE_1_Y + beside_m, WEST, 0.0)
        assert scene.values(road_map)["collision"] is hit

    def test_a_car_across_reaches_farther(self, road_map: RoadMap) -> None:
        scene = Scene(30.0)
        scene.someone(LINE_X + 32.0, LANE_1_Y + 3.0, math.pi / 2, 0.0)
        assert scene.values(road_map)["collision"] is True


class TestLanes:
    def drive(self, road_map: RoadMap, side_mps: float) -> list[dict[str, Any]]:
        senses, frames = ApolloSenses(road_map, BODY, TOLD), []
        scene = Scene(100.0)
        for i in range(20):
            y = LANE_1_Y - side_mps * 0.1 * i
            scene.place(LINE_X + 100.0 - i, y, WEST)
            frames.append(senses.values(1.0 + 0.1 * i, scene.inputs))
        return frames

    def test_moving_across_is_changing_lanes(self, road_map: RoadMap) -> None:
        frames = self.drive(road_map, 1.6)
        assert all(frame["lane_changing"] for frame in frames[1:])
        assert not any(f["lane_changing"] for f in self.drive(road_map, 0.1))

    def test_turning_from_lane_to_lane_is_not(self, road_map: RoadMap) -> None:
        senses = ApolloSenses(road_map, BODY, TOLD)
        scene = Scene()
        scene.route("east_in_1", ":centre_4_0", ":centre_18_0", "north_out_1")
        for i, (x, y, heading) in enumerate(
            [(16.5, 4.875, WEST), (15.5, 4.946, WEST), (14.6, 5.074, WEST - 0.1)]
        ):
            scene.place(x, y, heading)
            values = senses.values(1.0 + 0.1 * i, scene.inputs)
            assert values["lane_changing"] is False


def test_chassis_fields_become_signals_of_the_driver(road_map: RoadMap) -> None:
    scene = Scene()
    chassis = scene.inputs["chassis"]
    chassis.driving_mode, chassis.gear_location = 0, 2
    chassis.signal.turn_signal, chassis.signal.horn = 1, True
    chassis.signal.low_beam = True
    values = scene.values(road_map)
    assert values["manual_control"] is True and values["gear"] == "reverse"
    assert values["turn_signal"] == "left" and values["horn_on"] is True
    assert values["low_beam_on"] is True and values["high_beam_on"] is False
    chassis.signal.emergency_light = True
    assert scene.values(road_map)["turn_signal"] == "hazard"
    chassis.gear_location = 5  # invalid
    assert "gear" not in scene.values(road_map)


def test_planning_decisions_become_signals(road_map: RoadMap) -> None:
    scene = Scene()
    decision = scene.inputs["planning"].decision
    decision.main_decision.mission_complete.SetInParent()
    passed = decision.object_decision.decision.add().object_decision.add()
    passed.overtake.distance_s = 8.0
    values = scene.values(road_map)
    assert values["destination_reached"] is True and values["overtaking"] is True


def test_without_a_route_the_vehicle_is_assumed_to_go_straight(
    road_map: RoadMap,
) -> None:
    scene = Scene()
    scene.route()
    values = scene.values(road_map)
    assert values["direction"] == "forward"
    assert values["stop_line_distance"] == pytest.approx(30.0)
    routing = KNOWN[channels.ROUTING.type]()
    segment = routing.road.add().passage.add().segment
    for name in ("east_in_1", ":centre_4_0", "north_out_1"):
        segment.add(id=name)
    scene.inputs["routing"] = routing
    assert scene.values(road_map)["direction"] == "right"


def test_the_age_of_a_color_grows_and_restarts_at_a_change(road_map: RoadMap) -> None:
    senses, scene = ApolloSenses(road_map, BODY, TOLD), Scene()
    ages = []
    for i in range(4):
        if i == 2:
            scene.inputs["lights"].traffic_light[0].color = 2
        ages.append(senses.values(1.0 + 0.1 * i, scene.inputs)["traffic_light_age"])
    assert ages == [2.5, 2.6, 0.0, 0.1]


def test_a_frame_is_not_changed_by_the_next(road_map: RoadMap) -> None:
    senses, scene = ApolloSenses(road_map, BODY, TOLD), Scene()
    first = Frame(0.0, 0, senses.values(1.0, scene.inputs))
    was = dict(first.values)
    scene.place(LINE_X + 10.0, LANE_1_Y, WEST)
    senses.values(1.1, scene.inputs)
    assert dict(first.values) == was
