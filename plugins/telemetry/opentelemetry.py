"""OpenTelemetry: a span an episode, an event a change of decision, and metrics.

Only the API is used. Where the spans go is for whoever runs the program to say, for
instance with `opentelemetry-instrument forewarn run …`; without that they go nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from forewarn import __version__
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision


def is_installed() -> bool:
    """Whether the API is there: the extra `otel`."""
    try:
        return find_spec("opentelemetry.metrics") is not None
    except ModuleNotFoundError:
        return False


class OpenTelemetry:
    """Observes a guard, and the episodes that it guards where there are any.

    What fails in here stays in here: a guard does not stop for its telemetry.
    """

    def __init__(self) -> None:
        from opentelemetry import metrics, trace

        meter = metrics.get_meter("forewarn", __version__)
        self._tracer = trace.get_tracer("forewarn", __version__)
        self._failed = trace.StatusCode.ERROR
        self._reviews = meter.create_counter(
            "forewarn.reviews", "{review}", "Frames that a guard has judged."
        )
        self._violations = meter.create_counter(
            "forewarn.violations", "{violation}", "Laws that were broken."
        )
        self._risk = meter.create_histogram(
            "forewarn.risk", "1", "The highest risk of a frame, by the law at risk."
        )
        self._span: Any = None
        self._last: tuple[str, str] = ("proceed", "")
        self.failures = 0

    def began(self, scenario: str, seed: int) -> None:
        """An episode begins."""
        self._last = ("proceed", "")
        facts: dict[str, Any] = {"forewarn.scenario": scenario, "forewarn.seed": seed}
        try:
            self._span = self._tracer.start_span("forewarn.episode", attributes=facts)
        except Exception:
            self.failures += 1

    def reviewed(
        self, frame: Frame, proposal: Action | None, decision: Decision, *_: object
    ) -> None:
        """A frame was judged; the guard calls this."""
        try:
            self._review(decision)
        except Exception:
            self.failures += 1

    def _review(self, decision: Decision) -> None:
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
        # Which law is the worst is news only while something is done about it.
        about = decision.kind, "" if decision.kind == "proceed" else decision.law
        if about != self._last and self._span is not None:
            self._span.add_event("decision", facts)
        self._last = about

    def ended(self, facts: Mapping[str, Any]) -> None:
        """An episode is over: what its JSON says of it."""
        span, self._span = self._span, None
        if span is None:
            return
        try:
            span.set_attribute("forewarn.ended", facts["ended"])
            span.set_attribute("forewarn.mode", facts["mode"])
            span.set_attribute("forewarn.frames", facts["frames"])
            for broken in facts["violations"]:
                span.add_event(
                    "violation", {f"forewarn.{k}": v for k, v in broken.items()}
                )
                self._violations.add(1, {"law": broken["law"]})
            if facts["error"]:
                span.set_status(self._failed, facts["error"])
            span.end()
        except Exception:
            self.failures += 1
