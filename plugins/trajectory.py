"""What an agent did, call by call, as signals: for laws over its whole trajectory.

Of each call there is the name of its tool (`tool`), whether it failed (`failed`), and
each argument that is a number, a word or a truth value (`arg_NAME`):

    always (tool == delete -> once (tool == backup and not failed))

Nothing was learned then, so there is no risk ahead of the act: the guard foresees what
the call itself would break, and lets all else pass.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from forewarn.abstractions.frame import Frame, Value
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.monitors.trust.training import law_abstraction

if TYPE_CHECKING:
    from forewarn.monitors.guarding.decision import Action

A_CALL_S = 1.0
"""The clock of these laws: a call a tick, so `2 steps` and `2 s` are two calls."""

MOST_WITHIN = 64
"""So many calls within calls are told apart."""

POLICY = Policy(
    name="laws over calls",
    rules={"*": (Step("reflect", 0.5),)},
    horizon_s=A_CALL_S,
    when="before",
    unknown_state="continue-with-warning",
    max_reflections=10,
)
"""A call that would break a law is not made, and the agent is told why."""


class Trajectory:
    """The signals of an agent's calls.

    Args:
        signals: Those that the laws read; what a call does not have is `none`.
    """

    def __init__(self, signals: Collection[str]) -> None:
        self._nothing: dict[str, Value] = dict.fromkeys(signals)
        self.begin()

    def begin(self) -> None:
        """Nothing was done yet."""
        self._last: Mapping[str, Value] = self._nothing
        # The innermost call comes last.
        self._made: deque[Mapping[str, Value]] = deque(maxlen=MOST_WITHIN)

    def observe(self) -> Frame:
        """What was done since this was last asked."""
        seen, self._last = self._last, self._nothing
        return Frame(0.0, 0, seen)

    def foresee(self, action: Action) -> Frame:
        """What will have been done once the call is made, and has not failed."""
        return Frame(0.0, 0, self._values(action, failed=False))

    def passed(self, action: Action) -> None:
        """The call is made. Until somebody says how it went, it counts as failed."""
        self._last = self._values(action, failed=True)
        self._made.append(self._last)

    def went(self, failed: bool) -> None:
        """How the innermost of the calls went that were made."""
        made = self._made.pop() if self._made else None
        if made is self._last:
            self._last = {**made, "failed": failed}

    def _values(self, action: Action, failed: bool) -> dict[str, Value]:
        given: dict[str, Value] = {"tool": action.name, "failed": failed}
        for name, value in action.arguments.items():
            if _plain(value):
                given[f"arg_{name}"] = value
        return {**self._nothing, **given}


def _plain(value: object) -> bool:
    """Whether a law can compare it."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int)


def model_of_laws(texts: Sequence[str]) -> Model:
    """A model that knows laws over calls, and nothing of how likely what is."""
    laws = [law for text in texts for law in find_laws(text)]
    abstraction = law_abstraction([law.formula for law in laws], None, A_CALL_S)
    nothing = dict.fromkeys(abstraction.signals)
    idle = abstraction.state_name(abstraction.encode(nothing))
    tally = Tally()
    tally.add_sequence([idle, idle])
    return learn(
        tally,
        Support("observed"),
        Fraction(0),
        "absorb",
        abstraction=abstraction.as_dict(),
        period_s=A_CALL_S,
        laws=tuple(law.reference for law in laws),
    )
