"""The page that shows runs while they go on; it holds nothing of any of them."""

from __future__ import annotations

from importlib.resources import files

from forewarn.scenarios.report.markup import Markup, joined, tag
from forewarn.scenarios.report.page import asset, document

_SHARED = ("ground.js", "bodies.js", "picture.js", "curves.js")


def page() -> tuple[bytes, str]:
    """The page, and the policy that a server sends with it."""
    text, policy = document(
        "Live",
        _body(),
        styles=[asset("page.css"), _asset("live.css")],
        scripts=[*map(asset, _SHARED), _asset("live.js")],
        more="; connect-src 'self'",
    )
    # Only a server can say this one.
    return text.encode(), f"{policy}; frame-ancestors 'none'"


def _body() -> Markup:
    return joined(
        tag(
            "header",
            tag("h1", "Live"),
            tag("p", "Connecting …", id="status", role="status", class_="sub"),
        ),
        tag(
            "main",
            tag("nav", id="tiles", class_="tiles", aria_label="Runs", hidden=True),
            tag(
                "section",
                tag("h2", id="name"),
                tag("p", id="verdict", class_="verdict", aria_live="polite"),
                tag(
                    "div",
                    tag(
                        "div",
                        tag("canvas", role="img", aria_label="The run from above"),
                        tag("p", class_="hud"),
                        class_="view",
                    ),
                    tag("div", class_="curves"),
                    class_="stage",
                ),
                tag(
                    "div",
                    tag("div", tag("h3", "What is owed"), tag("ul", id="owed")),
                    tag("div", tag("h3", "What holds"), tag("ul", id="holds")),
                    tag("div", tag("h3", "What happened"), tag("ol", id="events")),
                    class_="columns three",
                ),
                id="focus",
                class_="run",
                hidden=True,
            ),
        ),
        tag("noscript", tag("p", "This page moves by a script of its own.")),
    )


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
