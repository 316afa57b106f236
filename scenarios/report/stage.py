"""The interactive view of a run (the stage), and the gallery of a campaign."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarn.abstractions.files import read_text
from forewarn.scenarios.report.drawing import Markup, joined, tag
from forewarn.scenarios.report.film import Window
from forewarn.scenarios.report.runs import RecordedRun, read_run
from forewarn.scenarios.report.sentences import evidence, moment_of, verdict
from forewarn.scenarios.running.episode import Episode

PACES = (0.25, 0.5, 1, 2, 4)


def stage(
    runs: Sequence[RecordedRun], story: Iterable[str], sides: Sequence[str] = ()
) -> Markup:
    """Builds the stage of one run, or of two runs side by side.

    Args:
        runs: One or two runs.
        story: The summary, in sentences.
        sides: The names of the two sides.
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
        aria_label="The run. Space: play or pause; arrows: step; Home, End: jump.",
    )  # fmt: skip


def view(run: RecordedRun, side: str = "") -> Markup:
    """Builds the canvas with the text for the current time, or says why there is no
    picture.
    """
    if run.scenery is None:
        inside = joined(tag("p", run.unseen, class_="unseen note"))
    else:
        how = "as its world renders it" if run.scenery.pictures else "from above"
        seen = f"The run {how}{f', {side.lower()}' if side else ''}"
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
    """Builds the playback controls: play, position, speed."""
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
            aria_label="Speed",
        ),
        class_="controls",
    )  # fmt: skip


def key(run: RecordedRun, both: bool) -> Markup:
    """Builds the legend of the timeline."""
    bounded = any(
        r is not None and r.high > r.low for law in run.laws for r in law.risks
    )
    with_it = ", with the guard" if both and run.mode == "guarded" else ""
    entries = [("k-risk", f"risk within {run.horizon_s:g} s{with_it}")]
    if bounded:
        entries.append(("k-band", "its confidence bounds"))
    if any(r is not None and r.likely for law in run.laws for r in law.risks):
        entries.append(("k-likely", "its likely range"))
    if both:
        entries.append(("k-ghost", "without the guard" if with_it else "the other run"))
    entries.append(("k-threshold", "threshold"))
    if any(law.owes_later for law in run.laws):
        entries.append(("k-pending", "an obligation is pending"))
    if any(foreseen is not None for foreseen in run.foreseen):
        entries.append(("k-foreseen", "risk of the proposed action"))
    return tag(
        "ul",
        *(tag("li", tag("b", class_=kind), words) for kind, words in entries),
        class_="key",
    )


SHOWN = 6
"""The maximum number of cards in each section of the gallery."""
SEARCHED = 300
"""The maximum number of uneventful runs that are searched for near misses."""
BEFORE_S, AFTER_S = 6.0, 4.0
"""The seconds that a card plays before and after the run's most important frame."""

_POINT = re.compile(r'"point":([0-9.e-]+)')
_MARGINS = {
    "time_to_collision": ("time to collision", "s"),
    "arrival_gap": ("arrival gap", "s"),
    "pedestrian_arrival_gap": ("arrival gap to a pedestrian", "s"),
    "lead_distance": ("distance to the vehicle ahead", "m"),
    "pedestrian_distance": ("distance to a pedestrian", "m"),
}


@dataclass(frozen=True, slots=True)
class Card:
    """One run of the gallery.

    Args:
        kind: The card's section of the gallery.
        run: The run that the card plays.
    """

    kind: str
    run: RecordedRun

    @property
    def window(self) -> Window:
        """The part of the run that the card plays."""
        time_s = self.run.times_s[moment_of(self.run)]
        return time_s - BEFORE_S, time_s + AFTER_S


KINDS: Mapping[str, str] = {
    "missed": "Missed: a law was broken without a warning in time",
    "false": "False alarms: a warning, but no violation",
    "broken": "Not prevented: a law was broken although the guard intervened",
    "stepped in": "Interventions: the guard intervened, and no law was broken",
    "near": "Near misses: the highest risks without a warning or a violation",
}


def kind_of(episode: Episode) -> str:
    """Returns the gallery section of an episode; "" if nothing happened."""
    acts = episode.mode == "guarded"
    if episode.failed:
        return "failed"
    if episode.violations:
        late = [
            broken
            for broken in episode.violations
            if not any(
                alarm.law == broken.law and alarm.time_s < broken.since_s
                for alarm in episode.alarms
            )
        ]
        return "broken" if acts else "missed" if late else "warned"
    if episode.alarms:
        return "stepped in" if acts else "false"
    return ""


def gallery(folder: Path, episodes: Sequence[Episode]) -> Iterator[Card]:
    """Yields a card per notable run whose record is in the folder."""
    kept = [
        (each, folder / each.record)
        for each in episodes
        if each.record is not None and (folder / each.record).exists()
    ]
    for kind in list(KINDS)[:-1]:
        chosen = [path for each, path in kept if kind_of(each) == kind]
        yield from (Card(kind, read_run(path)) for path in chosen[:SHOWN])
    calm = [path for each, path in kept if not kind_of(each)][:SEARCHED]
    peaks = sorted(((-_peak(path), path) for path in calm), key=lambda each: each[0])
    yield from (Card("near", read_run(path)) for peak, path in peaks[:SHOWN] if peak)


def _peak(record: Path) -> float:
    """Returns the highest risk in a record."""
    return max(map(float, _POINT.findall(read_text(record))), default=0.0)


# -- on the page ----------------------------------------------------------------------


def wall(cards: Sequence[Card], first: int) -> Markup:
    """Builds the gallery, whose cards a script draws and plays.

    Args:
        cards: All cards.
        first: The index of the first card among the page's cards.
    """
    parts: list[Markup] = []
    for kind, words in KINDS.items():
        mine = [(i, c) for i, c in enumerate(cards, start=first) if c.kind == kind]
        if mine:
            parts.append(tag("h3", words))
            hung = (tag("li", _card(i, card)) for i, card in mine)
            parts.append(tag("ul", *hung, class_="wall"))
    return joined(*parts)


def _card(number: int, card: Card) -> Markup:
    run, i = card.run, moment_of(card.run)
    return joined(
        tag(
            "button",
            tag("canvas", aria_hidden="true") if run.scenery is not None else None,
            tag("span", f"Play {run.name}", class_="name"),
            type="button",
            class_="card",
            data_card=number,
        ),
        tag("p", _told(run, i)),
        tag("p", _evidence(run, i), class_="note"),
    )


def _told(run: RecordedRun, i: int) -> str:
    alarmed = any(kind != "proceed" for kind in run.decisions)
    if alarmed or any(law.broken for law in run.laws):
        return next(iter(verdict(run)), "")
    risks = [law.risks[i] for law in run.laws]
    peak = max((risk.point for risk in risks if risk is not None), default=0.0)
    return f"The risk rose to {peak:.2f} at {run.times_s[i]:g} s."


def _evidence(run: RecordedRun, i: int) -> str:
    found = [
        f"{words} {value:.1f} {unit}"
        for name, (words, unit) in _MARGINS.items()
        if isinstance(value := _at(run, name, i), float | int)
    ]
    said = f"At that moment: {', '.join(found[:2])}. " if found else ""
    held = evidence(run, i)
    return said + (f"True predicates: {'; '.join(held)}." if held else "")


def _at(run: RecordedRun, name: str, i: int) -> object:
    values = run.signals.get(name)
    return None if values is None else values[i]
