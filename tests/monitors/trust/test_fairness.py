"""The report on whether a chain is a fair picture."""

from __future__ import annotations

import json

from forewarn.monitors.evaluation.foretold import reliability
from forewarn.monitors.trust.fairness import FairnessReport


def judged(risk: float) -> FairnessReport:
    """The report on a law that is never broken, whatever the risk."""
    return FairnessReport({"a law": reliability([[risk] * 20] * 10, [[0] * 20] * 10)})


def test_held_out_risks_are_judged() -> None:
    report = judged(0.9)
    assert report.reliability["a law"].base_rate == 0 and not report.fair
    assert any("was 0.90, a violation followed in 0.00" in s for s in report.warnings())
    assert report.verdict().startswith("The chain does not represent the traces well: ")


def test_the_report_as_json() -> None:
    report = judged(0.1)
    content = report.as_dict()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["fair"] is True
    assert content["warnings"] == list(report.warnings()) == []
    assert report.verdict().endswith(
        "the risk of breaking a law agrees with the outcomes."
    )


def test_insufficient_data_is_reported() -> None:
    report = FairnessReport({})
    assert report.fair
    assert report.verdict().endswith("this needs a law and at least 10 traces.")
