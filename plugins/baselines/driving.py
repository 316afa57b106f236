"""Baselines that use only the current signals: time to collision, and extrapolation.

`Predictor` extrapolates the signals over the next seconds. The ego keeps its average
acceleration of the last half second, but neither reverses nor exceeds the speed limit.
Vehicles ahead keep their speed. Traffic lights and all other signals stay the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.expression.vector import evaluate
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary, load_vocabulary
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import FollowedLaw
from forewarn.monitors.laws.robustness import Floats, Robustness, Stretch
from forewarn.plugins.baselines import check_signals
from forewarn.plugins.contracts import Source

JUNCTION_M = 20.0
"""The assumed length in m of the path through a junction; no signal provides it."""

CROSSWALK_M = 4.0

_STEADY_S = 0.5  # time over which the acceleration is averaged
_KMH = 3.6
_SAME_S = 0.05  # tolerance, because times to collision are rounded
_SLOWEST = 1.0  # m/s: minimum speed with which time gaps are converted to distances


def refuse_unless_driving(law: Law, source: Source, *needed: str) -> None:
    """Raises `InvalidInput` if a source lacks a driving signal that is needed."""
    if source.vocabulary != "driving":
        raise InvalidInput(
            "this baseline requires the vocabulary `driving`, but "
            f"{source.name} has the vocabulary `{source.vocabulary}`"
        )
    check_signals(source, *law.signals, *needed)


@dataclass(frozen=True, slots=True)
class _Motion:
    """A frame, and the predicted motion of the ego after it.

    Args:
        values: The signals of the frame.
        ahead_s: The time in seconds from the frame to each predicted frame.
        speed: The predicted speeds of the ego in m/s.
        way_m: The distance in m that the ego has covered by each predicted frame.
        acceleration: The predicted accelerations of the ego in m/s².
    """

    values: Any
    ahead_s: Floats
    speed: Floats
    way_m: Floats
    acceleration: Floats

    def left_m(self, name: str, inside_m: float = 0.0) -> Floats:
        """Predicts a distance signal.

        The distance is 0 while the ego is at most `inside_m` past the place, and NaN
        after that.
        """
        now = self.values[name]
        if now is None:
            return np.full(len(self.way_m), np.nan)
        left = now - self.way_m
        return np.where(left >= -inside_m, np.maximum(left, 0.0), np.nan)

    @property
    def entered(self) -> NDArray[np.bool_]:
        """Whether the ego has entered the next junction by each predicted frame."""
        to = self.values.get("junction_distance")
        if to is None or self.values.get("in_junction"):
            return np.zeros(len(self.way_m), bool)
        passed: NDArray[np.bool_] = self.way_m > to
        return passed

    @property
    def collides(self) -> NDArray[np.bool_]:
        """Whether the ego has hit a road user by each predicted frame."""
        run_into: NDArray[np.bool_] = self.gap_m() < 0.0
        return run_into | (self.way_m > self.conflict_m)

    @property
    def conflict_m(self) -> float:
        """The distance to the conflict with a road user on a collision course."""
        collides_s = self.values.get("time_to_collision")
        if collides_s is None:
            return np.inf
        gap, its = self.values.get("lead_distance"), self.values.get("lead_speed")
        if gap is not None and its is not None:
            closing = float(self.speed[0]) - its / _KMH
            if closing > 0.0 and gap / closing <= collides_s + _SAME_S:
                return np.inf  # the time to collision is that with the vehicle ahead
        return float(self.speed[0]) * float(collides_s)

    def gap_m(self) -> Floats:
        """Predicts the distance to the vehicle ahead; negative after a collision."""
        gap, its = self.values.get("lead_distance"), self.values.get("lead_speed")
        if gap is None or its is None:
            return np.full(len(self.way_m), np.inf)
        left: Floats = gap + its / _KMH * self.ahead_s - self.way_m
        return left

    def clearance_m(self) -> Floats:
        """Returns the smallest distance to any road user at each predicted frame.

        After a collision, the distance is negative.
        """
        apart = np.minimum(self.gap_m(), self.conflict_m - self.way_m)
        pace = max(float(self.speed[0]), _SLOWEST)
        for name in ("arrival_gap", "pedestrian_arrival_gap"):
            gap_s = self.values.get(name)
            if gap_s is not None:
                apart = np.minimum(apart, gap_s * pace)
        return apart


def _oncoming(motion: _Motion) -> Floats:
    now, its = motion.values["oncoming_distance"], motion.values["oncoming_speed"]
    if now is None or its is None:
        return np.full(len(motion.way_m), np.nan)
    left = now - motion.way_m - its / _KMH * motion.ahead_s
    return np.where(left >= 0.0, left, np.nan)


def _lead(motion: _Motion) -> Floats:
    gap = motion.gap_m()
    return np.where(np.isfinite(gap), np.maximum(gap, 0.0), np.nan)


_COLUMNS: dict[str, Callable[[_Motion], NDArray[Any]]] = {
    "speed": lambda motion: motion.speed * _KMH,
    "acceleration": lambda motion: motion.acceleration,
    "braking": lambda motion: motion.acceleration < -0.5,
    "junction_distance": lambda motion: motion.left_m("junction_distance", JUNCTION_M),
    "stop_line_distance": lambda motion: motion.left_m("stop_line_distance"),
    "stop_sign_distance": lambda motion: motion.left_m("stop_sign_distance"),
    "crosswalk_distance": lambda m: m.left_m("crosswalk_distance", CROSSWALK_M),
    "lane_count": lambda m: np.where(m.entered, 0.0, m.values["lane_count"]),
    "in_junction": lambda motion: motion.entered | bool(motion.values["in_junction"]),
    "past_stop_line": lambda m: m.entered | bool(m.values["past_stop_line"]),
    "lead_distance": _lead,
    "oncoming_distance": _oncoming,
    "collision": lambda m: m.collides | bool(m.values["collision"]),
}


class Predictor:
    """Predicts the signals of a law after each frame.

    Args:
        law: The law whose signals are predicted.
        source: The source of the frames.
        ahead_s: The prediction horizon in seconds.
    """

    def __init__(self, law: Law, source: Source, ahead_s: float) -> None:
        self._signals = law.signals
        self._vocabulary: Vocabulary = load_vocabulary("driving")
        steps = round(ahead_s / source.period_s)
        self._ahead_s = np.arange(steps + 1, dtype=np.float64) * source.period_s
        self._period_s = source.period_s
        self._felt: deque[float] = deque(
            maxlen=max(1, round(_STEADY_S / source.period_s))
        )

    def reset(self) -> None:
        """Starts an episode."""
        self._felt.clear()

    def stretch(self, frame: Frame) -> Stretch:
        """Returns a frame and the predicted frames after it."""
        motion = self._motion(frame)
        columns = {name: self._column(name, motion) for name in self._signals}
        degrees = {}
        if "collision" in columns and not frame.values["collision"]:
            degrees["collision"] = -motion.clearance_m()
        return Stretch(columns, len(self._ahead_s), degrees)

    def _motion(self, frame: Frame) -> _Motion:
        values = frame.values
        self._felt.append(values["acceleration"])
        acceleration = sum(self._felt) / len(self._felt)
        now = values["speed"] / _KMH
        limit = values.get("speed_limit")
        fastest = max(now, np.inf if limit is None else limit / _KMH)
        speed: Floats = np.clip(now + acceleration * self._ahead_s, 0.0, fastest)
        steps = (speed[1:] + speed[:-1]) / 2.0 * self._period_s
        way_m = np.concatenate([[0.0], np.cumsum(steps)])
        moving = (speed > 0.0) & (speed < fastest)
        felt = np.where(moving, acceleration, 0.0)
        return _Motion(values, self._ahead_s, speed, way_m, felt)

    def _column(self, name: str, motion: _Motion) -> NDArray[Any]:
        if name in _COLUMNS:
            return _COLUMNS[name](motion)
        value = motion.values[name]
        kind = self._vocabulary.signals[name].type
        if kind == "number":
            value = np.nan if value is None else float(value)
            return np.full(len(self._ahead_s), value)
        if kind == "bool":
            return np.full(len(self._ahead_s), bool(value))
        return np.full(len(self._ahead_s), value, dtype=object)


REACTIVE_AHEAD_S = 2.0
NEVER = 1000.0


class Reactive:
    """A reactive guard, whose score is minus the time in seconds until a predicted
    violation.

    At each frame, the monitor of the law is run over the predicted frames. The
    prediction assumes that no road user reacts.
    """

    thresholds = (-2.0, -1.0, -0.5)

    def __init__(self, law: Law, source: Source) -> None:
        refuse_unless_driving(law, source, "speed", "acceleration")
        self._predictor = Predictor(law, source, REACTIVE_AHEAD_S)
        self._law = FollowedLaw(law, source.period_s)
        automaton = self._law.automaton
        self._columns = {letter: i for i, letter in enumerate(automaton.letters)}
        self._step = automaton.step.tolist()
        self._period_s = source.period_s
        # If the law has a longer period than the frames, some predicted frames are
        # skipped.
        self._stride = max(
            1, round((law.period(source.period_s) or 0) / source.period_s)
        )
        self.reset()

    def reset(self) -> None:
        self._predictor.reset()
        self._law.reset()
        self._broken = False

    def score(self, frame: Frame) -> float:
        for verdict in self._law.frame(frame):
            self._broken = verdict.status == "violated"
        if self._broken:
            return 0.0
        stretch = self._predictor.stretch(frame)
        letters = np.zeros(stretch.length, np.int64)
        for bit, proposition in enumerate(self._law.automaton.propositions):
            letters |= evaluate(proposition, stretch.columns).astype(np.int64) << bit
        state, violated = self._law.monitor.state, self._law.automaton.violated
        for ahead in range(self._stride, stretch.length, self._stride):
            column = self._columns.get(int(letters[ahead]))
            if column is None:
                break  # impossible, so the prediction is invalid
            state = self._step[state][column]
            if state == violated:
                return -ahead * self._period_s
        return -NEVER


REDRIVER_AHEAD_S = 8.0
"""The length of the trajectories that Apollo plans, in seconds."""

FAR = 1000.0
"""The maximum robustness, which would be infinite where a distance is missing."""


class ReDriver:
    """A baseline that computes a law's robustness over a predicted trajectory.

    This is a simplified version of REDriver, and not the original program. REDriver
    computes how far the trajectory that Apollo plans is from violating the law. This
    baseline uses a trajectory that is predicted from the frame, and the quantitative
    semantics of Forewarn's formulas, in the units of their signals. The score is minus
    the robustness. The baseline raises an alarm at a robustness of 0.4, 0.8 or 1.2.
    """

    thresholds = (-1.2, -0.8, -0.4)

    def __init__(self, law: Law, source: Source) -> None:
        refuse_unless_driving(law, source, "speed", "acceleration")
        self._predictor = Predictor(law, source, REDRIVER_AHEAD_S)
        self._robustness = Robustness(law.formula, source.period_s)

    def reset(self) -> None:
        self._predictor.reset()

    def score(self, frame: Frame) -> float:
        found = self._robustness(self._predictor.stretch(frame))[0]
        return -float(min(FAR, max(-FAR, found)))


OF_OTHERS = frozenset(
    "collision lead_distance lead_speed nearest_distance oncoming_distance"
    " pedestrian_distance priority_vehicle priority_pedestrian".split()
)
"""The signals about other road users."""


def refuse_unless_of_others(law: Law) -> None:
    """Raises `InvalidInput` if a law uses no signal about other road users."""
    if OF_OTHERS.isdisjoint(law.signals):
        raise InvalidInput("this baseline applies only to laws about other road users")


class TimeToCollision:
    """A baseline whose score is minus the time to collision in seconds."""

    thresholds = (-3.0, -2.0, -1.5, -1.0)

    def __init__(self, law: Law, source: Source) -> None:
        refuse_unless_of_others(law)
        refuse_unless_driving(law, source, "time_to_collision")

    def reset(self) -> None:
        """Does nothing, because the baseline has no state."""

    def score(self, frame: Frame) -> float:
        left_s = frame.values["time_to_collision"]
        return -NEVER if left_s is None else -min(float(left_s), NEVER)
