"""Apollo's channels and services: their names, and the types that travel on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of cyber and the full name of its message type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Service:
    """A service of cyber and the full names of its request and response."""

    name: str
    request: str
    response: str = "apollo.external_command.CommandStatus"


LOCALIZATION = Channel(
    "/apollo/localization/pose", "apollo.localization.LocalizationEstimate"
)
CHASSIS = Channel("/apollo/canbus/chassis", "apollo.canbus.Chassis")
OBSTACLES = Channel(
    "/apollo/perception/obstacles", "apollo.perception.PerceptionObstacles"
)
LIGHTS = Channel(
    "/apollo/perception/traffic_light", "apollo.perception.TrafficLightDetection"
)
PLANNING = Channel("/apollo/planning", "apollo.planning.ADCTrajectory")
PREDICTION = Channel("/apollo/prediction", "apollo.prediction.PredictionObstacles")
ROUTING = Channel("/apollo/routing_response", "apollo.routing.RoutingResponse")
COMMAND = Channel("/apollo/planning/command", "apollo.planning.PlanningCommand")
CONTROL = Channel("/apollo/control", "apollo.control.ControlCommand")
PLANNING_PAD = Channel("/apollo/planning/pad", "apollo.planning.PadMessage")
SYSTEM_STATUS = Channel("/apollo/monitor/system_status", "apollo.monitor.SystemStatus")

INPUTS = {
    "localization": LOCALIZATION,
    "chassis": CHASSIS,
    "obstacles": OBSTACLES,
    "lights": LIGHTS,
    "planning": PLANNING,
    "prediction": PREDICTION,
}
"""What the signals are made of, by the names that their ages have."""

ROUTES = {8: {"routing": ROUTING}, 9: {"routing": ROUTING, "command": COMMAND}}
"""Where the route is told, by edition; it is told once, so it has no age."""

ACTION_SERVICE = Service(
    "/apollo/external_command/action", "apollo.external_command.ActionCommand"
)
SPEED_SERVICE = Service(
    "/apollo/external_command/speed", "apollo.external_command.SpeedCommand"
)
LANE_FOLLOW_SERVICE = Service(
    "/apollo/external_command/lane_follow", "apollo.external_command.LaneFollowCommand"
)
STATUS_SERVICE = Service(
    "/apollo/external_command/command_status",
    "apollo.external_command.CommandStatusRequest",
)
