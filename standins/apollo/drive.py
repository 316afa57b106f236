"""Runs a SUMO scenario and describes it in Apollo messages.

The perception, prediction and localization messages contain the ground truth of the
simulation. The planning messages contain the decisions of the scenario's pilot, unless
a command overrides them.

Lanes and crosswalks have the same names in Apollo's map as in SUMO. The name of a
traffic light consists of the SUMO light's id and a link index, as in `centre_4`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from forewarn import Action, Frame
from forewarn.plugins import CAP, Pilot
from forewarn.standins.apollo.planner import Planner

FORESEEN_M = 160.0
"""The length in metres of the predicted and planned paths."""

_STEP_M = 4.0
_REAR_M = 1.043
"""The distance from the middle of the rear axle (Apollo's reference point) to the rear
bumper.
"""

_HEIGHT_M = 1.6
_COLOURS = {"r": 1, "u": 1, "y": 2, "Y": 2, "g": 3, "G": 3, "s": 3, "o": 2, "O": 4}
_GEARS = {"neutral": 0, "drive": 1, "reverse": 2, "parking": 3}
_TURNS = {"off": 0, "left": 1, "right": 2, "hazard": 3}
_PEDESTRIAN, _VEHICLE = 3, 5
_CAR, _TRUCK, _WALKER = 3, 5, 10
_NORMAL = 1


class _Seen(NamedTuple):
    """The state of a road user: centre, heading (in Apollo's convention), speed and
    size.
    """

    number: int
    x: float
    y: float
    theta: float
    speed: float
    length: float
    width: float
    walks: bool


class SumoDrive:
    """Runs episodes of a SUMO scenario and creates the Apollo messages for each step.

    Args:
        world: The SUMO world.
        pilot: The pilot that drives the ego vehicle.
        messages: The message classes of an Apollo edition.
        max_time_s: The maximum duration of an episode in seconds.
    """

    frame: Frame

    def __init__(
        self,
        world: Any,
        pilot: Pilot,
        messages: Any,
        max_time_s: float = math.inf,
    ) -> None:
        self.world, self._pilot, self._messages = world, pilot, messages
        self._max_time_s = max_time_s
        self.period_s = world.source.period_s
        self._channels = messages.channels
        self._over = "the drive has not begun"

    @property
    def over(self) -> str:
        """The reason why the episode ended; empty while it is running."""
        return self._over

    def begin(self, seed: int) -> Frame:
        """Starts an episode with the given seed and returns its first frame."""
        self.frame = self.world.reset(seed)
        self._pilot.reset(seed)
        self._brakes = self.world.actuator()
        self._over = ""
        self._numbers: dict[str, int] = {}
        self._ego = next(t.name for t in self.world.things() if t.kind == "ego")
        self._sumo, self._roads = self.world.sumo, self.world.roads
        self._ways: dict[tuple[str, tuple[str, ...]], PathAhead] = {}
        vehicle = self._sumo.vehicle
        self.size = vehicle.getLength(self._ego), vehicle.getWidth(self._ego)
        self._route = tuple(vehicle.getRoute(self._ego))
        self._look()
        return self.frame

    def advance(self, planner: Planner) -> Frame:
        """Advances by one period and returns the frame.

        Commands that the planner has received override the pilot.
        """
        action = self._pilot.propose(self.frame)
        if planner.stops or planner.braked:
            action = self._brakes.fallback(self.frame)
        else:
            self._brakes.let_go()
            if math.isfinite(planner.cap):
                capped = {**action.arguments, CAP: 3.6 * planner.cap}
                action = Action("control", capped)
        self.frame = self.world.step(action)
        self._over = self.world.ended() or ""
        if not self._over and self.frame.time_s >= self._max_time_s - 1e-9:
            self._over = f"{self._max_time_s:g} s had passed"
        self._look()
        return self.frame

    # -- reading the simulation -------------------------------------------------------

    def _look(self) -> None:
        """Reads the states of all road users. An ego vehicle that has left the
        simulation keeps its last position.
        """
        self._sumo = self.world.sumo  # reloads the episode if another world used SUMO
        vehicle, person = self._sumo.vehicle, self._sumo.person
        names = set(vehicle.getIDList())
        if self._ego in names and vehicle.getLaneID(self._ego):
            self._me = self._seen(vehicle, self._ego, walks=False)
            self._lane: str = vehicle.getLaneID(self._ego)
            self._at = vehicle.getLanePosition(self._ego)
            here = max(0, vehicle.getRouteIndex(self._ego))
            self._way = self._line(self._lane, self._route[here:])
        names.discard(self._ego)
        self._others = {n: self._seen(vehicle, n, walks=False) for n in sorted(names)}
        self._people = {
            n: self._seen(person, n, walks=True) for n in sorted(person.getIDList())
        }

    def _seen(self, group: Any, name: str, *, walks: bool) -> _Seen:
        number = self._numbers.setdefault(name, len(self._numbers) + 1)
        x, y = group.getPosition(name)
        theta = math.radians(90.0 - group.getAngle(name))
        length, width = group.getLength(name), group.getWidth(name)
        if not walks:
            # SUMO reports the position of a vehicle's front.
            x -= length / 2.0 * math.cos(theta)
            y -= length / 2.0 * math.sin(theta)
        return _Seen(
            number, x, y, _wrapped(theta), group.getSpeed(name), length, width, walks
        )

    def _line(self, lane: str, edges: tuple[str, ...]) -> PathAhead:
        key = lane, edges
        known = self._ways.get(key)
        if known is None:
            known = self._ways[key] = PathAhead(self._roads, lane, edges)
        return known

    # -- Apollo messages --------------------------------------------------------------

    def route(self, time_s: float) -> tuple[Any, Any]:
        """Returns the routing channel and a message with the remaining route."""
        response = self._new(self._channels.ROUTING, time_s)
        for name in self._way.lanes:
            lane = self._roads.lanes[name]
            road = response.road.add(id=lane.edge)
            road.passage.add().segment.add(id=name, start_s=0.0, end_s=lane.length)
        last = self._roads.lanes[self._way.lanes[-1]]
        for name, s, point in (
            (self._lane, self._at, (self._me.x, self._me.y)),
            (last.name, last.length, last.shape[-1]),
        ):
            waypoint = response.routing_request.waypoint.add(id=name, s=s)
            waypoint.pose.x, waypoint.pose.y = point[0], point[1]
        return self._channels.ROUTING, response

    def says(self, time_s: float, planner: Planner) -> Iterator[tuple[Any, Any]]:
        """Yields a channel and a message for each module, with localization last."""
        yield self._channels.OBSTACLES, self._obstacles(time_s)
        yield self._channels.LIGHTS, self._lights(time_s)
        yield self._channels.PREDICTION, self._prediction(time_s)
        yield self._channels.PLANNING, self._planning(time_s, planner)
        yield self._channels.CHASSIS, self._chassis(time_s)
        yield self._channels.LOCALIZATION, self._localization(time_s)

    def _new(self, channel: Any, time_s: float) -> Any:
        message = self._messages[channel.type]()
        message.header.timestamp_sec = time_s
        message.header.module_name = "stand-in"
        return message

    def _localization(self, time_s: float) -> Any:
        message, me = self._new(self._channels.LOCALIZATION, time_s), self._me
        message.measurement_time = time_s
        cos, sin = math.cos(me.theta), math.sin(me.theta)
        behind = me.length / 2.0 - _REAR_M
        pose = message.pose
        pose.position.x, pose.position.y = me.x - behind * cos, me.y - behind * sin
        pose.heading = me.theta
        gains = self.frame.values["acceleration"]
        for vector, size in (
            (pose.linear_velocity, me.speed),
            (pose.linear_acceleration, gains),
        ):
            vector.x, vector.y, vector.z = size * cos, size * sin, 0.0
        own = pose.linear_acceleration_vrf
        own.x, own.y, own.z = 0.0, gains, 0.0
        return message

    def _chassis(self, time_s: float) -> Any:
        message, values = self._new(self._channels.CHASSIS, time_s), self.frame.values
        message.engine_started = values["engine_on"]
        message.speed_mps = self._me.speed
        message.throttle_percentage = values["throttle"]
        message.brake_percentage = values["brake"]
        message.driving_mode = 0 if values["manual_control"] else 1
        message.gear_location = _GEARS[values["gear"]]
        signal = message.signal
        signal.turn_signal = _TURNS[values["turn_signal"]]
        signal.high_beam = values["high_beam_on"]
        signal.low_beam = values["low_beam_on"]
        signal.horn = values["horn_on"]
        minutes = round(60.0 * values["time_of_day"])
        message.chassis_gps.gps_valid = True
        message.chassis_gps.hours = minutes // 60 % 24
        message.chassis_gps.minutes = minutes % 60
        return message

    def _obstacles(self, time_s: float) -> Any:
        message = self._new(self._channels.OBSTACLES, time_s)
        for seen in (*self._others.values(), *self._people.values()):
            _write_obstacle(message.perception_obstacle.add(), seen, time_s)
        return message

    def _lights(self, time_s: float) -> Any:
        message, lights = (
            self._new(self._channels.LIGHTS, time_s),
            self._sumo.trafficlight,
        )
        for light in lights.getIDList():
            spent_s = lights.getSpentDuration(light)
            links = lights.getControlledLinks(light)
            for index, letter in enumerate(lights.getRedYellowGreenState(light)):
                # The last link indices belong to pedestrian crossings.
                if any(self._roads.lanes[way[0]].for_cars for way in links[index]):
                    message.traffic_light.add(
                        id=f"{light}_{index}",
                        color=_COLOURS.get(letter, 0),
                        blink=letter == "o",
                        tracking_time=spent_s,
                    )
        message.contain_lights = bool(message.traffic_light)
        return message

    def _planning(self, time_s: float, planner: Planner) -> Any:
        message, values = self._new(self._channels.PLANNING, time_s), self.frame.values
        planner.decide(message)
        if values["destination_reached"]:
            message.decision.main_decision.mission_complete.SetInParent()
        message.decision.vehicle_signal.turn_signal = _TURNS[values["turn_signal"]]
        if values["overtaking"]:
            passed = message.decision.object_decision.decision.add(id="passed")
            passed.object_decision.add().overtake.distance_s = 10.0
        message.gear = _GEARS[values["gear"]]
        message.trajectory_type = _NORMAL
        for name in self._way.lanes:
            message.lane_id.add(id=name)
        points = self._way.points(self._at, _STEP_M, FORESEEN_M)
        _write_trajectory(message.trajectory_point, points, self._me.speed)
        message.total_path_length = _STEP_M * max(0, len(points) - 1)
        return message

    def _prediction(self, time_s: float) -> Any:
        message = self._new(self._channels.PREDICTION, time_s)
        vehicle = self._sumo.vehicle
        for name, seen in self._others.items():
            lane = vehicle.getLaneID(name)
            if not lane:
                continue
            edges = tuple(vehicle.getRoute(name))[max(0, vehicle.getRouteIndex(name)) :]
            line = self._line(lane, edges)
            at = vehicle.getLanePosition(name)
            points = line.points(at, _STEP_M, FORESEEN_M)
            self._foretell(message, seen, points, time_s)
        for name, seen in self._people.items():
            self._foretell(message, seen, self._walk(name, seen), time_s)
        return message

    def _foretell(
        self, message: Any, seen: _Seen, points: Sequence[Point], time_s: float
    ) -> None:
        obstacle = message.prediction_obstacle.add(timestamp=time_s)
        _write_obstacle(obstacle.perception_obstacle, seen, time_s)
        trajectory = obstacle.trajectory.add(probability=1.0)
        _write_trajectory(trajectory.trajectory_point, points, seen.speed)

    def _walk(self, name: str, seen: _Seen) -> list[Point]:
        """Returns a walker's path across the current or next crosswalk, or only the
        walker's position if there is no crosswalk.
        """
        person = self._sumo.person
        edge: str = person.getRoadID(name)
        onto = edge
        if edge.startswith(":") and not _is_crosswalk(edge):
            onto = person.getNextEdge(name)
        if not _is_crosswalk(onto):
            return [(seen.x, seen.y)]
        shape = [(p[0], p[1]) for p in self._sumo.lane.getShape(f"{onto}_0")]
        return across((seen.x, seen.y), seen.theta, shape, edge == onto)


def _write_obstacle(message: Any, seen: _Seen, time_s: float) -> None:
    message.id = seen.number
    message.position.x, message.position.y, message.position.z = seen.x, seen.y, 0.0
    message.theta = seen.theta
    cos, sin = math.cos(seen.theta), math.sin(seen.theta)
    message.velocity.x = seen.speed * cos
    message.velocity.y = seen.speed * sin
    message.velocity.z = 0.0
    message.length, message.width, message.height = seen.length, seen.width, _HEIGHT_M
    message.type = _PEDESTRIAN if seen.walks else _VEHICLE
    message.sub_type = _WALKER if seen.walks else _TRUCK if seen.length > 7 else _CAR
    message.timestamp = time_s
    half, side = seen.length / 2.0, seen.width / 2.0
    for forward, left in ((half, side), (half, -side), (-half, -side), (-half, side)):
        message.polygon_point.add(
            x=seen.x + forward * cos - left * sin,
            y=seen.y + forward * sin + left * cos,
            z=0.0,
        )


def _write_trajectory(field: Any, points: Sequence[Point], speed: float) -> None:
    """Writes points as a trajectory at constant speed.

    The times assume a speed of at least 0.5 m/s, so that they stay finite for a
    stationary road user.
    """
    pace, along, theta = max(speed, 0.5), 0.0, 0.0
    for i, (x, y) in enumerate(points):
        if i + 1 < len(points):
            dx, dy = points[i + 1][0] - x, points[i + 1][1] - y
            theta = math.atan2(dy, dx)
        made = field.add(v=speed, a=0.0, relative_time=along / pace)
        path = made.path_point
        path.x, path.y, path.z, path.theta, path.s = x, y, 0.0, theta, along
        if i + 1 < len(points):
            along += math.hypot(dx, dy)


def _is_crosswalk(edge: str) -> bool:
    head, _, tail = edge.rpartition("_")
    return head.startswith(":") and tail[:1] == "c" and tail[1:].isdigit()


def _wrapped(angle: float) -> float:
    return math.remainder(angle, math.tau)


Point = tuple[float, float]

_WALK_STEP_M = 1.0


class PathAhead:
    """The lanes ahead of a road user, joined into a single polyline."""

    def __init__(self, roads: Any, lane: str, edges: tuple[str, ...]) -> None:
        way = roads.way(lane, edges)
        names = list(way.start_m)
        if lane in way.start_m:
            # Inside a junction, `way` begins with the lane before the junction.
            begin = names.index(lane)
            names = names[begin:]
        self.lanes = names
        points: list[Point] = []
        for name in names:
            shape = roads.lanes[name].shape
            points += shape if not points else shape[1:]
        self._points = points
        self._at = [0.0]
        for a, b in zip(points, points[1:], strict=False):
            self._at.append(self._at[-1] + math.dist(a, b))

    def points(self, begin: float, step: float, length: float) -> list[Point]:
        """Returns points at a fixed spacing along the polyline.

        Args:
            begin: The position of the first point on the first lane, in metres.
            step: The distance between two points in metres.
            length: The maximum length of the returned path in metres.
        """
        found: list[Point] = []
        at, index = begin, 0
        end = min(begin + length, self._at[-1])
        while at <= end:
            while index + 2 < len(self._at) and self._at[index + 1] < at:
                index += 1
            (ax, ay), (bx, by) = self._points[index], self._points[index + 1]
            span = self._at[index + 1] - self._at[index]
            share = (at - self._at[index]) / span if span > 0.0 else 0.0
            found.append((ax + share * (bx - ax), ay + share * (by - ay)))
            at += step
        return found


def across(at: Point, theta: float, shape: Sequence[Point], on_it: bool) -> list[Point]:
    """Returns a walker's path across a crosswalk as a list of points.

    Args:
        at: The walker's position.
        theta: The walker's heading in radians.
        shape: The crosswalk's centre line.
        on_it: Whether the walker is already on the crosswalk.
    """
    cos, sin = math.cos(theta), math.sin(theta)
    (ax, ay), (bx, by) = shape[0], shape[-1]
    if on_it:
        back = (bx - ax) * cos + (by - ay) * sin < 0.0
    else:
        back = math.dist(at, (bx, by)) < math.dist(at, (ax, ay))
    if back:
        (ax, ay), (bx, by) = (bx, by), (ax, ay)
    # On the crosswalk, the walker keeps its lateral position.
    length = math.dist((ax, ay), (bx, by))
    ux, uy = (bx - ax) / length, (by - ay) / length
    on = (at[0] - ax) * ux + (at[1] - ay) * uy
    aside = (at[1] - ay) * ux - (at[0] - ax) * uy if on_it else 0.0
    begin = max(0.0, on)
    steps = max(1, math.ceil((length - begin) / _WALK_STEP_M))
    way = [begin + (length - begin) * i / steps for i in range(steps + 1)]
    line = [(ax + s * ux - aside * uy, ay + s * uy + aside * ux) for s in way]
    return line if on_it else [at, *line]
