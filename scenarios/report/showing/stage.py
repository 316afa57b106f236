"""The stage: one picture or two that move, the controls below, the time line beside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forewarn.scenarios.report.markup import Markup, joined, tag
from forewarn.scenarios.report.runs import Run

PACES = (0.25, 0.5, 1, 2, 4)


def stage(
    runs: Sequence[Run], story: Iterable[str], sides: Sequence[str] = ()
) -> Markup:
    """Where a run is seen, or two of them side by side.

    Args:
        runs: One, or two.
        story: What it comes to, in sentences.
        sides: What two are called.
    """
    names = sides or ("",) * len(runs)
    shows = joined(*(view(r, name) for r, name in zip(runs, names, strict=True)))
    kind = "stage both" if len(runs) > 1 else "stage"
    return tag(
        "div",
        shows,
        controls(min(r.times_s[0] for r in runs), max(r.times_s[-1] for r in runs)),
        tag("div", *(tag("p", text) for text in story), class_="told"),
        tag("div", tag("div", class_="curves"), key(runs[-1], len(runs) > 1),
            class_="line"),
        class_=kind,
        tabindex=0,
        role="group",
        aria_label="The run: space plays, arrows step, Home and End jump.",
    )  # fmt: skip


def view(run: Run, side: str = "") -> Markup:
    """A picture, with what is told of its moment; or why there is none."""
    if run.scenery is None:
        inside = joined(tag("p", run.unseen, class_="unseen note"))
    else:
        seen = f"The run from above{f', {side.lower()}' if side else ''}"
        inside = joined(
            tag("canvas", role="img", aria_label=seen),
            tag("p", class_="hud"),
            tag("p", run.scenery.problem, class_="note") if run.scenery.problem
            else None,
        )  # fmt: skip
    kind = "view" if run.scenery is not None else "view none"
    return tag("div", tag("p", side, class_="side") if side else None, inside,
               class_=kind)  # fmt: skip


def controls(begin: float, end: float) -> Markup:
    """Play, the place in time, the pace."""
    return tag(
        "div",
        tag("button", "Play", type="button", class_="play"),
        tag("input", type="range", min=begin, max=end, step="any", value=begin,
            aria_label="Time in the run"),
        tag("output", f"{begin:.1f} s"),
        tag(
            "select",
            *(
                tag("option", f"{pace:g}×", value=pace, selected=pace == 1)
                for pace in PACES
            ),
            aria_label="Pace",
        ),
        class_="controls",
    )  # fmt: skip


def key(run: Run, both: bool) -> Markup:
    """What the lines and shades of the time line are."""
    bounded = any(
        r is not None and r.high > r.low for law in run.laws for r in law.risks
    )
    with_it = ", with the guard" if both and run.mode == "guarded" else ""
    entries = [("k-risk", f"risk within {run.horizon_s:g} s{with_it}")]
    if bounded:
        entries.append(("k-band", "its bounds"))
    if any(r is not None and r.likely for law in run.laws for r in law.risks):
        entries.append(("k-likely", "where it likely lies"))
    if both:
        entries.append(("k-ghost", "the other run"))
    entries.append(("k-threshold", "threshold"))
    if any(law.owes_later for law in run.laws):
        entries.append(("k-pending", "something is owed"))
    return tag(
        "ul",
        *(tag("li", tag("b", class_=kind), words) for kind, words in entries),
        class_="key",
    )


def dialog() -> Markup:
    """Where a card of a gallery is played large; the script fills it."""
    return tag(
        "dialog",
        tag("button", "Close", type="button", class_="close"),
        tag("h2"),
        tag(
            "div",
            tag(
                "div",
                tag("canvas", role="img", aria_label="The run from above"),
                tag("p", class_="hud"),
                class_="view",
            ),
            controls(0.0, 1.0),
            tag("div", tag("div", class_="curves"), class_="line"),
            class_="stage",
            tabindex=0,
            role="group",
            aria_label="The run: space plays, arrows step, Home and End jump.",
        ),
        aria_label="A run of the gallery",
    )
