"""Clips for the shadow report: the moments at which a guard would have been wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.monitors.guarding.certificate import Clip
from forewarn.scenarios.warrant.runs import LoggedRun, PastCalls

CLIP_S = 3.0
"""The length of a clip in seconds, both before and after the decisive moment."""

CLIP_FRAMES = 13

AROUND = 3
"""The number of calls to show before and after the decisive one."""

SHOWN_CHARACTERS = 200


def clip(past: LoggedRun, at_s: float, signals: Sequence[str]) -> Clip:
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


def clip_of_calls(past: PastCalls, at_s: float) -> tuple[float, Clip]:
    """Returns the number of the decisive call, and the calls around it."""
    calls = past.run.calls
    when = min(int(at_s), len(calls) - 1)
    near = range(max(0, when - AROUND), min(len(calls), when + AROUND + 1))
    return float(when), Clip(
        times_s=[float(number) for number in near],
        signals={
            "tool": [calls[n].tool for n in near],
            "failed": [calls[n].failed for n in near],
            "arguments": [_short(calls[n].arguments) for n in near],
        },
    )


def _short(arguments: Mapping[str, object]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def _plain(value: Any) -> Any:
    """Converts a value to JSON; NaN becomes null."""
    if isinstance(value, float):
        return round(value, 3) if value - value == 0 else None
    return value
