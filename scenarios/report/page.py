"""The page itself: one HTML file that asks nothing of any network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from forewarn import __version__
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import atomic_text
from forewarn.scenarios.report.film import LONGEST, film
from forewarn.scenarios.report.markup import Markup, joined, tag
from forewarn.scenarios.report.runs import Run
from forewarn.scenarios.report.sections import MODES, chain_of, run_section
from forewarn.scenarios.report.sources import Campaign, Content, Part, read_sources
from forewarn.scenarios.report.tables import campaign, measurement

_SCRIPTS = ("picture.js", "curves.js", "player.js")
_WHOLE = 4 * LONGEST
"""How many characters all runs together may take."""


def write_report(
    paths: Iterable[Path], out: Path, title: str = "", lead: Sequence[str] = ()
) -> dict[str, Any]:
    """Writes a page about runs, campaigns and measurements.

    Args:
        paths: Run records, folders of campaigns, measurements as JSON.
        out: Where it goes.
        title: Its headline; made of what it shows if there is none.
        lead: Sentences below the headline.

    Returns:
        What it holds: the file, and how many runs, campaigns and measurements.
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
        "cautions": content.cautions,
    }


def render(content: Content, title: str = "", lead: Sequence[str] = ()) -> str:
    """The page's text."""
    runs = content.runs
    places = {id(run): f"run-{i}" for i, run in enumerate(runs, start=1)}
    share = min(LONGEST, _WHOLE // max(len(runs), 1))
    films: list[dict[str, Any]] = []
    sections: dict[int, Markup] = {}
    told: set[tuple[str, str]] = set()
    for run in runs:
        chain, nodes = chain_of(run)
        films.append(film(run, {node.state: node.number for node in nodes}, share))
        stride = films[-1]["stride"]
        # A law is drawn where it first comes.
        new = [law for law in run.laws if (law.name, law.text) not in told]
        told |= {(law.name, law.text) for law in new}
        sections[id(run)] = run_section(run, places[id(run)], chain, new, stride)
    title = title or _title(content)
    body = [
        tag("header", *_header(title, lead, content.cautions)),
        tag(
            "main",
            *(_part(part, places, sections) for part in content.parts),
        ),
        tag("footer", *_footer(content)),
    ]
    return _document(title, joined(*body), films)


def _title(content: Content) -> str:
    if len(content.parts) == 1 and content.runs:
        return content.runs[0].title
    names: list[str] = []
    for part in content.parts:
        if isinstance(part, Mapping):
            names.append(str(part["scenario"]))
        else:
            names.append(part.scenario)
    return ", ".join(dict.fromkeys(names))


def _header(
    title: str, lead: Sequence[str], cautions: Sequence[str]
) -> Iterator[Markup]:
    for text in cautions:
        yield tag("p", text, class_="caution", role="note")
    yield tag("h1", title)
    for sentence in lead:
        yield tag("p", sentence, class_="lead")
    yield tag(
        "noscript",
        tag(
            "p", "Without scripts the pictures that move are missing; the rest is here."
        ),
    )


def _footer(content: Content) -> Iterator[Markup]:
    yield tag(
        "p",
        f"Made by forewarn {__version__}. A risk is about the world that the training"
        " runs showed; its bounds follow from their counts.",
    )
    for run in content.runs:
        yield tag("p", f"Run record: {run.path.name}")


# -- campaigns and measurements -------------------------------------------------------


def _part(part: Part, places: dict[int, str], sections: dict[int, Markup]) -> Markup:
    match part:
        case Run():
            return sections[id(part)]
        case Campaign():
            return _campaign(part, places, sections)
    return _measurement(part)


def _campaign(
    found: Campaign, places: dict[int, str], sections: dict[int, Markup]
) -> Markup:
    shown = {
        run.seed: f"#{places[id(run)]}" for run in found.runs if run.seed is not None
    }
    mode = MODES.get(found.mode, found.mode)
    return joined(
        tag(
            "section",
            tag("h2", f"{found.scenario}: {mode}"),
            campaign(found.episodes, shown),
        ),
        *(sections[id(run)] for run in found.runs),
    )


def _measurement(facts: Any) -> Markup:
    try:
        return tag(
            "section",
            tag("h2", f"{facts['scenario']}: what the warnings are worth"),
            measurement(facts),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"not a measurement: {error!r:.80}",
            mend="make one with `forewarn measure --json` or `--out`",
        ) from error


# -- the document ---------------------------------------------------------------------


def _document(title: str, body: Markup, films: Sequence[dict[str, Any]]) -> str:
    style = _asset("page.css")
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)};"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} – Forewarn"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(style)),
    )
    data = tag("script", Markup(_data(films)), type="application/json", id="data")
    page = tag(
        "html",
        tag("head", head),
        tag("body", body, data, tag("script", Markup(script))),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _data(films: Sequence[dict[str, Any]]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps({"runs": films}, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
