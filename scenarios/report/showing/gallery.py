"""A campaign's gallery: what went wrong and what nearly did, each with its evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarn.abstractions.files import read_text
from forewarn.scenarios.report.film import Window
from forewarn.scenarios.report.markup import Markup, joined, tag
from forewarn.scenarios.report.runs import Run, read_run
from forewarn.scenarios.report.showing.sentences import evidence, moment_of, verdict
from forewarn.scenarios.running.episode import Episode

SHOWN = 6
"""How many cards of a kind are shown."""
SEARCHED = 300
"""Among how many calm runs near misses are looked for."""
BEFORE_S, AFTER_S = 6.0, 4.0
"""How much of a run a card plays, around its moment."""

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
        kind: Which part of the gallery it hangs in.
        run: What it plays.
    """

    kind: str
    run: Run

    @property
    def window(self) -> Window:
        """The part of the run that it plays."""
        time_s = self.run.times_s[moment_of(self.run)]
        return time_s - BEFORE_S, time_s + AFTER_S


KINDS: Mapping[str, str] = {
    "missed": "Missed: a law was broken, and no warning came before it was too late",
    "false": "False alarms: warned, and nothing came",
    "broken": "Broken all the same, with the guard acting",
    "stepped in": "Stepped in, and no law was broken",
    "near": "Near misses: no warning and no harm, but the highest risks of all",
}


def kind_of(episode: Episode) -> str:
    """Where an episode hangs, as far as it tells itself; "" where it was calm."""
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
    """The runs worth looking at, of those whose records are in a folder."""
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
    """The highest risk that a record tells of."""
    return max(map(float, _POINT.findall(read_text(record))), default=0.0)


# -- on the page ----------------------------------------------------------------------


def wall(cards: Sequence[Card], first: int) -> Markup:
    """The cards on their wall; the script draws and plays them.

    Args:
        cards: All of them.
        first: The place of the first one among the page's cards.
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


def _told(run: Run, i: int) -> str:
    alarmed = any(kind != "proceed" for kind in run.decisions)
    if alarmed or any(law.broken for law in run.laws):
        return next(iter(verdict(run)), "")
    risks = [law.risks[i] for law in run.laws]
    peak = max((risk.point for risk in risks if risk is not None), default=0.0)
    return f"The risk rose to {peak:.2f} at {run.times_s[i]:g} s."


def _evidence(run: Run, i: int) -> str:
    found = [
        f"{words} {value:.1f} {unit}"
        for name, (words, unit) in _MARGINS.items()
        if isinstance(value := _at(run, name, i), float | int)
    ]
    said = f"Then: {', '.join(found[:2])}. " if found else ""
    held = evidence(run, i)
    return said + (f"What held: {'; '.join(held)}." if held else "")


def _at(run: Run, name: str, i: int) -> object:
    values = run.signals.get(name)
    return None if values is None else values[i]
