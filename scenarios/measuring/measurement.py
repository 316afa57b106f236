"""What was measured: a row a law and threshold, and all that stands beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forewarn.monitors.guarding.drift import Drift
from forewarn.monitors.guarding.policy import Step
from forewarn.monitors.risk.promise import Promise
from forewarn.monitors.trust.reliability import Reliability
from forewarn.scenarios.measuring.paper_table import Cell
from forewarn.scenarios.measuring.warning_times import Warned
from forewarn.scenarios.running.episode import Episode


@dataclass(frozen=True, slots=True)
class LawRow:
    """One law at one threshold, over all runs.

    Args:
        law: Its name.
        horizon_s: H of the guard's risk.
        step: The threshold.
        warned: How early and how often it warned.
        calibration: Of the guard's risk; None if no frame had one.
        brier_interval: The bootstrap interval of the Brier score, over runs.
        initial_risk: The mean risk at the first frame.
        promise: What the policy promises of this threshold, if it does.
    """

    law: str
    horizon_s: float
    step: Step
    warned: Warned
    calibration: Reliability | None
    brier_interval: tuple[float, float] | None
    initial_risk: float | None
    promise: Promise | None = None

    def as_dict(self) -> dict[str, Any]:
        found = self.warned.as_dict(self.horizon_s)
        known = self.calibration
        found["intervals"]["brier"] = self.brier_interval
        return {
            "law": self.law,
            "horizon_s": self.horizon_s,
            "threshold": self.step.threshold,
            **found,
            "brier": None if known is None else known.brier,
            "brier_of_base_rate": None if known is None else known.reference,
            "initial_risk": self.initial_risk,
            "promise": None if self.promise is None else self.promise.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Measurement:
    """All that was measured of a scenario.

    Args:
        scenario: Its name.
        horizon_s: H of the guard's risk.
        episodes: The runs in which the guard only watched.
        rows: A row a law and threshold.
        baselines: The same of other methods, by name.
        skipped: For each baseline, the laws that it cannot judge, and why.
        curves: For each way to warn, `guard` and the baselines, and each law points of
            its trade-off; empty if they were not asked for.
        paper: The cells of the paper's own table, if they were asked for.
        guarded: The same seeds with the guard acting; None if they were not run.
        drift: Whether the runs fit the model's counts.
        only_alerts: The laws of which the policy alerts, and about which it does
            nothing.
        acts: Whether it does more than alert, of any law.
    """

    scenario: str
    horizon_s: float
    episodes: tuple[Episode, ...]
    rows: tuple[LawRow, ...]
    baselines: Mapping[str, tuple[tuple[str, float, Warned], ...]]
    skipped: Mapping[str, Mapping[str, str]]
    curves: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]] = field(
        default_factory=dict
    )
    paper: tuple[Cell, ...] = ()
    guarded: Mapping[str, Any] | None = None
    drift: Drift | None = None
    only_alerts: tuple[str, ...] = ()
    acts: bool = True

    def as_dict(self) -> dict[str, Any]:
        failed = [episode for episode in self.episodes if episode.failed]
        return {
            "scenario": self.scenario,
            "laws": [row.as_dict() for row in self.rows],
            "baselines": {
                name: {
                    "laws": [
                        {
                            "law": law,
                            "threshold": threshold,
                            **warned.as_dict(self.horizon_s),
                        }
                        for law, threshold, warned in rows
                    ],
                    "skipped": dict(self.skipped.get(name, {})),
                }
                for name, rows in self.baselines.items()
            },
            "guarded": self.guarded,
            "only_alerts": list(self.only_alerts),
            "acts": self.acts,
            "trade_off": {way: dict(laws) for way, laws in self.curves.items()},
            "paper_table": [each.as_dict() for each in self.paper],
            "episodes": len(self.episodes),
            "failed": len(failed),
            "errors": sorted({episode.error or "" for episode in failed})[:10],
            "seeds": [episode.seed for episode in self.episodes],
            "frames": sum(episode.frames for episode in self.episodes),
            "unknown": sum(episode.unknown for episode in self.episodes),
            "reliability": {
                row.law: row.calibration.as_dict()
                for row in self.rows
                if row.calibration is not None
            },
            "drift": None if self.drift is None else dict(self.drift.as_dict()),
        }
