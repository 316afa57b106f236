"""The certificate as an HTML page and as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from forewarn.abstractions.files import atomic_text
from forewarn.monitors.guarding.certificate import (
    PAGE,
    Certificate,
    OverGroups,
    Wrong,
    counted,
)
from forewarn.scenarios.report.drawing import Markup, asset, document, joined, tag
from forewarn.scenarios.report.tables import table

SHOWN_DIGITS = 12


def write_page(folder: Path, certificate: Certificate) -> None:
    """Writes the page into the folder of the guard; equal input gives equal bytes."""
    with atomic_text(folder / PAGE) as out:
        out.write(render(certificate))


def sentences(certificate: Certificate) -> Iterator[str]:
    """Yields the guarantees in sentences."""
    yield (
        f"With {certificate.confidence:.0%} confidence, all of this holds "
        "simultaneously for future runs:"
    )
    for each in certificate.guarantees:
        yield f"  {each.sentence()}"
    yield from cautions(certificate)


def cautions(certificate: Certificate) -> Iterator[str]:
    """Yields sentences about the rates for a new group, if groups differ."""
    for each in certificate.differ():
        yield (
            f"Groups differ ({certificate.group}, p = {each.alike:.2g}): for a "
            f"new {certificate.group}, rely on {_over(each)}."
        )


def _over(each: OverGroups) -> str:
    kind = "of its clean runs with an alarm"
    if each.rate == "missed":
        kind = "of its violating runs missed"
    return (
        f"at most {each.bound:.2f} {kind} on average over groups"
        f" ({each.groups} groups, {each.mean:.2f} on average)"
    )


def render(certificate: Certificate) -> str:
    """Returns the HTML of the page."""
    title = f"Certificate: {', '.join(certificate.laws)}"
    sections: tuple[tuple[str, Iterator[Markup]], ...] = (
        ("Guarantees", _guarantees(certificate)),
        ("Runs", _runs(certificate)),
        ("Shadow report", _shadow(certificate)),
        ("Revocation", _end(certificate)),
    )
    if certificate.kept is not None:  # it is not based on logs
        sections = (
            ("Interventions", _thresholds(certificate)),
            ("Revocation", _end(certificate)),
        )
    body = (
        tag("header", tag("h1", title), *_lead(certificate)),
        tag(
            "main",
            *(tag("section", tag("h2", name), *parts) for name, parts in sections),
        ),
        tag("footer", tag("p", f"Made by {certificate.made_by}.")),
    )
    text, _ = document(title, joined(*body), styles=[asset("page.css")], scripts=[])
    return text


def _lead(certificate: Certificate) -> Iterator[Markup]:
    lead = (
        f"With {certificate.confidence:.0%} confidence, all guarantees below hold "
        "simultaneously for future runs."
    )
    kept = certificate.kept
    yield tag("p", lead if kept is None else kept.sentence(), class_="lead")
    for text in cautions(certificate):
        yield tag("p", text, class_="note")


def _guarantees(certificate: Certificate) -> Iterator[Markup]:
    rows = [
        (
            each.law,
            "clean runs with an alarm"
            if each.rate == "false_alarms"
            else "violating runs missed",
            f"{each.most:g}",
            f"{each.failures} of {each.runs}",
            f"{each.bound:.3f}",
        )
        for each in certificate.guarantees
    ]
    head = ("law", "rate", "guaranteed, at most", "in these runs", "upper bound")
    yield table(head, rows)
    yield tag("p", certificate.assumption)
    rates = [
        (each.law, f"{each.violating} of {each.runs}")
        for each in certificate.base_rates
    ]
    yield tag("p", "How often each law is broken in these runs (the base rate):")
    yield table(("law", "violating runs"), rates)
    yield from _thresholds(certificate)
    if certificate.over_groups:
        yield tag(
            "p",
            f"Over groups ({certificate.group}), each counted once, with the same"
            " confidence:",
        )
        yield table(
            ("law", "groups", "mean rate", "upper bound", "p-value (groups alike)"),
            [
                (
                    f"{each.law}, {each.rate.replace('_', ' ')}",
                    each.groups,
                    f"{each.mean:.3f}",
                    f"{each.bound:.3f}",
                    f"{each.alike:.2g}",
                )
                for each in certificate.over_groups
            ],
        )


def _thresholds(certificate: Certificate) -> Iterator[Markup]:
    at = [
        (law, "the law alone" if at is None else f"{at:g}")
        for law, at in certificate.laws.items()
    ]
    does = "warns" if certificate.kept is None else "first intervenes or warns"
    yield tag("p", f"When the guard {does}:")
    yield table(("law", "threshold"), at)
    if certificate.horizon_s is not None:
        yield tag("p", f"The prediction horizon is {certificate.horizon_s:g} s.")


def _runs(certificate: Certificate) -> Iterator[Markup]:
    counts = counted(certificate.runs)
    yield tag("p", "; ".join(f"{name}: {n} runs" for name, n in counts.items()) + ".")
    for use, runs in certificate.runs.items():
        rows = [(name, digest[:SHOWN_DIGITS]) for name, digest in runs.items()]
        yield tag(
            "details",
            tag("summary", f"{use} ({len(rows)})"),
            table(("run", "SHA-256"), rows),
            class_="fold",
        )


def _shadow(certificate: Certificate) -> Iterator[Markup]:
    judged = counted(certificate.runs)["certificate"]
    wrong = len(certificate.shadow)
    yield tag(
        "p",
        f"The {judged} runs of the certificate were replayed with the guard. It "
        f"was wrong in {wrong or 'none'} of them{':' if wrong else '.'}",
    )
    for each in certificate.shadow:
        yield tag(
            "details",
            tag("summary", _headline(each, certificate.group)),
            _clip(each),
            class_="fold",
        )


def _headline(wrong: Wrong, group: str) -> str:
    of = f" ({group} {wrong.group})" if group else ""
    return f"{wrong.run}{of}: {wrong.what}, at {wrong.at_s:g} s, by {wrong.law}"


def _clip(wrong: Wrong) -> Markup:
    clip = wrong.clip
    head = ("time (s)", *(f"{time:g}" for time in clip.times_s))
    rows = [
        (name, *("none" if value is None else str(value) for value in values))
        for name, values in clip.signals.items()
    ]
    return table(head, rows)


def _end(certificate: Certificate) -> Iterator[Markup]:
    yield tag(
        "p",
        "The certificate covers only the files named below: nothing is guaranteed "
        "with a different model or different thresholds.",
    )
    when = (
        "a rate exceeds the guaranteed one, if the law is broken more often than in "
        "these runs, or if more runs have an alarm"
    )
    if certificate.kept is not None:
        when = "more runs break a law than guaranteed while the guard intervenes"
    yield tag(
        "p",
        "While the guard is in use, every run is counted. The certificate is "
        f"revoked if {when}. If nothing changes, the probability of a revocation is at "
        "most 1 %, however long the guard is used.",
    )
    rows = [(name, digest[:SHOWN_DIGITS]) for name, digest in certificate.guard.items()]
    yield table(("file", "SHA-256"), rows)
