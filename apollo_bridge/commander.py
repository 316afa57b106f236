"""Sends commands to Apollo, and repeats them.

A stop is sent to the action service if there is one, otherwise to the planning pad.
Planning keeps the last pad action and ignores a pad message with an unchanged header,
so each message has a new header. A stop is repeated as long as it is wanted, and then
lifted by a resume command. If planning does not confirm a stop that was sent to the
action service, the stop is also sent to the pad.

No method blocks, because each service is called in its own thread.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from forewarn.apollo_bridge import channels
from forewarn.apollo_bridge.channels import Channel, Messages, Service
from forewarn.apollo_bridge.wire import Bus, Client, Inbox, Writer
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.actions import CAP, Actions, ActionSpec, number

EMERGENCY = 202
"""Planning's reason code for a stop that a pad message has requested."""

_FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Route:
    """The end point and target speed of a route.

    Args:
        x: The x coordinate of the end point on the map.
        y: The y coordinate of the end point on the map.
        heading: The heading at the end point, if known.
        target_speed: The target speed in m/s; None keeps the planner's target speed.
    """

    x: float
    y: float
    heading: float | None = None
    target_speed: float | None = None


class Telemetry:
    """Reads Apollo's state from an inbox. Any input may be missing.

    Args:
        inbox: An inbox with the inputs `chassis` and `planning`; for routes also
            `routing` and, from Apollo 9 on, `command`.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def _fresh(self, name: str) -> Any:
        newest, age_s = self._inbox.newest(name), self._inbox.age_s(name)
        fresh = newest is not None and age_s is not None and age_s <= _FRESH_S
        return newest.message if fresh and newest is not None else None

    @property
    def emergency_stop(self) -> bool | None:
        """Whether planning intends to stop as commanded; None if unknown."""
        planning = self._fresh("planning")
        if planning is None:
            return None
        main = planning.decision.main_decision
        task = main.WhichOneof("task")
        stops = task == "stop" and main.stop.reason_code == EMERGENCY
        return bool(stops or task == "estop" or planning.estop.is_estop)

    @property
    def route(self) -> Route | None:
        """The last route received; None if no route has been received."""
        command = self._inbox.newest("command")
        if command is not None and command.message.HasField("lane_follow_command"):
            message = command.message
            speed = message.target_speed if message.HasField("target_speed") else None
            return _route(message.lane_follow_command, speed)
        routing = self._inbox.newest("routing")
        return None if routing is None else _route(routing.message, None)


def _route(response: Any, target_speed: float | None) -> Route | None:
    waypoints = response.routing_request.waypoint
    if not waypoints:
        return None
    end = waypoints[-1]
    if not (math.isfinite(end.pose.x) and math.isfinite(end.pose.y)):
        return None
    heading = end.heading if end.HasField("heading") else None
    return Route(end.pose.x, end.pose.y, heading, target_speed)


REPEAT_S = 0.5
SHOWN_S = 1.0
RELEASES = 3
"""How many times a release is sent. Further releases could override a later stop by
another program.
"""

MODULE = "forewarn"


@dataclass(frozen=True, slots=True)
class Paths:
    """The means to stop Apollo, slow it down and cut it off; None if unavailable."""

    stop: Literal["action service", "planning pad"] = "planning pad"
    slow: Literal["lane-follow service"] | None = None
    cut: Literal["guardian"] | None = None

    @property
    def actions(self) -> Actions:
        """The actions that the available means support."""
        slower = {} if self.slow is None else {CAP: number(0.0, unit="km/h")}
        cut = () if self.cut is None else (ActionSpec("cut"),)
        return Actions(ActionSpec("drive", slower), ActionSpec("stop"), *cut)

    def sentence(self) -> str:
        """Returns a human-readable description of the means."""
        slow = self.slow or "nothing (it escalates to stop)"
        cut = f", cut by the {self.cut}" if self.cut else ""
        return f"stop by the {self.stop}, slow by {slow}{cut}"


def probe(bus: Bus, messages: Messages, *, guardian: bool = False) -> Paths:
    """Determines which means are currently available.

    Args:
        bus: The connection to Apollo, which lists the services.
        messages: The message classes; Apollo 8 and earlier have no command services.
        guardian: Whether `cut` may use the guardian module, which must be enabled in
            Apollo.
    """
    offered = bus.services() if messages.edition == 9 else frozenset()
    acts = channels.ACTION_SERVICE.name in offered
    slows = channels.LANE_FOLLOW_SERVICE.name in offered
    return Paths(
        "action service" if acts else "planning pad",
        "lane-follow service" if slows else None,
        "guardian" if guardian else None,
    )


class Caller:
    """Calls a service in its own thread; only the newest request is queued.

    Args:
        client: The client of the service. A call blocks, and returns None if the
            service is gone.
        inline: Whether to call the service in the caller's thread instead, for tests
            and simulated time.
    """

    def __init__(self, client: Client, name: str, *, inline: bool = False) -> None:
        self._client, self._inline = client, inline
        self._request: Any = None
        self._wake = threading.Event()
        self._ending = False
        self.answers = self.silences = 0
        self.unanswered = False
        self._thread = threading.Thread(
            target=self._live, name=f"forewarn-calls-{name}", daemon=True
        )
        if not inline:
            self._thread.start()

    def call(self, request: Any) -> None:
        """Queues a request."""
        self._request = request
        self.unanswered = False
        if self._inline:
            self._make()
        else:
            self._wake.set()

    def close(self, timeout_s: float = 1.0) -> None:
        """Makes the queued call and ends the thread. A call that hangs is abandoned."""
        self._ending = True
        self._wake.set()
        if not self._inline:
            self._thread.join(timeout_s)

    def _live(self) -> None:
        while not self._ending:
            self._wake.wait()
            self._wake.clear()
            self._make()

    def _make(self) -> None:
        request, self._request = self._request, None
        if request is None:
            return
        try:
            # It only matters whether there is a reply, not what it contains.
            answered = self._client.send_request(request) is not None
        except Exception:
            answered = False
        if answered:
            self.answers += 1
        else:
            self.silences += 1
            self.unanswered = self._request is None


class Commander:
    """Sends commands to Apollo, and repeats them as long as necessary.

    Args:
        bus: The connection to Apollo.
        messages: The message classes of the edition.
        inbox: Provides Apollo's time.
        paths: The available means.
        clock: A monotonic clock in seconds.
        inline: Whether to call services in the caller's thread.
    """

    def __init__(
        self,
        bus: Bus,
        messages: Messages,
        inbox: Inbox,
        paths: Paths,
        clock: Callable[[], float] = time.monotonic,
        *,
        inline: bool = False,
    ) -> None:
        self.paths = paths
        self.telemetry = Telemetry(inbox)
        self._bus, self._messages, self._inbox = bus, messages, inbox
        self._clock = clock
        self._inline = inline
        self._lock = threading.Lock()
        self._pad = self._writer(channels.PLANNING_PAD)
        self._guardian = (
            self._writer(channels.SYSTEM_STATUS) if paths.cut == "guardian" else None
        )
        self._callers: dict[str, Caller] = {}
        if paths.stop == "action service":
            self._open(channels.ACTION_SERVICE)
        if paths.slow == "lane-follow service":
            self._open(channels.LANE_FOLLOW_SERVICE)
        self._sequence = self._command = 0
        self._stamp_s = 0.0
        self._wanted: Action | None = None
        self._cap: float | None = None
        self._tried: float | None = None
        self._stop_is: Literal["off", "wanted", "being released"] = "off"
        self._since_s = 0.0
        self._releases = 0
        self._sent_s = -REPEAT_S
        self._route_speed: float | None = None
        self.sent: dict[str, int] = {}

    def _writer(self, channel: Channel) -> Writer:
        return self._bus.create_writer(channel.name, self._messages[channel.type])

    def _open(self, service: Service) -> None:
        client = self._bus.create_client(
            service.name,
            self._messages[service.request],
            self._messages[service.response],
        )
        name = service.name.rpartition("/")[2]
        self._callers[service.name] = Caller(client, name, inline=self._inline)

    def want(self, action: Action | None) -> None:
        """Sets the command that is in force from now on; None lets Apollo drive."""
        self.paths.actions.check(action)
        with self._lock:
            self._wanted = action
            self._work()

    def resume(self) -> None:
        """Lifts a stop that another program or an earlier guard has requested."""
        with self._lock:
            self._wanted = None
            self._stop_is = "wanted"
            self._work()

    def answers(self) -> dict[str, tuple[int, int]]:
        """Returns the numbers of answered and unanswered calls for each service."""
        return {n: (c.answers, c.silences) for n, c in self._callers.items()}

    def close(self) -> None:
        """Ends the threads; commands remain in force."""
        for caller in self._callers.values():
            caller.close()

    # -- choosing commands ------------------------------------------------------------

    def _work(self) -> None:
        wanted, now_s = self._wanted or Action("drive"), self._clock()
        due = not 0 <= now_s - self._sent_s < REPEAT_S
        if wanted.name != "drive":
            if self._stop_is != "wanted":
                self._stop_is, self._since_s, due = "wanted", now_s, True
            if due:
                self._stop(now_s - self._since_s, cut=wanted.name == "cut")
                self._sent_s = now_s
            return
        if self._stop_is == "wanted":
            self._stop_is, self._releases, due = "being released", RELEASES, True
        if self._stop_is == "being released":
            shown = self.telemetry.emergency_stop is False
            if self._releases == 0 or (shown and self._releases < RELEASES):
                self._stop_is = "off"
            elif due:
                self._release()
                self._sent_s = now_s
        cap = wanted.arguments.get(CAP)
        if (self._cap != cap and (due or cap != self._tried)) or (
            due and self._unheard()
        ):
            self._tried = cap
            if self._slow(cap):
                self._cap = cap
            self._sent_s = now_s

    def _unheard(self) -> bool:
        """Whether the last request to the service that slows Apollo down was
        unanswered.
        """
        caller = self._callers.get(channels.LANE_FOLLOW_SERVICE.name)
        return caller is not None and caller.unanswered

    def _stop(self, since_s: float, *, cut: bool) -> None:
        if self.paths.stop == "action service":
            self._call(channels.ACTION_SERVICE, command="STOP")
        unshown = since_s >= SHOWN_S and self.telemetry.emergency_stop is not True
        if self.paths.stop == "planning pad" or unshown:
            self._say(self._pad, channels.PLANNING_PAD, action="STOP")
        if cut and self._guardian is not None:
            self._say(
                self._guardian,
                channels.SYSTEM_STATUS,
                safety_mode_trigger_time=self._now_s(),
                require_emergency_stop=True,
            )

    def _release(self) -> None:
        if self.paths.stop == "action service":
            self._call(channels.ACTION_SERVICE, command="START")
        heard = True
        if self.paths.stop == "planning pad" or self._releases < RELEASES:
            heard = self._say(self._pad, channels.PLANNING_PAD, action="RESUME_CRUISE")
        self._releases -= heard

    def _slow(self, cap_kmh: float | None) -> bool:
        """Requests the current route again, with a speed cap or its own target speed.

        Returns False if the route is not yet known.
        """
        if self.paths.slow is None:
            return True
        route = self.telemetry.route
        if route is None:
            return False
        if self._cap is None and cap_kmh is not None:
            self._route_speed = route.target_speed
        speed = self._route_speed if cap_kmh is None else cap_kmh / 3.6
        end = {"x": route.x, "y": route.y}
        if route.heading is not None:
            end["heading"] = route.heading
        extra = {} if speed is None else {"target_speed": speed}
        self._call(channels.LANE_FOLLOW_SERVICE, end_pose=end, **extra)
        return True

    # -- sending --------------------------------------------------------------------

    def _say(self, writer: Writer, channel: Channel, **content: Any) -> bool:
        """Sends a message; returns False if the message is already known to be lost."""
        message = self._messages[channel.type](**content)
        self._head(message)
        self._count(channel.name)
        return writer.write(message) is not False

    def _call(self, service: Service, **content: Any) -> None:
        self._command += 1
        request = self._messages[service.request](command_id=self._command, **content)
        self._head(request)
        self._callers[service.name].call(request)
        self._count(service.name)

    def _count(self, name: str) -> None:
        self.sent[name] = self.sent.get(name, 0) + 1

    def _now_s(self) -> float:
        """Returns Apollo's time. Apollo silently drops requests with old timestamps."""
        known_s = self._inbox.apollo_time_s()
        return time.time() if known_s is None else known_s

    def _head(self, message: Any) -> None:
        self._sequence += 1
        self._stamp_s = max(self._now_s(), self._stamp_s + 1e-3)
        message.header.timestamp_sec = self._stamp_s
        message.header.module_name = MODULE
        message.header.sequence_num = self._sequence
