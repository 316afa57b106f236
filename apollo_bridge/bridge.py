"""The World: a running Apollo, watched from inside its container or from outside."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Self

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
"""The input that a frame waits for, because it is the most regular."""

_LATE_S = 0.2
_BACK_S = 1.0

Period = Annotated[float, Field(gt=0.01, le=1)]
Seconds = Annotated[float, Field(gt=0)]


class ApolloWorld(SteppedWorld):
    """Apollo as a world. It drives by itself; actions only slow or stop it.

    Args:
        bridge: The connection: `tcp://HOST:PORT` of cyber_bridge, or `node`.
        edition: 9 for Apollo 9 and later, 8 for earlier ones.
        map: The folder or file of Apollo's map; without one there are only the signals
            of the car itself.
        without: The inputs that this Apollo lacks, such as `prediction`.
        surroundings: Weather, time of day and other values that no channel sends.
        body: The car's size, if not Apollo's default.
        guardian: Whether `cut` may use Apollo's guardian, which must be enabled.
        period_s: The time between two frames.
        wait_s: How long to wait for Apollo's first messages.
    """

    @staticmethod
    def example() -> Example:
        """A world on the stand-in, which drives on SUMO."""
        # Imported by name, because the stand-in depends on this world and not vice
        # versa.
        found = import_module("forewarn.apollo_bridge.lockstep")
        return Example(make=found.example_world, steps=20)

    def __init__(
        self,
        *,
        bridge: str = "tcp://127.0.0.1:9090",
        edition: Edition = 9,
        map: str = "",
        without: list[str] | None = None,
        surroundings: dict[str, Any] | None = None,
        body: dict[str, float] | None = None,
        guardian: bool = False,
        period_s: Period = 0.1,
        wait_s: Seconds = 10.0,
    ) -> None:
        if bridge != "node":
            parse_address(bridge)
        self._set_up(
            lambda: connect(bridge), "cyber" if bridge == "node" else "cyber_bridge",
            edition, load_map(Path(map)) if map else None, without or (),
            surroundings or {}, Body(**(body or {})), guardian, period_s, wait_s,
            time.monotonic,
        )  # fmt: skip

    @classmethod
    def on(
        cls,
        bus: Bus,
        *,
        edition: Edition = 9,
        road_map: RoadMap | None = None,
        without: tuple[str, ...] = (),
        surroundings: Mapping[str, Any] | None = None,
        body: Body | None = None,
        guardian: bool = False,
        period_s: float = 0.1,
        wait_s: float = 10.0,
        clock: Callable[[], float] | None = None,
    ) -> Self:
        """A world on an existing bus; closing the world closes the bus.

        With `clock` the world is embedded: Apollo's time is simulated.
        """
        world = cls.__new__(cls)
        world._set_up(
            lambda: bus, "a bus", edition, road_map, without, surroundings or {},
            body or Body(), guardian, period_s, wait_s, clock or time.monotonic,
            embedded=clock is not None,
        )  # fmt: skip
        return world

    def _set_up(
        self,
        connect: Callable[[], Bus],
        way: str,
        edition: Edition,
        road_map: RoadMap | None,
        without: Any,
        surroundings: Mapping[str, Any],
        body: Body,
        guardian: bool,
        period_s: float,
        wait_s: float,
        clock: Callable[[], float],
        *,
        embedded: bool = False,
    ) -> None:
        for name in without:
            if name not in channels.INPUTS or name in ("localization", "chassis"):
                known = [n for n in channels.INPUTS if n not in (PIVOT, "chassis")]
                raise InvalidInput(
                    f"{name!r:.60} is not an optional input",
                    mend=near_miss(name, known) or f"there are {', '.join(known)}",
                )
        self._connect, self._clock = connect, clock
        self._messages = messages(edition)
        self._inputs = {n: c for n, c in channels.INPUTS.items() if n not in without}
        self._senses = ApolloSenses(road_map, body, surroundings, period_s)
        self._shown = self._senses.shown
        self._guardian, self._wait_s = guardian, wait_s
        provides = provided(road_map, self._inputs, surroundings)
        self.source = Source(
            f"Apollo {edition} by {way}", "driving", provides, period_s, embedded
        )
        self._bus: Bus | None = None
        self._commander: Commander | None = None
        self._closed = False
        # The accepted actions until the available commands are known.
        self.actions = Paths().actions
        self.problem = ""

    # -- the contract -----------------------------------------------------------------

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
        """The time by Apollo's clock."""
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
        """Connects the bus, and keeps its newest messages from now on."""
        if self._closed:
            raise InvalidInput(f"the world could not begin: {self.over}")
        if self._bus is None:
            self._bus = self._connect()
            listened = {**self._inputs, **channels.ROUTES[self._messages.edition]}
            self._inbox = Inbox(self._bus, listened, self._messages, self._clock)
        return self._bus

    def actuator(self) -> ApolloActuator:
        """An actuator with the available commands."""
        commander = self.commander
        telemetry = commander.telemetry
        return ApolloActuator(commander.paths, lambda: telemetry.emergency_stop)

    def halt(self) -> None:
        """Stops Apollo until the next step."""
        self.commander.want(Action("stop"))

    def ground(self) -> list[Shape]:
        """The roads, for live views; nothing without a map."""
        shown = self._shown
        return [] if shown is None else shown.ground()

    def things(self) -> list[Thing]:
        """The road users, for live views."""
        shown = self._shown
        return [] if shown is None else shown.things()

    # -- outside the contract ----------------------------------------------------------

    @property
    def commander(self) -> Commander:
        """The object that commands Apollo; available from the first frame on."""
        if self._commander is None:
            raise InvalidInput("the world has not begun")
        return self._commander

    @property
    def bus(self) -> Bus | None:
        """The connection to Apollo, once there is one."""
        return self._bus

    # -- frames -----------------------------------------------------------------------

    def _missing(self) -> list[str]:
        return [n for n in self._inputs if self._inbox.newest(n) is None]

    def _give_up(self, bus: Bus) -> None:
        missing = self._missing()
        problem = f" ({bus.health.problem})" if bus.health.problem else ""
        others = [n for n in missing if n not in (PIVOT, "chassis")]
        mend = "check that Apollo is running and that the edition is right"
        if others == missing:
            mend = (
                f"if Apollo does not have {', '.join(others)}, leave them out with "
                "--without"
            )
        named = ", ".join(self._inputs[n].name for n in missing)
        raise InvalidInput(
            f"no message arrived on {named} within {self._wait_s:g} s{problem}",
            mend=mend,
        )

    def _pivot_s(self) -> float:
        """The time of the pivot's newest message."""
        newest = self._inbox.newest(PIVOT)
        stamped = None if newest is None else stamp(newest.message)
        if stamped is None:
            return 0.0 if newest is None else newest.at_s
        return stamped

    def _gone_back(self) -> bool:
        # Not earlier than the time assumed while nothing arrived.
        return self._pivot_s() < self._seen_s - _BACK_S

    def values(self) -> dict[str, Value]:
        newest = {n: self._inbox.newest(n) for n in (*self._inputs, "routing")}
        said = {n: each.message for n, each in newest.items() if each is not None}
        try:
            values = self._senses.values(self._now_s, said)
            self.problem = self._senses.fault
        except Exception as error:
            # Without these signals the guard passes nothing, whatever the message was.
            values = {}
            self.problem = f"{type(error).__name__}: {error}"
        # The chassis' clock need not show local time, or any time.
        if "time_of_day" not in self.source.provides:
            values.pop("time_of_day", None)
        for name in self._inputs:
            age_s = self._inbox.age_s(name)
            if age_s is not None:
                values[f"{name}_age"] = round(age_s, 4)
        return values


class ApolloPilot:
    """Apollo drives by itself; the proposal is always to let it continue."""

    def reset(self, seed: int) -> None:
        """Apollo is already running, so nothing is started."""

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        """Returns the action that lets Apollo drive."""
        return Action("drive")
