"""What every actuator is held to."""

from __future__ import annotations

import math
from contextlib import closing

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import RANK, Action, Decision, Kind, Risk
from forewarn.plugins.actions import CAP
from forewarn.plugins.contracts import Actuator, Pilot, World
from forewarn.plugins.testing.promises import (
    BLIND,
    CAN_STOP,
    CUTS,
    LET_THROUGH,
    NOTICES,
    SLOWS,
    TELLS,
)


class ActuatorContract:
    """What every actuator promises, in a world with a pilot that goes on.

    It is the world's own, unless `make_actuator` gives another.

    Attributes:
        steps: How far the pilot drives before the suite intervenes.
        ack_s: How long the world may take to show that it obeyed.
    """

    steps = 3
    ack_s = 2.0

    def make_world(self) -> World:
        raise NotImplementedError

    def make_actuator(self, world: World) -> Actuator:
        """The actuator, in the episode that the world has begun."""
        return world.actuator()

    def make_pilot(self) -> Pilot:
        raise NotImplementedError

    def decision(self, kind: Kind, frame: Frame) -> Decision:
        """A decision of that kind, with everything that one of it carries."""
        return Decision(
            kind,
            frame.sequence,
            frame.time_s,
            law="no harm",
            risk=Risk(0.8, 0.9, 0.95),
            reason="no harm is at risk of 0.9 within 3 s",
            cap_kmh=10.0 if kind == "slow" else None,
            action=self.substitute() if kind == "substitute" else None,
        )

    def substitute(self) -> Action | None:
        """An action that can stand in for another; needed if it can `substitute`."""
        return None

    def _under_way(self, world: World) -> tuple[Pilot, Actuator, Frame]:
        pilot = self.make_pilot()
        frame = world.reset(1)
        pilot.reset(1)
        actuator = self.make_actuator(world)
        for _ in range(self.steps):
            frame = world.step(pilot.propose(frame))
        return pilot, actuator, frame

    def _can(self, world: World) -> list[Kind]:
        """What it can, the mildest first."""
        _, actuator, _ = self._under_way(world)
        return sorted(actuator.can, key=RANK.__getitem__)

    def test_it_can_stop(self) -> None:
        with closing(self.make_world()) as world:
            can = self._can(world)
        assert "stop" in can, CAN_STOP
        assert set(can) <= set(RANK), "What an actuator can is a kind of decision."

    def test_it_can_what_the_world_can(self) -> None:
        with closing(self.make_world()) as world:
            can = self._can(world)
            capped = any(CAP in spec.arguments for spec in world.actions)
            assert not capped or "slow" in can, SLOWS
            assert "cut" not in world.actions or "cut" in can, CUTS

    def test_it_lets_pass_what_may_pass(self) -> None:
        passing: tuple[Kind, ...] = ("proceed", "alert")
        with closing(self.make_world()) as world:
            pilot, actuator, frame = self._under_way(world)
            proposal = pilot.propose(frame)
            for kind in passing:
                decision = self.decision(kind, frame)
                passed = actuator.carry_out(decision, proposal, frame)
                assert passed == proposal, LET_THROUGH
                assert actuator.carry_out(decision, None, frame) is None, LET_THROUGH

    def test_the_world_takes_all_that_it_sends(self) -> None:
        with closing(self.make_world()) as world:
            for kind in self._can(world):
                for proposed in (True, False):
                    pilot, actuator, frame = self._under_way(world)
                    proposal = pilot.propose(frame) if proposed else None
                    decision = self.decision(kind, frame)
                    world.step(actuator.carry_out(decision, proposal, frame))

    def test_the_fallback_needs_nothing(self) -> None:
        with closing(self.make_world()) as world:
            _, actuator, frame = self._under_way(world)
            world.step(actuator.fallback(frame))
            if world.ended() is None:
                world.step(actuator.fallback())

    def test_what_was_done_shows(self) -> None:
        harder: tuple[Kind, ...] = ("reflect", "skip", "slow", "stop", "cut")
        with closing(self.make_world()) as world:
            can = self._can(world)
            for kind in harder:
                if kind in can:
                    shown = self._shown(world, kind, obeys=True)
                    assert True in shown, f"{TELLS} ({kind})"

    def test_what_was_not_done_shows_too(self) -> None:
        with closing(self.make_world()) as world:
            assert not all(self._shown(world, "stop", obeys=False)), NOTICES

    def _shown(self, world: World, kind: Kind, *, obeys: bool) -> list[bool | None]:
        """What the actuator says of each frame until the world must have obeyed."""
        pilot, actuator, frame = self._under_way(world)
        decision = self.decision(kind, frame)
        shown: list[bool | None] = []
        for _ in range(max(1, math.ceil(self.ack_s / world.source.period_s))):
            proposal = pilot.propose(frame)
            action = actuator.carry_out(decision, proposal, frame)
            frame = world.step(action if obeys else proposal)
            shown.append(actuator.obeyed(decision, frame))
            if world.ended() is not None:
                break
            decision = self.decision(kind, frame)
        return shown

    def test_it_does_not_take_silence_for_obedience(self) -> None:
        with closing(self.make_world()) as world:
            pilot, actuator, frame = self._under_way(world)
            decision = self.decision("stop", frame)
            actuator.carry_out(decision, pilot.propose(frame), frame)
            time_s = frame.time_s + world.source.period_s
            blank = Frame(time_s, frame.sequence + 1, {})
            assert actuator.obeyed(decision, blank) is not True, BLIND
