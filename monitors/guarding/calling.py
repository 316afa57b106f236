"""Maps risks to interventions according to a policy, with hysteresis and hold times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.monitors.guarding.chain import LawWatch
from forewarn.monitors.guarding.decision import RANK, Kind
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.watch import Watch


@dataclass(slots=True)
class Held:
    """An intervention that is held until its risk has stayed low for a while."""

    kind: Kind
    cap_kmh: float | None
    calm_since_s: float = math.inf


class Calling:
    """Compares the risks of laws with the thresholds of a policy.

    Args:
        policy: The policy to apply.
        steps: The policy's steps for each law, in the order of the watch's laws.
        lawless: The decision kind if no law is watched.
    """

    def __init__(
        self, policy: Policy, steps: Sequence[tuple[Step, ...]], lawless: Kind
    ) -> None:
        self._policy, self._steps, self._lawless = policy, steps, lawless
        # A policy that judges only the state after an action sets no thresholds for
        # the present risk.
        self._no_steps: list[tuple[Step, ...]] = [() for _ in steps]
        self.reset()

    def reset(self) -> None:
        """Begins a new run, without held interventions."""
        self._holds: dict[Kind, Held] = {}

    def hold(self, kind: Kind, cap_kmh: float | None) -> None:
        """Holds an intervention until the risk has stayed low for a while."""
        self._holds[kind] = Held(kind, cap_kmh)

    def worst(self, watch: Watch, ahead: bool = False) -> tuple[LawWatch | None, Kind]:
        """Returns the most severe intervention that the risks require, and its law.

        Args:
            watch: The laws with their risks.
            ahead: Whether the policy judges only the state after the action; then the
                present risks are not compared with thresholds.
        """
        chosen: LawWatch | None = None
        kind = self._lawless
        rank, highest = -1, -1.0
        for law, steps in zip(watch.laws, self._of(ahead), strict=True):
            risk = law.judged
            wanted = self._wanted(law, steps, risk)
            severity = RANK[wanted]
            if severity > rank or (severity == rank and risk > highest):
                chosen, kind, rank, highest = law, wanted, severity, risk
        if watch.unknown and self._policy.unknown_state == "stop":
            kind = _severer(kind, "stop")
        return chosen, kind

    def _of(self, ahead: bool) -> Sequence[tuple[Step, ...]]:
        return self._no_steps if ahead else self._steps

    def _wanted(self, law: LawWatch, steps: Sequence[Step], risk: float) -> Kind:
        if law.broken and self._policy.after_violation == "stop":
            return "stop"
        wanted: Kind = "proceed"
        for step in steps:
            # Thresholds ascend: if one step does not apply, no severer one does.
            if not step.applies(risk):
                break
            wanted = step.kind
        if math.isfinite(risk):
            return wanted
        return _severer(wanted, self._policy.fallback)

    def kept(
        self, watch: Watch, time_s: float, kind: Kind, ahead: bool = False
    ) -> Held | None:
        """Returns the intervention that is held because the risk has not stayed low for
        long enough.

        Each kind is held separately: slowing that begins during a stop may outlast the
        stop.
        """
        policy = self._policy
        if kind != "proceed":
            self.hold(kind, policy.slow_cap_kmh if kind == "slow" else None)
        severest: Held | None = None
        for each in tuple(self._holds.values()):
            if RANK[each.kind] <= RANK[kind] or self._high(watch, each.kind, ahead):
                each.calm_since_s = math.inf
            else:
                each.calm_since_s = min(each.calm_since_s, time_s)
            if time_s - each.calm_since_s >= policy.hold_s:
                del self._holds[each.kind]
            elif severest is None or RANK[each.kind] > RANK[severest.kind]:
                severest = each
        return None if severest is None or severest.kind == kind else severest

    def _high(self, watch: Watch, kind: Kind, ahead: bool) -> bool:
        """Whether any law's risk is not clearly below its threshold for `kind`."""
        for law, steps in zip(watch.laws, self._of(ahead), strict=True):
            risk = law.judged
            for step in steps:
                severe = RANK[step.kind] >= RANK[kind]
                if severe and step.applies(risk, self._policy.hysteresis):
                    return True
        return False


def _severer(one: Kind, other: Kind) -> Kind:
    return one if RANK[one] >= RANK[other] else other
