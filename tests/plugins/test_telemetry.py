"""Telemetry, for real: spans and metrics of the SDK."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forewarn.abstractions.frame import Frame, Source
from forewarn.monitors.guarding.decision import Decision, Kind, Risk
from forewarn.monitors.guarding.listening import Run
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.telemetry import OpenTelemetry, is_installed

FACTS: dict[str, Any] = {
    "seed": 7,
    "mode": "guarded",
    "ended": "over",
    "error": None,
    "frames": 3,
    "decisions": {"proceed": 2, "stop": 1},
    "unknown": 1,
    "violations": [{"law": "no_collision", "time_s": 2.0, "since_s": 2.0}],
    "alarms": [{"law": 'a "law"\\\n', "time_s": 1.0, "decision": "stop"}],
    "interventions": [{"kind": "stop"}],
    "machine": {"review_s": 0.25, "longest_review_s": 0.2},
}


def decision(kind: Kind, law: str = "no_collision", at: float = 0.0) -> Decision:
    return Decision(kind, 0, at, law, Risk(0.1, 0.5, 0.9), "because")


# -- OpenTelemetry ---------------------------------------------------------------------


@pytest.fixture(scope="session")
def sdk() -> Any:
    """The SDK as a program sets it up, keeping everything in memory."""
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is missing")
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    return spans, reader


def points(reader: Any) -> dict[str, Any]:
    """The metrics by name and attributes: the sums, or counts of a histogram."""
    found: dict[str, Any] = {}
    for resource in reader.get_metrics_data().resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    labels = ",".join(map(str, point.attributes.values()))
                    value = getattr(point, "value", None)
                    found[f"{metric.name} {labels}"] = (
                        point.count if value is None else value
                    )
    return found


TINY = Run("tiny-road, seed 7", Source("tiny"), None, Policy(), None, "tiny-road", 7)


def test_an_episode_is_a_span_with_its_changes_of_decision(sdk: Any) -> None:
    assert is_installed()
    spans, reader = sdk
    spans.clear()
    watcher = OpenTelemetry()
    frame = Frame(0.0, 0, {})
    watcher.began(TINY)
    for at, kind in enumerate(("proceed", "stop", "stop", "proceed")):
        said = decision(kind, at=float(at))  # type: ignore[arg-type]
        watcher.reviewed(frame, None, said, ())
    watcher.ended(FACTS)
    (span,) = spans.get_finished_spans()
    assert span.name == "forewarn.episode"
    assert span.attributes["forewarn.scenario"] == "tiny-road"
    assert span.attributes["forewarn.seed"] == 7
    assert span.attributes["forewarn.ended"] == "over"
    told = [(e.name, e.attributes.get("forewarn.decision")) for e in span.events]
    assert told == [
        ("decision", "stop"),
        ("decision", "proceed"),
        ("violation", None),
    ]
    assert span.events[0].attributes["forewarn.risk"] == 0.5
    found = points(reader)
    assert found["forewarn.reviews stop"] == 2
    assert found["forewarn.reviews proceed"] == 2
    assert found["forewarn.violations no_collision"] == 1
    assert found["forewarn.risk no_collision"] == 4
    assert watcher.failures == 0


def test_a_failed_episode_is_an_error(sdk: Any) -> None:
    spans, _ = sdk
    spans.clear()
    watcher = OpenTelemetry()
    watcher.began(TINY)
    watcher.ended({**FACTS, "error": "the bridge fell in", "ended": "failed"})
    (span,) = spans.get_finished_spans()
    assert not span.status.is_ok
    assert span.status.description == "the bridge fell in"


def test_a_guard_without_episodes_has_metrics_only(sdk: Any) -> None:
    spans, _ = sdk
    spans.clear()
    watcher = OpenTelemetry()
    fault = replace(decision("stop"), risk=None, law="")
    watcher.reviewed(Frame(0.0, 0, {}), None, fault, ())
    watcher.ended(FACTS)
    assert spans.get_finished_spans() == ()
    assert watcher.failures == 0


def test_failing_telemetry_does_not_disturb_the_guard(
    sdk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the collector is down")

    watcher = OpenTelemetry()
    for counter in (watcher._reviews, watcher._violations):
        monkeypatch.setattr(counter, "add", fail)
    watcher.began(TINY)
    watcher.reviewed(Frame(0.0, 0, {}), None, decision("stop"), ())
    watcher.ended(FACTS)
    assert watcher.failures == 2
