"""A node for Apollo's container that asks a guard outside the container and stops the
car.

Copy this file and `plugins/remote/client.py` (as `client.py`) into the container. The
two files need only Python 3.6 or later and Apollo's own cyber_py3 and messages, not
Forewarn.

Example:
    source /apollo/cyber/setup.bash
    python3 container.py HOST:PORT TOKEN_FILE

The guard must be listening outside the container: `forewarn guard --socket HOST:PORT
--token-file …`. Only signals that need no map are sent, so the model must not use any
other signals. The client in the container holds the lease: if the guard or the network
fails, the client stops the car through the planning pad. The car is released when the
guard lets it proceed again.
"""

import math
import sys
import threading
import time
from importlib import import_module
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

PERIOD_S = 0.1
REPEAT_S = 0.5

SIGNALS = (
    "speed", "acceleration", "brake", "throttle", "gear", "engine_on",
    "manual_control", "turn_signal", "horn_on", "high_beam_on", "low_beam_on",
    "braking", "localization_age", "chassis_age", "lights_age",
)  # fmt: skip

_GEARS = {0: "neutral", 1: "drive", 2: "reverse", 3: "parking", 4: "drive"}
_TURNS = {0: "off", 1: "left", 2: "right", 3: "hazard"}
_STOP, _RESUME = 4, 5

Signals = Dict[str, Any]


class Newest(object):
    """The newest message of each input, with its arrival time. Callbacks only store
    messages, because Cyber RT swallows their exceptions.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._came: Dict[str, Tuple[float, Any]] = {}

    def keep(self, message: Any, name: str) -> None:
        """Stores a message; used as the callback of all readers."""
        self._came[name] = (self._clock(), message)

    def message(self, name: str) -> Optional[Any]:
        """Returns the newest message of an input; None if there is none."""
        came = self._came.get(name)
        return None if came is None else came[1]

    def age_s(self, name: str) -> Optional[float]:
        """Returns the seconds since the newest message of an input; None if there is
        none.
        """
        came = self._came.get(name)
        return None if came is None else self._clock() - came[0]


def signals(newest: Newest) -> Signals:
    """Returns the signals. Unknown values, NaN and infinite values are omitted."""
    found: Signals = {}
    chassis, located = newest.message("chassis"), newest.message("localization")
    for name in ("localization", "chassis", "lights"):
        age_s = newest.age_s(name)
        if age_s is not None:
            found[name + "_age"] = round(age_s, 4)
    if chassis is not None:
        _number(found, "speed", 3.6 * abs(chassis.speed_mps))
        _number(found, "brake", chassis.brake_percentage)
        _number(found, "throttle", chassis.throttle_percentage)
        if chassis.gear_location in _GEARS:
            found["gear"] = _GEARS[chassis.gear_location]
        signal = chassis.signal
        found["engine_on"] = bool(chassis.engine_started)
        found["manual_control"] = chassis.driving_mode != 1
        found["turn_signal"] = _TURNS.get(signal.turn_signal, "off")
        found["horn_on"] = bool(signal.horn)
        found["high_beam_on"] = bool(signal.high_beam)
        found["low_beam_on"] = bool(signal.low_beam)
    if located is not None:
        pose = located.pose
        gains, heading = pose.linear_acceleration, pose.heading
        along = gains.x * math.cos(heading) + gains.y * math.sin(heading)
        _number(found, "acceleration", along)
        if "acceleration" in found:
            found["braking"] = along < -0.5
    return found


def _number(found: Signals, name: str, value: float) -> None:
    if not math.isnan(value) and not math.isinf(value):
        found[name] = round(value, 3)


class Pad(object):
    """Writes to the planning pad. Planning keeps the last action, and each message
    needs a new header.

    Args:
        write: Publishes a message on `/apollo/planning/pad`.
        message_type: Apollo's message class `PadMessage` for planning.
        now_s: Returns Apollo's time in seconds.
    """

    def __init__(
        self,
        write: Callable[[Any], Any],
        message_type: Any,
        now_s: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._type, self._now_s = write, message_type, now_s
        self._clock = clock
        self._sequence = 0
        self._stopping = False
        self._sent_s: Optional[float] = None

    def obey(self, decision: Dict[str, Any]) -> None:
        """Carries out a decision: stops the car, repeats the stop, or lets the car
        drive again.
        """
        passes = decision["decision"] in ("proceed", "alert")
        if passes:
            if self._stopping:
                self._send(_RESUME)
                self._stopping = False
            return
        now_s = self._clock()
        late = self._sent_s is None or not 0 <= now_s - self._sent_s < REPEAT_S
        if late or not self._stopping:
            self._send(_STOP)
            self._stopping, self._sent_s = True, now_s

    def _send(self, action: int) -> None:
        message = self._type()
        self._sequence += 1
        message.header.timestamp_sec = self._now_s()
        message.header.module_name = "forewarn"
        message.header.sequence_num = self._sequence
        message.action = action
        self._write(message)


def run(
    guard: Any,
    newest: Newest,
    pad: Pad,
    going: Callable[[], bool],
    wait: Callable[[float], Any] = time.sleep,
) -> None:
    """Asks the guard in each period and carries out its decision.

    Args:
        guard: The client of the guard, which never raises an exception.
        newest: The newest message of each input.
        pad: Stops the car.
        going: Returns whether to continue.
        wait: Waits for a number of seconds. Cyber RT's `Rate` is not used, because it
            does not wait at 1 Hz and above.
    """
    began_s, sequence = time.monotonic(), 0
    while going():
        sequence += 1
        now_s = time.monotonic()
        pad.obey(guard.review(sequence, now_s - began_s, signals(newest)))
        wait(max(0.0, PERIOD_S - (time.monotonic() - now_s)))


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        sys.stderr.write("usage: container.py HOST:PORT TOKEN_FILE\n")
        return 2
    client, cyber, types = import_module("client"), _cyber(), _types()
    with open(arguments[1]) as file:
        guard = client.GuardClient(arguments[0], file.read().strip(), SIGNALS)
    cyber.init("forewarn")
    node = cyber.Node("forewarn")
    newest = Newest()
    for name, channel, kind in (
        ("localization", "/apollo/localization/pose", types[0]),
        ("chassis", "/apollo/canbus/chassis", types[1]),
        ("lights", "/apollo/perception/traffic_light", types[2]),
    ):
        node.create_reader(channel, kind, newest.keep, name)
    writer = node.create_writer("/apollo/planning/pad", types[3])
    done = threading.Event()
    try:
        run(
            guard,
            newest,
            Pad(writer.write, types[3]),
            lambda: not (done.is_set() or cyber.is_shutdown()),
            done.wait,
        )
    finally:
        guard.close()
        cyber.shutdown()
    return 0


def _cyber() -> Any:
    try:
        return import_module("cyber.python.cyber_py3.cyber")
    except ImportError:
        return import_module("cyber_py3.cyber")


def _types() -> List[Any]:
    """Imports Apollo's generated classes, whose module changed in Apollo 8."""
    places = (
        ("localization_msgs.localization", "localization.proto.localization",
         "LocalizationEstimate"),
        ("chassis_msgs.chassis", "canbus.proto.chassis", "Chassis"),
        ("perception_msgs.traffic_light_detection",
         "perception.proto.traffic_light_detection", "TrafficLightDetection"),
        ("planning_msgs.pad_msg", "planning.proto.pad_msg", "PadMessage"),
    )  # fmt: skip
    found = []
    for new, old, name in places:
        try:
            module = import_module("modules.common_msgs." + new + "_pb2")
        except ImportError:
            module = import_module("modules." + old + "_pb2")
        found.append(getattr(module, name))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
