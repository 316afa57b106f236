"""Exports telemetry to OpenTelemetry.

OpenTelemetry receives one span per episode, one event per change of decision, and
metrics. Only the OpenTelemetry API is used. The user configures where spans are sent,
for example with `opentelemetry-instrument forewarn run …`; otherwise, they are
discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from forewarn import __version__
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
