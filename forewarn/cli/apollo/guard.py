"""`forewarn apollo guard`: a guard on a running Apollo, or on the stand-in."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.apollo.shared import (
    body_option,
    body_size,
    drive,
    edition_option,
    ended_by_signals,
    map_option,
    pace_option,
    surroundings,
    told_option,
)
from forewarn.cli.guarding.making import (
    Fitting,
    GuardMaker,
    Judging,
    announced,
    guard_options,
    watched,
)
from forewarn.cli.guarding.saying import Saying
from forewarn.cli.runs.episodes import Telling, person
from forewarn.cli.support import Number, emit, json_option, seed_option

if TYPE_CHECKING:
    from forewarn.apollo_bridge.bridge import ApolloWorld
    from forewarn.apollo_bridge.messages.pool import Edition
    from forewarn.monitors.guarding.decision import Decision
    from forewarn.monitors.guarding.guard import Clock, Guard
    from forewarn.plugins.loop.guarding import Guarding
    from forewarn.plugins.loop.interventions import Outcome
    from forewarn.plugins.loop.loop import GuardedLoop, Turn

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--bridge",
    metavar="tcp://HOST:PORT",
    help="From outside, through Apollo's cyber_bridge.",
)
@click.option("--node", is_flag=True, help="As a node, inside Apollo's container.")
@click.option(
    "--fake",
    is_flag=False,
    flag_value="s2",
    metavar="[SCENARIO]",
    help="On a stand-in in this process, which drives a scenario once; by default s2.",
)
@guard_options
@map_option
@click.option(
    "--without",
    multiple=True,
    metavar="INPUT",
    help="An input that this Apollo does not have: prediction, lights, …",
)
@told_option
@body_option
@edition_option
@click.option(
    "--guardian",
    is_flag=True,
    help="When a stop is not obeyed, ask Apollo's guardian, which must be enabled.",
)
@click.option("--shadow", is_flag=True, help="Decide everything, enforce nothing.")
@click.option("--for", "for_s", type=Number(min=0.0), help="End after so many seconds.")
@seed_option
@pace_option
@click.option("--record", "record_path", type=_FILE, help="Where the run record goes.")
@json_option
def guard(
    bridge: str | None,
    node: bool,
    fake: str | None,
    model_path: Path,
    policy_path: Path | None,
    laws: tuple[str, ...],
    judging: Judging,
    telling: Telling,
    fitting: Fitting,
    intervene: str | None,
    map_path: Path | None,
    without: tuple[str, ...],
    told: tuple[str, ...],
    body: str | None,
    edition: Edition,
    guardian: bool,
    shadow: bool,
    for_s: float | None,
    seed: int,
    pace: float,
    record_path: Path | None,
    as_json: bool,
) -> None:
    """Watch Apollo, and stop or slow it down before it breaks a law.

    Says by which ways Apollo can be held back, then each change of mind; with --json a
    line for every frame. When it ends, Apollo is left stopped, unless it is in shadow
    mode: `forewarn apollo resume` lets it drive on.

    \b
    Examples:
      forewarn apollo guard --bridge tcp://127.0.0.1:9090 --map maps --model s2.json
      forewarn apollo guard --fake s2 --seed 3 --pace 0 --model s2.json
    """
    if sum((bridge is not None, node, fake is not None)) != 1:
        raise click.UsageError("give one of --bridge tcp://HOST:PORT, --node or --fake")
    if fake is not None and not laws:
        from forewarn.scenarios.schema import load_scenario

        laws = tuple(law.reference for law in load_scenario(fake).laws)
    make = GuardMaker.of(model_path, policy_path, laws, shadow, judging, intervene)
    guarding = _guarding(make, telling)
    with ExitStack() as stack:
        if fake is not None:
            world = _stand_in(stack, fake, seed, pace, edition, guardian)
        else:
            from forewarn.apollo_bridge.bridge import ApolloWorld
            from forewarn.apollo_bridge.buses.node import find_cyber

            if node:
                find_cyber()  # said before anything is loaded
            world = ApolloWorld(
                bridge=bridge or "node",
                edition=edition,
                map=str(map_path or ""),
                without=list(without),
                surroundings=surroundings(told),
                body=body_size(body),
                guardian=guardian,
            )
        stack.enter_context(contextlib.closing(world))
        if fake is not None:
            fitting = replace(fitting, scenario=fake)
        source = world.source
        fitting.check(make, vocabulary=source.vocabulary, period_s=source.period_s)
        if record_path is not None:
            from forewarn.plugins.loop.records import keep_model

            keep_model(model_path, record_path.parent)
        _Watching(world, guarding, record_path, as_json).run(seed, for_s)


def _guarding(make: GuardMaker, telling: Telling) -> Guarding:
    from forewarn.plugins.loop.guarding import Guarding
    from forewarn.plugins.loop.records import digest_of

    facts = {"sha256": digest_of(make.path), "name": make.path.name}
    return Guarding(
        lambda source, clock: make(source.provides, clock),
        make.policy,
        facts,
        tuple(telling.alerts()),
        person(),
    )


def _stand_in(
    stack: ExitStack,
    scenario: str,
    seed: int,
    pace: float,
    edition: Edition,
    guardian: bool,
) -> ApolloWorld:
    """The stand-in, driving in a thread of its own, and a world that watches it."""
    from forewarn.apollo_bridge.buses.fake import FakeCyber
    from forewarn.apollo_bridge.buses.node import NodeBus
    from forewarn.apollo_bridge.maps.hdmap import read_map
    from forewarn.apollo_bridge.standin.lockstep import LockstepWorld
    from forewarn.apollo_bridge.standin.mapping import draw_map
    from forewarn.plugins.driving.sense import Surroundings
    from forewarn.scenarios.schema import load_scenario

    wanted = load_scenario(scenario)
    settings = wanted.settings(wanted.world, seed)
    cyber = FakeCyber()
    stand_in = drive(scenario, seed, cyber, edition, guardian)
    stack.callback(stand_in.drive.world.close)
    told = settings.get("surroundings") or {}
    return LockstepWorld.of(
        stand_in,
        NodeBus(cyber),
        read_map(draw_map(settings.get("map", "crossing"))),
        edition=edition,
        surroundings=Surroundings(**told).model_dump(),
        guardian=guardian,
        pace=pace,
    )


class _Watching:
    """The loop: a frame, a decision, what is done about it."""

    def __init__(
        self,
        world: ApolloWorld,
        guarding: Guarding,
        record_path: Path | None,
        as_json: bool,
    ) -> None:
        self._world, self._guarding = world, guarding
        self._record_path, self._as_json = record_path, as_json
        self._ending = False
        self._saying = Saying(as_json)
        self._obeyed: bool | None = None

    def run(self, seed: int, for_s: float | None) -> None:
        """Guards until the end, and says how it went."""
        from forewarn.plugins.loop.loop import EpisodeClock

        world = self._world
        clock = EpisodeClock() if world.source.embedded else time.monotonic
        # Before the first frame: making it takes a while, and the frame would be old.
        guard = self._guarding.make(world.source, clock)
        frame = world.reset(seed)
        self._begin(guard)
        with ExitStack() as stack:
            stack.enter_context(ended_by_signals(self._end))
            loop = stack.enter_context(self._loop(guard, clock, seed))
            loop.equip(world)
            until_s = math.inf if for_s is None else time.monotonic() + for_s
            while True:
                turn = loop.decide(frame)
                self._tell(turn)
                ended = world.ended() or self._over(until_s)
                if ended is not None:
                    break
                frame = world.step(turn.executed)
            loop.close(ended)
        self._finish(ended, loop)

    def _end(self) -> None:
        self._ending = True

    def _over(self, until_s: float) -> str | None:
        if self._ending:
            return "it was ended"
        return "the time had passed" if time.monotonic() >= until_s else None

    def _loop(self, guard: Guard, clock: Clock, seed: int) -> GuardedLoop:
        from forewarn.plugins.loop.loop import GuardedLoop
        from forewarn.plugins.loop.records import open_record

        source, guarding, record = self._world.source, self._guarding, None
        if self._record_path is not None:
            record = open_record(
                self._record_path,
                guarding.model,
                guarding.policy,
                guard.watch,
                judges=guard.judges,
                scenario={"name": "apollo"},
                seed=seed,
                source=source.name,
                vocabulary=source.vocabulary,
                period_s=source.period_s,
                provides=source.provides,
            )
        return GuardedLoop(
            guard,
            clock=clock,
            alerts=guarding.alerts,
            approver=guarding.approver,
            record=record,
        )

    # -- saying it --------------------------------------------------------------------

    def _begin(self, guard: Guard) -> None:
        paths = self._world.commander.paths
        begins = {
            "source": self._world.source.name,
            "stop": paths.stop,
            "slow": paths.slow,
            "cut": paths.cut,
            **watched(guard),
        }
        head = f"Watching {self._world.source.name}: {paths.sentence()}."
        emit(self._as_json, begins, [head, *announced(guard)])
        sys.stdout.flush()

    def _tell(self, turn: Turn) -> None:
        from forewarn.apollo_bridge.act import planner_parameters

        decision, outcome, executed = turn.decision, turn.outcome, turn.executed
        self._saying.told(
            decision,
            outcome,
            executed=None if executed is None else executed.name,
            planner=planner_parameters(executed),
        )
        if outcome.obeyed is not None and not self._as_json:
            self._tell_obeyed(decision, outcome)

    def _tell_obeyed(self, decision: Decision, outcome: Outcome) -> None:
        if outcome.obeyed != self._obeyed:
            seen = "Apollo obeys" if outcome.obeyed else "Apollo does not obey"
            click.echo(f"{decision.time_s:8.1f} s  {seen}")
        self._obeyed = outcome.obeyed

    def _finish(self, ended: str, loop: GuardedLoop) -> None:
        bus = self._world.bus
        health = {} if bus is None else asdict(bus.health)
        counts = loop.decisions
        facts: dict[str, Any] = {
            "ended": ended,
            "frames": self._saying.frames,
            "decisions": counts,
            "broken": dict(self._saying.broken),
        }
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        lines = [
            f"{self._saying.frames} frames until {ended}: {told}.",
            self._saying.laws(),
        ]
        if health and health["losses"]:
            lines.append(f"{health['losses']} losses, the last: {health['problem']}")
        if self._record_path is not None:
            lines.append(f"The run record: {self._record_path}")
        facts["commands"] = dict(self._world.commander.sent)
        emit(self._as_json, {**facts, "bus": health}, lines)
