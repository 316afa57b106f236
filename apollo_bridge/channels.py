"""Apollo's channels and services, and the classes of their messages.

The classes are in a separate descriptor pool, because Apollo's generated classes, or
those of `wheelos-msgs`, are registered in protobuf's default pool. Messages pass
between the two pools as bytes.

The folder `protos` contains the parts of the `.proto` files that the bridge uses, and
the descriptors that `make protos` compiles from them. The field numbers are those of
Apollo 5 to 9; messages that differ between editions are in separate folders.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.errors import InvalidInput, MissingDependency, near_miss


@dataclass(frozen=True, slots=True)
class Channel:
    """A Cyber RT channel and the full name of its message type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Service:
    """A Cyber RT service and the full names of its request and response types."""

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
"""The channels that the signals are computed from, by input name."""

ROUTES = {8: {"routing": ROUTING}, 9: {"routing": ROUTING, "command": COMMAND}}
"""The channels that carry the route, by edition. A route is sent only once, so there is
no signal for its age.
"""

ACTION_SERVICE = Service(
    "/apollo/external_command/action", "apollo.external_command.ActionCommand"
)
LANE_FOLLOW_SERVICE = Service(
    "/apollo/external_command/lane_follow", "apollo.external_command.LaneFollowCommand"
)


Edition = Literal[8, 9]
"""The edition of the messages: 9 for Apollo 9 and later, 8 for earlier versions."""


class Messages:
    """The message classes of an edition of Apollo, by full name.

    Use `messages(edition)`, which creates the classes of each edition only once. The
    attribute `channels` is this module, which defines the channels.
    """

    def __init__(self, edition: Edition) -> None:
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        except ImportError as error:
            raise MissingDependency("Apollo's messages", "apollo") from error
        compiled = (
            Path(__file__).parent / "protos" / f"edition{edition}.binpb"
        ).read_bytes()
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled).file
        self.edition, self.channels = edition, sys.modules[__name__]
        pool = descriptor_pool.DescriptorPool()
        self._classes: dict[str, Any] = {}
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
        for file in files:
            for message in file.message_type:
                name = f"{file.package}.{message.name}"
                descriptor = pool.FindMessageTypeByName(name)
                self._classes[name] = message_factory.GetMessageClass(descriptor)

    @property
    def names(self) -> list[str]:
        """The full names of all top-level messages."""
        return list(self._classes)

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def __getitem__(self, name: str) -> Any:
        """Returns the class with the given full name, such as
        `apollo.canbus.Chassis`.
        """
        try:
            return self._classes[name]
        except KeyError:
            raise InvalidInput(
                f"there is no message type {name!r:.80} in Apollo {self.edition}",
                mend=near_miss(name, self._classes),
            ) from None


def descriptor_files(message_type: Any) -> list[bytes]:
    """Returns the file descriptors that define a message class, imported files
    first.
    """
    files: dict[str, bytes] = {}

    def add(file: Any) -> None:
        if file.name not in files:
            for other in file.dependencies:
                add(other)
            files[file.name] = file.serialized_pb

    add(message_type.DESCRIPTOR.file)
    return list(files.values())


def messages(edition: Edition = 9) -> Messages:
    """Returns the message classes of an edition; repeated calls return the same object.

    Raises:
        MissingDependency: protobuf is not installed.
    """
    return _made(edition)


@cache  # the cache treats `messages()` and `messages(9)` as different calls
def _made(edition: Edition) -> Messages:
    return Messages(edition)
