"""A crossing of ours, written and read by commonroad-io: what our reading is held to.

It has its own environment, as it wants another protobuf than Apollo's messages:

    pip install commonroad-io==2026.1
    python tests/plugins/commonroad/written.py plugins/commonroad/crossing.xml.gz \\
      tests/plugins/commonroad/crossing.json
"""

# mypy: ignore-errors
from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from commonroad.common.common_lanelet import LaneletType, LineMarking, StopLine
from commonroad.common.file_reader import CommonRoadFileReader
from commonroad.common.file_writer import CommonRoadFileWriter
from commonroad.common.util import FileFormat, Interval
from commonroad.common.writer.file_writer_interface import OverwriteExistingFile
from commonroad.geometry.obstacle_shapes.circle_obstacle_shape import (
    CircleObstacleShape,
)
from commonroad.geometry.obstacle_shapes.rect_obstacle_shape import RectObstacleShape
from commonroad.planning.goal import GoalRegion
from commonroad.planning.planning_problem import PlanningProblem, PlanningProblemSet
from commonroad.prediction.prediction import TrajectoryPrediction
from commonroad.scenario.intersection import IncomingGroup, Intersection
from commonroad.scenario.lanelet import Lanelet
from commonroad.scenario.obstacle import DynamicObstacle, ObstacleType, StaticObstacle
from commonroad.scenario.scenario import Scenario, ScenarioID
from commonroad.scenario.state import CustomState, InitialState, SignalState
from commonroad.scenario.traffic_light import (
    TrafficLight,
    TrafficLightCycle,
    TrafficLightCycleElement,
    TrafficLightState,
)
from commonroad.scenario.traffic_sign import (
    TrafficSign,
    TrafficSignElement,
    TrafficSignIDZamunda,
)
from commonroad.scenario.trajectory import Trajectory

DT, STEPS, W = 0.1, 100, 3.5
scene = Scenario(
    DT,
    scenario_id=ScenarioID(
        map_name="Forewarn",
        map_id=1,
        configuration_id=1,
        obstacle_behavior="T",
        prediction_id=1,
    ),
)


def lanelet(number, points, **more):
    middle = np.array(points, float)
    along = np.gradient(middle, axis=0)
    along /= np.linalg.norm(along, axis=1)[:, None]
    aside = np.stack([-along[:, 1], along[:, 0]], axis=1) * W / 2
    return Lanelet(middle + aside, middle, middle - aside, number, **more)


def line(ax, ay, bx, by, n=11):
    return [(ax + (bx - ax) * t, ay + (by - ay) * t) for t in np.linspace(0, 1, n)]


def bow(ax, ay, cx, cy, bx, by, n=15):
    return [
        (
            (1 - t) ** 2 * ax + 2 * t * (1 - t) * cx + t * t * bx,
            (1 - t) ** 2 * ay + 2 * t * (1 - t) * cy + t * t * by,
        )
        for t in np.linspace(0, 1, n)
    ]


U, X = {LaneletType.URBAN}, {LaneletType.URBAN, LaneletType.INTERSECTION}
stop = StopLine(
    np.array([-10, 0.0]),
    np.array([-10, -W]),
    LineMarking.SOLID,
    traffic_light_ref={301},
)
give = StopLine(
    np.array([0.0, -10]), np.array([W, -10]), LineMarking.SOLID, traffic_sign_ref={402}
)
h = W / 2
net = [
    # to the east: two lanes before the crossing (102 is the left one), one behind it
    lanelet(
        101,
        line(-80, -h, -10, -h, 29),
        successor=[201, 202],
        adjacent_left=102,
        adjacent_left_same_direction=True,
        lanelet_type=U,
        stop_line=stop,
        traffic_lights={301},
        traffic_signs={401},
    ),
    lanelet(
        102,
        line(-80, h, -10, h, 29),
        successor=[203],
        adjacent_right=101,
        adjacent_right_same_direction=True,
        lanelet_type=U,
        traffic_lights={301},
        traffic_signs={401},
    ),
    lanelet(
        103,
        line(10, -h, 90, -h, 33),
        predecessor=[201],
        lanelet_type=U,
        traffic_signs={401},
    ),
    # from the south
    lanelet(
        104,
        line(h, -80, h, -10, 29),
        successor=[204],
        lanelet_type=U,
        stop_line=give,
        traffic_signs={402},
    ),
    lanelet(105, line(h, 10, h, 80, 29), predecessor=[203, 204], lanelet_type=U),
    lanelet(106, line(-h, -10, -h, -80, 29), predecessor=[202], lanelet_type=U),
    # inside
    lanelet(
        201, line(-10, -h, 10, -h), predecessor=[101], successor=[103], lanelet_type=X
    ),
    lanelet(
        202,
        bow(-10, -h, -h, -h, -h, -10),
        predecessor=[101],
        successor=[106],
        lanelet_type=X,
    ),
    lanelet(
        203,
        bow(-10, h, h, h, h, 10),
        predecessor=[102],
        successor=[105],
        lanelet_type=X,
    ),
    lanelet(
        204, line(h, -10, h, 10), predecessor=[104], successor=[105], lanelet_type=X
    ),
    lanelet(205, line(8, -6, 8, 4, 3), lanelet_type={LaneletType.CROSSWALK}),
]
scene.add_objects(net)
Z = TrafficSignIDZamunda
scene.add_objects(
    TrafficSign(
        401,
        [TrafficSignElement(Z.MAX_SPEED, ["13.9"])],
        {101, 102, 103},
        np.array([-78.0, -5.0]),
    ),
    {101, 102, 103},
)
scene.add_objects(
    TrafficSign(402, [TrafficSignElement(Z.YIELD)], {104}, np.array([5.0, -12.0])),
    {104},
)
S = TrafficLightState
cycle = TrafficLightCycle(
    [
        TrafficLightCycleElement(S.GREEN, 30),
        TrafficLightCycleElement(S.YELLOW, 20),
        TrafficLightCycleElement(S.RED, 40),
        TrafficLightCycleElement(S.RED_YELLOW, 10),
    ],
    time_offset=100,
)
scene.add_objects(TrafficLight(301, np.array([-10.0, -5.0]), cycle), {101, 102})
scene.add_objects(
    Intersection(
        501,
        [
            IncomingGroup(
                502,
                {101, 102},
                outgoing_right={202},
                outgoing_straight={201},
                outgoing_left={203},
            ),
            IncomingGroup(503, {104}, outgoing_straight={204}),
        ],
    )
)


def vehicle(number, kind, shape, way, **signals):
    """One who is at way(step): x, y, heading, speed."""
    states = []
    for step in range(STEPS + 1):
        x, y, heading, speed = way(step)
        states.append(
            CustomState(
                time_step=step,
                position=np.array([x, y]),
                orientation=heading,
                velocity=speed,
            )
        )
    first = states[0]
    begin = InitialState(
        time_step=0,
        position=first.position,
        orientation=first.orientation,
        velocity=first.velocity,
        acceleration=0.0,
        yaw_rate=0.0,
        slip_angle=0.0,
    )
    return DynamicObstacle(
        number,
        kind,
        shape,
        begin,
        TrajectoryPrediction(Trajectory(1, states[1:]), shape),
        **signals,
    )


def driven(speed, profile):
    """How far one has come at each step, and how fast one is."""
    far, out = 0.0, []
    for step in range(STEPS + 1):
        out.append((far, speed))
        a = profile(step * DT, far, speed)
        following = max(0.0, speed + a * DT)
        far += (speed + following) / 2 * DT
        speed = following
    return out


car = RectObstacleShape(width=1.8, length=4.5)
lead = driven(
    10.0, lambda t, far, v: -2.6 if 2.0 < t < 6.5 else (1.5 if t > 8.0 else 0.0)
)
ego = driven(
    12.0, lambda t, far, v: -3.6 if 3.0 < t < 6.5 else (1.2 if t > 8.5 else 0.0)
)
scene.add_objects(
    [
        vehicle(
            1001, ObstacleType.CAR, car, lambda s: (-72 + ego[s][0], -h, 0.0, ego[s][1])
        ),
        vehicle(
            1002,
            ObstacleType.CAR,
            car,
            lambda s: (-50 + lead[s][0], -h, 0.0, lead[s][1]),
        ),
        vehicle(
            1003,
            ObstacleType.TRUCK,
            RectObstacleShape(width=2.4, length=8.0),
            lambda s: (h, -60 + 0.7 * s, np.pi / 2, 7.0),
            initial_signal_state=SignalState(
                time_step=0,
                indicator_left=False,
                indicator_right=False,
                hazard_warning_lights=False,
                horn=False,
                braking_lights=False,
            ),
        ),
        vehicle(
            1004,
            ObstacleType.PEDESTRIAN,
            CircleObstacleShape(radius=0.3),
            lambda s: (
                8.0,
                5.0 - 0.13 * min(s, 85),
                -np.pi / 2,
                1.3 if s < 85 else 0.0,
            ),
        ),
    ]
)
scene.add_objects(
    StaticObstacle(
        1005,
        ObstacleType.PARKED_VEHICLE,
        car,
        InitialState(
            time_step=0,
            position=np.array([60.0, -h]),
            orientation=0.0,
            velocity=0.0,
            acceleration=0.0,
            yaw_rate=0.0,
            slip_angle=0.0,
        ),
    )
)
begin = InitialState(
    time_step=0,
    position=np.array([-40.0, h]),
    orientation=0.0,
    velocity=8.0,
    acceleration=0.0,
    yaw_rate=0.0,
    slip_angle=0.0,
)
goal = GoalRegion([CustomState(time_step=Interval(60, 100))])
problems = PlanningProblemSet([PlanningProblem(2001, begin, goal)])

with tempfile.TemporaryDirectory() as folder:
    path = str(Path(folder) / "crossing.xml")
    CommonRoadFileWriter(
        scene,
        problems,
        author="the Forewarn authors",
        affiliation="",
        source="made for this test",
        tags=set(),
        file_format=FileFormat.XML,
        decimal_precision=3,
    ).write_to_file(path, OverwriteExistingFile.ALWAYS)
    read, problems = CommonRoadFileReader(path).open()
    text = Path(path).read_bytes()
Path(sys.argv[1]).write_bytes(gzip.compress(text, 9, mtime=0))


def told(state):
    x, y = (round(float(value), 3) for value in state.position)
    return [state.time_step, x, y, round(state.orientation, 3), state.velocity]


network = read.lanelet_network
Path(sys.argv[2]).write_text(
    json.dumps(
        {
            "lanelets": {
                lanelet.lanelet_id: {
                    "length": round(float(lanelet.distance[-1]), 3),
                    "after": sorted(lanelet.successor),
                    "right": lanelet.adj_right,
                    "kinds": sorted(kind.value for kind in lanelet.lanelet_type),
                }
                for lanelet in network.lanelets
            },
            "lights": {
                light.traffic_light_id: [
                    light.get_state_at_time_step(step).value
                    for step in range(0, 250, 5)
                ]
                for light in network.traffic_lights
            },
            "obstacles": {
                each.obstacle_id: [
                    told(each.state_at_time(step)) for step in range(0, STEPS + 1, 20)
                ]
                for each in read.dynamic_obstacles
            },
        },
        indent=1,
    )
    + "\n"
)
