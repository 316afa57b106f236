"""Telemetry, for real: spans and metrics of the SDK, and Prometheus' text."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.frame import Frame, Source
from forewarn.monitors.guarding.decision import Decision, Kind, Risk
from forewarn.monitors.guarding.listening import Run
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.telemetry import OpenTelemetry, PrometheusFile, is_installed

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


def test_what_fails_in_telemetry_does_not_reach_the_guard(
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


# -- Prometheus ------------------------------------------------------------------------

LINE = re.compile(
    r'^[a-z_]+\{([a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\} -?[0-9.e+-]+$', re.ASCII
)


def test_counts_are_written_in_prometheus_text(tmp_path: Path) -> None:
    path = tmp_path / "forewarn.prom"
    counts = PrometheusFile(path)
    counts.add("tiny-road", FACTS)
    counts.add("tiny-road", {**FACTS, "error": "lost"})
    counts.write()
    lines = path.read_text().splitlines()
    told = {}
    for line in lines:
        if line.startswith("#"):
            assert re.match(r"# (HELP|TYPE) forewarn_[a-z_]+ .", line)
            continue
        assert LINE.match(line), line
        name, _, value = line.rpartition(" ")
        told[name] = float(value)
    here = 'scenario="tiny-road"'
    ended = f'{{{here},mode="guarded",result="ended"}}'
    assert told[f"forewarn_episodes_total{ended}"] == 1
    assert told[f'forewarn_reviews_total{{{here},decision="proceed"}}'] == 4
    assert told[f'forewarn_violations_total{{{here},law="no_collision"}}'] == 2
    assert told[f"forewarn_review_seconds_sum{{{here}}}"] == 0.5
    assert told[f"forewarn_review_seconds_count{{{here}}}"] == 6
    assert told[f"forewarn_review_longest_seconds{{{here}}}"] == 0.2
    assert any(r"a \"law\"\\\n" in name for name in told)


def test_the_file_is_written_again_only_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    path = tmp_path / "x.prom"
    counts = PrometheusFile(path, every_s=5.0)
    counts.add("a", FACTS)
    first = path.read_text()
    counts.add("a", FACTS)
    assert path.read_text() == first
    now[0] += 5.0
    counts.add("a", FACTS)
    assert path.read_text() != first


def test_episodes_without_a_guard_count_too(tmp_path: Path) -> None:
    counts = PrometheusFile(tmp_path / "x.prom")
    counts.add("a", {**FACTS, "decisions": {}, "machine": {"wall_s": 1.0}})
    assert "review" not in counts.text()
