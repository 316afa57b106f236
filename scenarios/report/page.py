"""The report's page: one HTML file that loads nothing over the network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from forewarn import __version__
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import atomic_text
from forewarn.scenarios.report.drawing import (
    Markup,
    asset,
    document,
    fragment,
    joined,
    tag,
)
from forewarn.scenarios.report.film import LONGEST, film
from forewarn.scenarios.report.runs import LawStory, RecordedRun
from forewarn.scenarios.report.sentences import bounds, compared, verdict
from forewarn.scenarios.report.sources import (
    WORDS,
    Campaign,
    Content,
    Part,
    Show,
    read_sources,
)
from forewarn.scenarios.report.stage import stage, wall
from forewarn.scenarios.report.tables import campaign, measurement, table


def section(show: Show, place: str, laws: Sequence[LawStory], stride: int) -> Markup:
    """Builds the section of one run, or of two runs side by side: picture and summary,
    with the details folded away.
    """
    runs, sides, last = show.runs, show.sides, show.last
    if sides:
        told, story = last.name, compared(runs[0], last, sides)
        events = [f"Events: {side[:1].lower()}{side[1:]}" for side in sides]
    else:
        told, story = f"{last.name}, {WORDS.get(last.mode, last.mode)}", verdict(last)
        events = ["Events"]
    lengths = " and ".join(map(_length, runs))
    return tag(
        "section",
        tag("h2", last.title, id=f"{place}-title"),
        tag("p", f"{told}; {lengths}{_thinned(stride)}", class_="sub"),
        stage(runs, story, sides),
        _explained(last),
        *(
            _folded(name, _story(run), _marking(run), _instances(run))
            for name, run in zip(events, runs, strict=True)
        ),
        _folded("Signals at this time", _signals()),
        *(
            _folded(f"The law: {law.name}", tag("pre", law.text or law.name))
            for law in laws
        ),
        id=place,
        class_="run",
        aria_labelledby=f"{place}-title",
    )


def _instances(run: RecordedRun) -> Markup | None:
    """Returns a table of the intervals in which each law was broken."""
    rows = [
        (law.name, f"{from_s:g} s", f"{until_s:g} s")
        for law in run.laws
        for from_s, until_s in law.instances
    ]
    return table(("violated law", "from", "until"), rows) if rows else None


def _length(run: RecordedRun) -> str:
    return f"{run.times_s[-1] - run.times_s[0]:.1f} s"


def _thinned(stride: int) -> str:
    return f"; every {stride}th frame is shown" if stride > 1 else ""


def _folded(name: str, *inside: Markup | None) -> Markup:
    return tag("details", tag("summary", name), *inside, class_="fold")


def _explained(run: RecordedRun) -> Markup:
    """Returns notes on how to interpret the figures."""
    why = bounds(run)
    return joined(
        tag("p", why, class_="note") if why else None,
        *(tag("p", text, class_="note") for text in run.notes),
    )


def _story(run: RecordedRun) -> Markup:
    return tag(
        "ol",
        *(
            tag(
                "li",
                tag("button", f"{e.time_s:.1f} s", type="button", data_t=e.time_s),
                tag(
                    "div",
                    tag("span", e.text, class_=e.kind),
                    tag("details", tag("summary", "Full text"), tag("pre", e.more))
                    if e.more
                    else None,
                ),
            )
            for e in run.events
        ),
        class_="story",
    )


MARKED = ("driving", "household")
"""The vocabularies for which rules can be evolved from labelled runs."""


def _marking(run: RecordedRun) -> Markup | None:
    """Returns the commands that label a run in which the guard was wrong."""
    if run.vocabulary not in MARKED:
        return None
    marks = (
        ("false-alarm", "To mark a false alarm:"),
        ("miss", "To mark a missed violation:"),
    )
    return tag(
        "details",
        tag("summary", "Was the guard right?"),
        *(
            tag(
                "p",
                f"{said} ",
                tag(
                    "code",
                    f"forewarn rules mark {quote(run.path.name)} --as {mark}"
                    " --out labels.jsonl",
                ),
            )
            for mark, said in marks
        ),
        class_="note",
    )


def _signals() -> Markup:
    head = tag("tr", *(tag("th", name) for name in ("signal", "value", "unit")))
    return tag(
        "div",
        tag("table", tag("thead", head), tag("tbody"), class_="signals"),
        class_="scroll signals-box",
        tabindex=0,
        role="group",
        aria_label="signals",
    )


SCRIPTS = (
    "ground.js", "bodies.js", "picture.js", "stills.js", "tracks.js", "curves.js",
    "player.js",
    "gallery.js",
    "film.js",
)  # fmt: skip
_WHOLE = 4 * LONGEST
"""The maximum total size of the data of all runs, in characters."""
CARD = 120_000
"""The maximum size of the data of a gallery card, in characters."""


def write_report(
    paths: Iterable[Path], out: Path, title: str = "", lead: Sequence[str] = ()
) -> dict[str, Any]:
    """Writes a report on runs, campaigns and measurements.

    Args:
        paths: Run records, folders of campaigns, and measurements as JSON files.
        out: The output file.
        title: The headline; by default derived from the content.
        lead: Sentences below the headline.

    Returns:
        The path of the report, the numbers of its runs, campaigns and measurements, the
        intervals in which laws were broken, and the cautions.
    """
    content = read_sources(paths)
    text = render(content, title, lead)
    with atomic_text(out) as file:
        file.write(text)
    return {
        "report": str(out),
        "runs": len(content.runs),
        "campaigns": len(content.campaigns),
        "measurements": len(content.measurements),
        "instances": [
            {"run": run.name, "law": law.name, "from_s": from_s, "until_s": until_s}
            for run in content.runs
            for law in run.laws
            for from_s, until_s in law.instances
        ],
        "cautions": content.cautions,
    }


def render(content: Content, title: str = "", lead: Sequence[str] = ()) -> str:
    """Returns the HTML of a report."""
    places = {id(show): f"run-{i}" for i, show in enumerate(content.shows, start=1)}
    share = min(LONGEST, _WHOLE // max(len(content.runs), 1))
    films: list[dict[str, Any]] = []
    sections: dict[int, Markup] = {}
    told: set[tuple[str, str]] = set()
    for show in content.shows:
        played = film(show.last, share)
        stride = played["stride"]
        # A law is shown only where it first appears.
        new = [law for law in show.last.laws if (law.name, law.text) not in told]
        told |= {(law.name, law.text) for law in new}
        if show.sides:
            played["ghost"] = film(show.runs[0], share)
        films.append(played)
        sections[id(show)] = section(show, places[id(show)], new, stride)
    cards = [card for part in content.campaigns for card in part.cards]
    excerpts = [film(card.run, CARD, card.window) for card in cards]
    title = title or _title(content)
    opening = next((show for show in content.shows if show.sides), None)
    parts = [part for part in content.parts if part is not opening]
    first = [] if opening is None else [sections[id(opening)]]
    body = [
        tag("header", *_header(title, content.cautions)),
        tag(
            "main",
            *first,
            *(tag("p", sentence, class_="lead") for sentence in lead),
            *_parts(parts, places, sections),
        ),
        tag("footer", *_footer(content)),
        fragment("dialog.html") if cards else None,
    ]
    held = {"runs": films, "cards": excerpts}
    data = tag("script", Markup(_data(held)), type="application/json", id="data")
    text, _ = document(
        title,
        joined(*body, data),
        styles=[asset("page.css")],
        scripts=[asset(name) for name in SCRIPTS],
    )
    return text


def _title(content: Content) -> str:
    """Returns the titles of the scenarios; the name of a scenario if its title is
    unknown.
    """
    names = {run.scenario: run.title for run in reversed(content.runs)}
    told: list[str] = []
    for part in content.parts:
        scenario = part["scenario"] if isinstance(part, Mapping) else part.scenario
        told.append(names.get(scenario, scenario))
    return "; ".join(dict.fromkeys(told))


def _header(title: str, cautions: Sequence[str]) -> Iterator[Markup]:
    for text in cautions:
        yield tag("p", text, class_="caution", role="note")
    yield tag("h1", title)
    yield tag(
        "noscript",
        tag(
            "p", "The animations need JavaScript; everything else is shown without it."
        ),
    )


def _footer(content: Content) -> Iterator[Markup]:
    yield tag(
        "p",
        f"Made by forewarn {__version__}. Risks describe the world as observed in the "
        "training runs; their bounds follow from the counts in these runs.",
    )
    for name in dict.fromkeys(run.path.name for run in content.runs):
        yield tag("p", f"Run record: {name}")


# -- campaigns and measurements -------------------------------------------------------


def _parts(
    parts: Sequence[Part], places: dict[int, str], sections: dict[int, Markup]
) -> Iterator[Markup]:
    hung = 0
    for part in parts:
        match part:
            case Show():
                yield sections[id(part)]
            case Campaign():
                yield _campaign(part, places, sections, hung)
                hung += len(part.cards)
            case _:
                yield _measurement(part)


def _campaign(
    found: Campaign, places: dict[int, str], sections: dict[int, Markup], hung: int
) -> Markup:
    shown = {
        show.last.seed: f"#{places[id(show)]}"
        for show in found.shows
        if show.last.seed is not None
    }
    mode = WORDS.get(found.mode, found.mode)
    return joined(
        *(sections[id(show)] for show in found.shows),
        tag(
            "section",
            tag("h2", f"{found.scenario}: {mode}"),
            campaign(found.episodes, shown),
            wall(found.cards, hung),
        ),
    )


def _measurement(facts: Any) -> Markup:
    try:
        return tag(
            "section",
            tag("h2", f"{facts['scenario']}: quality of the warnings"),
            measurement(facts),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"not a measurement: {error!r:.80}",
            mend="make one with `forewarn measure --json` or `--out`",
        ) from error


def _data(held: Mapping[str, Any]) -> str:
    """Encodes JSON so that it cannot close the script element that contains it."""
    text = json.dumps(held, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
