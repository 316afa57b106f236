"""The world of a running Apollo, watched from inside or outside Apollo's container."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.frame import Frame, Value
from forewarn.apollo_bridge import channels
from forewarn.apollo_bridge.act import ApolloActuator
from forewarn.apollo_bridge.channels import Edition, messages
from forewarn.apollo_bridge.commander import Commander, Paths, probe
from forewarn.apollo_bridge.maps import RoadMap, load_map
from forewarn.apollo_bridge.scene import Body
from forewarn.apollo_bridge.sense import ApolloSenses, provided
from forewarn.apollo_bridge.tcp import connect, parse_address
from forewarn.apollo_bridge.wire import Bus, Inbox, stamp
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import Example, Shape, Source, SteppedWorld, Thing

PIVOT = "localization"
"""The input that each frame waits for, because its messages arrive most regularly."""

_LATE_S = 0.2
_BACK_S = 1.0

Period = Annotated[float, Field(gt=0.01, le=1)]
Seconds = Annotated[float, Field(gt=0)]


class BusWorld(SteppedWorld):
    """A running Apollo that is reached through a bus. Apollo drives by itself; actions
    can only slow it down or stop it.

    Args:
        connect: Creates the bus. Closing the world closes the bus.
        way: The kind of the bus, for the name of the source.
        edition: 9 for Apollo 9 and later, 8 for earlier versions.
        road_map: Apollo's map.
        without: The inputs that this Apollo does not provide, such as `prediction`.
        surroundings: Values that no channel provides, such as the weather and the time
            of day.
        body: The car's dimensions; by default those of Apollo's default car.
        guardian: Whether `cut` may use the guardian module, which must be enabled in
            Apollo.
        period_s: The time between two frames in seconds.
        wait_s: How long to wait for Apollo's first messages, in seconds.
        clock: The clock of simulated time; by default, the world runs in real time.
    """

    def __init__(
        self,
        connect: Callable[[], Bus],
        *,
        way: str = "a bus",
        edition: Edition = 9,
        road_map: RoadMap,
        without: Sequence[str] = (),
        surroundings: Mapping[str, Any] | None = None,
        body: Body | None = None,
        guardian: bool = False,
        period_s: float = 0.1,
        wait_s: float = 10.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        for name in without:
            if name not in channels.INPUTS or name in ("localization", "chassis"):
                known = [n for n in channels.INPUTS if n not in (PIVOT, "chassis")]
                raise InvalidInput(
                    f"{name!r:.60} is not an optional input",
                    mend=near_miss(name, known)
                    or f"the optional inputs are {', '.join(known)}",
                )
        self._connect, self._clock = connect, clock or time.monotonic
        self._messages = messages(edition)
        self._inputs = {n: c for n, c in channels.INPUTS.items() if n not in without}
        surroundings = surroundings or {}
        self._senses = ApolloSenses(road_map, body, surroundings, period_s)
        self._shown = self._senses.shown
        self._guardian, self._wait_s = guardian, wait_s
        provides = provided(self._inputs, surroundings)
        self.source = Source(
            f"Apollo {edition} by {way}",
            "driving",
            provides,
            period_s,
            clock is not None,
        )
        self._bus: Bus | None = None
        self._commander: Commander | None = None
        self._closed = False
        # These actions are accepted until the available commands are known.
        self.actions = Paths().actions
        self.problem = ""

    # -- the interface of a world -----------------------------------------------------

    def begin(self, seed: int) -> None:
        """Waits for Apollo's first messages; the seed has no effect."""
        bus = self._listen()
        if not self._inbox.wait(lambda: not self._missing(), self._wait_s):
            self._give_up(bus)
        if self._commander is None:
            paths = probe(bus, self._messages, guardian=self._guardian)
            self._commander = Commander(
                bus, self._messages, self._inbox, paths, self._clock,
                inline=self.source.embedded,
            )  # fmt: skip
        self.actions = self._commander.paths.actions
        self._commander.want(None)
        self._senses.reset()
        self._due = 1
        self._begun_s = self._seen_s = self._now_s = self._pivot_s()

    def move(self, action: Action | None) -> None:
        self.commander.want(action)
        period_s = self.source.period_s
        due_s = self._begun_s + self._due * period_s - 1e-6
        came = self._inbox.wait(
            lambda: self._pivot_s() >= due_s or self._gone_back(), period_s + _LATE_S
        )
        if came and not self._gone_back():
            self._seen_s = self._pivot_s()
            now_s = max(self._seen_s, self._now_s + 1e-3)
        else:
            # Apollo is silent, which the ages in the frame show.
            now_s = max(self._inbox.apollo_time_s() or 0.0, self._now_s + 1e-3)
        if self._gone_back():
            self.over = "Apollo's clock went back"
        self._due = max(self._due, math.floor((now_s - self._begun_s) / period_s)) + 1
        self._now_s = now_s

    @property
    def time_s(self) -> float:
        """The time in seconds since the episode began, by Apollo's clock."""
        return round(self._now_s - self._begun_s, 6)

    def close(self) -> None:
        super().close()
        self._closed = True
        commander, bus = self._commander, self._bus
        self._commander = None
        if commander is not None:
            commander.close()
        if bus is not None:
            bus.close()

    def _listen(self) -> Bus:
        """Connects the bus and starts to collect its messages."""
        if self._closed:
            raise InvalidInput(f"the world cannot begin an episode: {self.over}")
        if self._bus is None:
            self._bus = self._connect()
            listened = {**self._inputs, **channels.ROUTES[self._messages.edition]}
            self._inbox = Inbox(self._bus, listened, self._messages, self._clock)
        return self._bus

    def actuator(self) -> ApolloActuator:
        """Returns an actuator that uses the available commands."""
        commander = self.commander
        telemetry = commander.telemetry
        return ApolloActuator(commander.paths, lambda: telemetry.emergency_stop)

    def halt(self) -> None:
        """Stops Apollo until the next step."""
        self.commander.want(Action("stop"))

    def ground(self) -> list[Shape]:
        """Returns the roads for live views."""
        return self._shown.ground()

    def things(self) -> list[Thing]:
        """Returns the road users for live views."""
        return self._shown.things()

    # -- commander and bus -------------------------------------------------------------

    @property
    def commander(self) -> Commander:
        """The object that sends commands to Apollo; available once the world has
        begun.
        """
        if self._commander is None:
            raise InvalidInput(
                "no episode has begun, so there is no connection to Apollo"
            )
        return self._commander

    @property
    def bus(self) -> Bus | None:
        """The connection to Apollo; None if the world has not begun."""
        return self._bus

    # -- frames -----------------------------------------------------------------------

    def _missing(self) -> list[str]:
        return [n for n in self._inputs if self._inbox.newest(n) is None]

    def _give_up(self, bus: Bus) -> None:
        missing = self._missing()
        problem = f" ({bus.health.problem})" if bus.health.problem else ""
        others = [n for n in missing if n not in (PIVOT, "chassis")]
        mend = "check that Apollo is running and that the edition is correct"
        if others == missing:
            mend = (
                f"if Apollo does not provide {', '.join(others)}, use --without for "
                "each of them"
            )
        named = ", ".join(self._inputs[n].name for n in missing)
        raise InvalidInput(
            f"no message arrived on {named} within {self._wait_s:g} s{problem}",
            mend=mend,
        )

    def _pivot_s(self) -> float:
        """Returns the time of the newest localization message in seconds."""
        newest = self._inbox.newest(PIVOT)
        stamped = None if newest is None else stamp(newest.message)
        if stamped is None:
            return 0.0 if newest is None else newest.at_s
        return stamped

    def _gone_back(self) -> bool:
        # Compare with the last message, not with the time assumed since its arrival.
        return self._pivot_s() < self._seen_s - _BACK_S

    def values(self) -> dict[str, Value]:
        newest = {n: self._inbox.newest(n) for n in (*self._inputs, "routing")}
        said = {n: each.message for n, each in newest.items() if each is not None}
        try:
            values = self._senses.values(self._now_s, said)
            self.problem = self._senses.fault
        except Exception as error:
            # Without signals the guard lets no action pass, so any invalid message is
            # safe.
            values = {}
            self.problem = f"{type(error).__name__}: {error}"
        # The chassis may report a time that is not local time, or no time at all.
        if "time_of_day" not in self.source.provides:
            values.pop("time_of_day", None)
        for name in self._inputs:
            age_s = self._inbox.age_s(name)
            if age_s is not None:
                values[f"{name}_age"] = round(age_s, 4)
        return values


class ApolloWorld(BusWorld):
    """Apollo as a world. Apollo drives by itself; actions can only slow it down or stop
    it.

    Args:
        bridge: The connection: `tcp://HOST:PORT` for cyber_bridge, or `node` for a
            Cyber RT node inside Apollo's container.
        edition: 9 for Apollo 9 and later, 8 for earlier versions.
        map: The folder or file of Apollo's map.
        without: The inputs that this Apollo does not provide, such as `prediction`.
        surroundings: Values that no channel provides, such as the weather and the time
            of day.
        body: The car's dimensions; by default those of Apollo's default car.
        guardian: Whether `cut` may use the guardian module, which must be enabled in
            Apollo.
        period_s: The time between two frames in seconds.
        wait_s: How long to wait for Apollo's first messages, in seconds.
    """

    @staticmethod
    def example() -> Example:
        """Returns a world with the stand-in for Apollo, which drives in SUMO."""
        # Imported by name, because the stand-in depends on this world and not vice
        # versa.
        found = import_module("forewarn.apollo_bridge.lockstep")
        return Example(make=found.example_world, steps=20)

    def __init__(
        self,
        *,
        bridge: str = "tcp://127.0.0.1:9090",
        edition: Edition = 9,
        map: str,
        without: list[str] | None = None,
        surroundings: dict[str, Any] | None = None,
        body: dict[str, float] | None = None,
        guardian: bool = False,
        period_s: Period = 0.1,
        wait_s: Seconds = 10.0,
    ) -> None:
        if bridge != "node":
            parse_address(bridge)
        super().__init__(
            lambda: connect(bridge),
            way="cyber" if bridge == "node" else "cyber_bridge",
            edition=edition,
            road_map=load_map(Path(map)),
            without=without or (),
            surroundings=surroundings,
            body=Body(**(body or {})),
            guardian=guardian,
            period_s=period_s,
            wait_s=wait_s,
        )


class ApolloPilot:
    """A pilot that always proposes to let Apollo drive."""

    def reset(self, seed: int) -> None:
        """Does nothing, because Apollo is already running."""

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        """Returns the action that lets Apollo drive."""
        return Action("drive")
