"""Exports telemetry to OpenTelemetry and Prometheus.

OpenTelemetry receives one span per episode, one event per change of decision, and
metrics. Only the OpenTelemetry API is used. The user configures where spans are sent,
for example with `opentelemetry-instrument forewarn run …`; otherwise, they are
discarded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from forewarn import __version__
from forewarn.abstractions.files import atomic_text
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.monitors.guarding.listening import Listener, Run

MOST_BROKEN = 1000
"""The maximum number of violations in the span of a run."""


def is_installed() -> bool:
    """Whether the OpenTelemetry API (the extra `otel`) is installed."""
    try:
        return find_spec("opentelemetry.metrics") is not None
    except ModuleNotFoundError:
        return False


class OpenTelemetry(Listener):
    """Reports each run as a span with its decisions as events, and counts reviews.

    Failures of telemetry never stop a guard.
    """

    def __init__(self) -> None:
        from opentelemetry import metrics, trace

        meter = metrics.get_meter("forewarn", __version__)
        self._tracer = trace.get_tracer("forewarn", __version__)
        self._failed = trace.StatusCode.ERROR
        self._reviews = meter.create_counter(
            "forewarn.reviews", "{review}", "Frames that a guard has reviewed."
        )
        self._violations = meter.create_counter(
            "forewarn.violations", "{violation}", "Violations of laws."
        )
        self._risk = meter.create_histogram(
            "forewarn.risk", "1", "The highest risk in a frame, by law."
        )
        self._span: Any = None
        self._last: tuple[str, str] = ("proceed", "")
        self.frames, self._mode = 0, "unguarded"
        self._broken: list[dict[str, Any]] = []
        self.failures = 0

    @property
    def open(self) -> bool:
        """Whether a run is in progress."""
        return self._span is not None

    def began(self, run: Run) -> None:
        self._last, self.frames, self._broken = ("proceed", ""), 0, []
        if run.policy is not None:
            self._mode = "shadow" if run.policy.shadow else "guarded"
        facts: dict[str, Any] = {"forewarn.scenario": run.scenario or run.name}
        if run.seed is not None:
            facts["forewarn.seed"] = run.seed
        try:
            self._span = self._tracer.start_span("forewarn.episode", attributes=facts)
        except Exception:
            self.failures += 1

    def reviewed(
        self, frame: Frame, proposal: Action | None, decision: Decision, *_: object
    ) -> None:
        try:
            self._review(decision)
        except Exception:
            self.failures += 1

    def _review(self, decision: Decision) -> None:
        self.frames += 1
        if len(self._broken) < MOST_BROKEN:
            at_s = decision.time_s
            self._broken += [{"law": law, "time_s": at_s} for law in decision.violated]
        self._reviews.add(1, {"decision": decision.kind})
        facts: dict[str, Any] = {
            "forewarn.decision": decision.kind,
            "forewarn.law": decision.law,
            "forewarn.time_s": decision.time_s,
            "forewarn.reason": decision.reason,
        }
        if decision.risk is not None:
            self._risk.record(decision.risk.point, {"law": decision.law})
            facts["forewarn.risk"] = decision.risk.point
        # A change of the law at risk is an event only during an intervention.
        about = decision.kind, "" if decision.kind == "proceed" else decision.law
        if about != self._last and self._span is not None:
            self._span.add_event("decision", facts)
        self._last = about

    def ended(self, facts: Mapping[str, Any]) -> None:
        span, self._span = self._span, None
        if span is None:
            return
        try:
            span.set_attribute("forewarn.ended", facts["ended"])
            span.set_attribute("forewarn.mode", self._mode)
            span.set_attribute("forewarn.frames", facts.get("frames", self.frames))
            for broken in facts.get("violations", self._broken):
                span.add_event(
                    "violation", {f"forewarn.{k}": v for k, v in broken.items()}
                )
                self._violations.add(1, {"law": broken["law"]})
            if facts.get("error"):
                span.set_status(self._failed, facts["error"])
            span.end()
        except Exception:
            self.failures += 1


_Labels = tuple[tuple[str, str], ...]

_HELP: dict[str, tuple[Literal["counter", "gauge", "summary"], str]] = {
    "forewarn_episodes_total": ("counter", "Episodes by result."),
    "forewarn_frames_total": ("counter", "Frames."),
    "forewarn_reviews_total": ("counter", "Frames that the guard has reviewed."),
    "forewarn_alarms_total": ("counter", "Alarms that began."),
    "forewarn_interventions_total": ("counter", "Interventions that began."),
    "forewarn_violations_total": ("counter", "Violations of laws."),
    "forewarn_unknown_states_total": (
        "counter",
        "Frames in states that never occurred in training.",
    ),
    "forewarn_review_seconds": ("summary", "Duration of reviews in seconds."),
    "forewarn_review_longest_seconds": (
        "gauge",
        "Duration of the longest review in seconds.",
    ),
}


class PrometheusFile:
    """Counts facts about episodes, and writes the counts to a file every few seconds.

    Args:
        path: The file, whose name by convention ends in `.prom`.
        every_s: The minimum time between automatic writes in seconds.
    """

    def __init__(self, path: Path, every_s: float = 5.0) -> None:
        self._path, self._every_s = path, every_s
        self._values: dict[str, dict[_Labels, float]] = {name: {} for name in _HELP}
        self._written_s = -math.inf

    def add(self, scenario: str, facts: Mapping[str, Any]) -> None:
        """Counts an episode, given its JSON report."""
        here = ("scenario", scenario)
        result = "failed" if facts["error"] else "ended"
        mode = ("mode", str(facts["mode"]))
        self._count("forewarn_episodes_total", 1, here, mode, ("result", result))
        self._count("forewarn_frames_total", facts["frames"], here)
        for decision, times in facts["decisions"].items():
            self._count("forewarn_reviews_total", times, here, ("decision", decision))
        for alarm in facts["alarms"]:
            law, decision = ("law", alarm["law"]), ("decision", alarm["decision"])
            self._count("forewarn_alarms_total", 1, here, law, decision)
        for each in facts["interventions"]:
            kind = ("kind", each["kind"])
            self._count("forewarn_interventions_total", 1, here, kind)
        for broken in facts["violations"]:
            law = ("law", broken["law"])
            self._count("forewarn_violations_total", 1, here, law)
        self._count("forewarn_unknown_states_total", facts["unknown"], here)
        self._time(facts, here)
        if time.monotonic() - self._written_s >= self._every_s:
            self.write()

    def _time(self, facts: Mapping[str, Any], here: tuple[str, str]) -> None:
        machine = facts["machine"]
        if "review_s" not in machine:
            return
        name = "forewarn_review_seconds"
        reviews = sum(facts["decisions"].values())
        self._count(name, machine["review_s"], here, ("", "sum"))
        self._count(name, reviews, here, ("", "count"))
        longest = self._values["forewarn_review_longest_seconds"]
        longest[(here,)] = max(longest.get((here,), 0.0), machine["longest_review_s"])

    def _count(self, name: str, by: float, *labels: tuple[str, str]) -> None:
        counts = self._values[name]
        counts[labels] = counts.get(labels, 0) + by

    def write(self) -> None:
        """Writes the file atomically."""
        self._written_s = time.monotonic()
        with atomic_text(self._path) as out:
            out.write(self.text())

    def text(self) -> str:
        """Returns all counts in the text format of Prometheus."""
        lines: list[str] = []
        for name, values in self._values.items():
            if not values:
                continue
            kind, doc = _HELP[name]
            lines += [f"# HELP {name} {doc}", f"# TYPE {name} {kind}"]
            for labels, value in sorted(values.items()):
                # A label without a name is the suffix of the metric's name, as
                # summaries need it.
                suffix = "".join(f"_{text}" for key, text in labels if not key)
                shown = ",".join(f'{key}="{_escaped(t)}"' for key, t in labels if key)
                lines.append(f"{name}{suffix}{{{shown}}} {value}")
        return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
