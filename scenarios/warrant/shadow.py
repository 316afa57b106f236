"""The shadow report: runs in which a guard would have been wrong, each with a clip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forewarn.monitors.evaluation.warned import Climb
from forewarn.monitors.guarding.certificate import Clip, Wrong
from forewarn.scenarios.warrant.runs import Past

CLIP_S = 3.0
"""The length of a clip in seconds, both before and after the decisive moment."""

CLIP_FRAMES = 13


def shadow(
    law: str,
    climbs: Sequence[Climb],
    at: float,
    past: Sequence[Past],
    signals: Sequence[str],
) -> list[Wrong]:
    """Returns the runs that the guard would have wrongly stopped or wrongly let
    pass.
    """
    found: list[Wrong] = []
    for climb in climbs:
        warned, own = climb.warned(at), past[climb.seed]
        if climb.broken is None and warned.alarm_s is not None:
            when = warned.alarm_s
        elif climb.broken is not None and not warned.detected:
            when = climb.broken.since_s
        else:
            continue
        stopped = climb.broken is None
        found.append(
            Wrong(
                run=own.stored.name, group=own.group, law=law, at_s=when,
                what="wrongly stopped" if stopped else "wrongly let pass",
                clip=clip(own, when, signals),
            )
        )  # fmt: skip
    return found


def clip(past: Past, at_s: float, signals: Sequence[str]) -> Clip:
    """Returns the frames around a moment, thinned if there are too many."""
    import numpy as np

    times = past.run.times()
    near = np.flatnonzero(np.abs(times - at_s) <= CLIP_S)
    if near.size > CLIP_FRAMES:
        picked = np.linspace(0, near.size - 1, CLIP_FRAMES).round().astype(int)
        near = near[picked]
    known = past.run.signals
    return Clip(
        times_s=[round(float(each), 3) for each in times[near]],
        signals={
            name: [_plain(value) for value in known[name][near].tolist()]
            for name in signals
            if name in known
        },
    )


def _plain(value: Any) -> Any:
    """Converts a value to JSON; NaN becomes null."""
    if isinstance(value, float):
        return round(value, 3) if value - value == 0 else None
    return value
