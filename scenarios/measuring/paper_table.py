"""Table 1 of the paper in its own form, and what that form hides.

Its columns are the mean and greatest advance warning time to the violation, for P_safe
below 0.3, 0.5 and 0.7, which are risks of 0.7, 0.5 and 0.3, and for REDriver's
robustness below 0.4, 0.8 and 1.2. Whatever warned before the violation counts, be it
after the trigger or at the first frame, and nothing is said of runs without violation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forewarn.scenarios.measuring.figures import rate
from forewarn.scenarios.measuring.warning_times import Warned, WarnedRun

BASELINES = ("paper", "redriver")
"""The ways to warn that the table is made of, beside the guard."""

RISKS = (0.7, 0.5, 0.3)

_FIRST_S = 0.15  # an alarm so soon was there from the beginning


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to warn at one threshold, as the paper counts.

    Args:
        way: The way to warn.
        law: The law.
        threshold: As the paper writes it.
        violating: In how many runs the law was broken.
        ahead_s: Of those with an alarm before the violation, how long before.
        blind: In how many of these the first alarm came at the trigger or after it.
        at_once: In how many it came with the first frame.
        clean: How many other runs there were.
        false_alarms: How many of them had an alarm.
    """

    way: str
    law: str
    threshold: str
    violating: int
    ahead_s: tuple[float, ...]
    blind: int
    at_once: int
    clean: int
    false_alarms: int

    def as_dict(self) -> dict[str, Any]:
        return {
            "way": self.way,
            "law": self.law,
            "threshold": self.threshold,
            "violating": self.violating,
            "warned": len(self.ahead_s),
            "mean_s": float(np.mean(self.ahead_s)) if self.ahead_s else None,
            "max_s": max(self.ahead_s, default=None),
            "at_or_after_trigger": self.blind,
            "at_first_frame": self.at_once,
            "false_alarm_rate": rate(self.false_alarms, self.clean),
        }


def cell(way: str, law: str, threshold: str, warned: Warned) -> Cell:
    """What the paper would say of these runs, and what it would not."""
    early = [run for run in warned.violating if _ahead(run) > 0.0]
    return Cell(
        way,
        law,
        threshold,
        len(warned.violating),
        tuple(_ahead(run) for run in early),
        sum(not run.detected for run in early),
        sum(run.alarm_s is not None and run.alarm_s < _FIRST_S for run in early),
        len(warned.clean),
        warned.false_alarms,
    )


def _ahead(run: WarnedRun) -> float:
    if run.broken is None or run.alarm_s is None:
        return 0.0
    return run.broken.time_s - run.alarm_s


def paper_table(
    rows: Sequence[tuple[str, str, float, Warned]],
) -> list[Cell]:
    """The cells, from ways to warn with laws, thresholds and runs."""
    return [
        cell(way, law, _written(way, threshold), warned)
        for way, law, threshold, warned in sorted(rows, key=_order)
        if way == "redriver" or any(abs(threshold - risk) < 1e-9 for risk in RISKS)
    ]


def _order(row: tuple[str, str, float, Warned]) -> tuple[str, int, float]:
    way, law, threshold, _ = row
    return law, ("paper", "redriver", "guard").index(way), -threshold


def _written(way: str, threshold: float) -> str:
    if way == "redriver":
        return f"robustness < {-threshold:g}"
    return f"P_safe < {1.0 - threshold:g}"


def hidden(cells: Sequence[Cell]) -> Iterator[str]:
    """What the table does not say, in sentences."""
    for each in cells:
        if not each.ahead_s:
            continue
        said: list[str] = []
        if each.clean:
            said.append(f"{each.false_alarms} of {each.clean} clean runs had an alarm")
        if each.blind:
            said.append(
                f"{each.blind} of {len(each.ahead_s)} warnings came at the trigger or"
                " after it, so their time is the law's own deadline"
            )
        if each.at_once:
            said.append(
                f"{each.at_once} of {len(each.ahead_s)} came with the first frame"
            )
        missed = each.violating - len(each.ahead_s)
        if missed:
            said.append(f"{missed} violations had none, and no share in the mean")
        if said:
            yield f"{each.way}, {each.law}, {each.threshold}: {'; '.join(said)}."
