"""The table in the form of ProbGuard's Table 1, and the figures that this form omits.

The columns are the mean and maximum lead time to the violation, for P_safe below 0.3,
0.5 and 0.7 (risks above 0.7, 0.5 and 0.3) and for REDriver's robustness below 0.4, 0.8
and 1.2. Any warning before the violation counts, even after the trigger or at the first
frame, and clean runs are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from forewarn.monitors.evaluation.warned import Warned, WarnedRun

BASELINES = ("paper", "redriver")
"""The baselines in the paper's table; the guard has rows too."""

RISKS = (0.7, 0.5, 0.3)

_FIRST_S = 0.15  # an earlier alarm counts as raised at the first frame


Cell = Mapping[str, Any]
"""One cell of the paper's table: a method at a threshold, as JSON."""


def cell(way: str, law: str, threshold: str, warned: Warned) -> dict[str, Any]:
    """Computes one cell of the paper's table, with the figures that the table omits.

    Two counts cover the runs with an alarm before the violation. In
    `at_or_after_trigger` of these runs, the first alarm came at the trigger or later;
    in `at_first_frame` of them, it came at the first frame.
    """
    early = [run for run in warned.violating if _ahead(run) > 0.0]
    ahead_s = [_ahead(run) for run in early]
    at_once = (run.alarm_s is not None and run.alarm_s < _FIRST_S for run in early)
    return {
        "way": way,
        "law": law,
        "threshold": threshold,
        "violating": len(warned.violating),
        "warned": len(early),
        "mean_s": float(np.mean(ahead_s)) if early else None,
        "max_s": max(ahead_s, default=None),
        "at_or_after_trigger": sum(not run.detected for run in early),
        "at_first_frame": sum(at_once),
        "false_alarm_rate": warned.false_alarm_rate,
    }


def _ahead(run: WarnedRun) -> float:
    if run.broken is None or run.alarm_s is None:
        return 0.0
    return run.broken.time_s - run.alarm_s


def paper_table(
    rows: Sequence[tuple[str, str, float, Warned]],
) -> list[Cell]:
    """Returns the cells of the paper's table, sorted by law, method and threshold.

    Args:
        rows: Methods with a law, a threshold and the evaluated runs.
    """
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
    """Yields a sentence per cell with the facts that the paper's table omits."""
    for each in cells:
        warned, said = each["warned"], list[str]()
        if not warned:
            continue
        if (alarms := each["false_alarm_rate"]) is not None:
            said.append(f"{alarms:.0%} of the clean runs had an alarm")
        if blind := each["at_or_after_trigger"]:
            said.append(
                f"{blind} of {warned} warnings came at the trigger or after it, so"
                " their lead time only reflects the law's deadline"
            )
        if at_once := each["at_first_frame"]:
            said.append(f"{at_once} of {warned} warnings came at the first frame")
        if missed := each["violating"] - warned:
            said.append(
                f"{missed} violations had no warning and are not included in the mean"
            )
        if said:
            name = f"{each['way']}, {each['law']}, {each['threshold']}"
            yield f"{name}: {'; '.join(said)}."
