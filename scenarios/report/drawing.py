"""Builds pages of HTML and SVG with escaped text, and draws the charts of a report."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from forewarn.abstractions.errors import clean


class Markup(str):
    """A string that is already markup; other strings are escaped when they are
    inserted.
    """

    __slots__ = ()


_VOID = frozenset(("br", "hr", "img", "input", "link", "meta"))


def tag(name: str, *children: object, **attributes: Any) -> Markup:
    """Builds an element.

    Args:
        name: The element's tag.
        children: The content; markup is inserted unchanged, anything else as text.
        attributes: The attributes. In a name, underscores become hyphens, and a final
            underscore is removed. None and False omit the attribute; True omits its
            value.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{_text(value)}"')
    parts.append(">")
    if name not in _VOID:
        parts += [put(child) for child in children]
        parts.append(f"</{name}>")
    return Markup("".join(parts))


def put(child: object) -> Markup:
    """Converts a child to markup: escapes text, keeps markup, and drops None."""
    if child is None:
        return Markup("")
    return child if isinstance(child, Markup) else Markup(_text(child))


def joined(*parts: object) -> Markup:
    """Concatenates parts to markup."""
    return Markup("".join(put(part) for part in parts))


def _text(value: object) -> str:
    return escape(clean(str(value)), quote=True)


_SIDE, _LEFT, _BELOW, _ABOVE = 320, 60, 42, 12
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_MARKS = ("circle", "square", "diamond", "triangle", "cross")
"""The shapes of the points of a curve; hollow for the first five curves, then filled.
"""


def document(
    title: str,
    body: Markup,
    *,
    styles: Sequence[str],
    scripts: Sequence[str],
    more: str = "",
) -> tuple[str, str]:
    """Builds a complete page; returns it with its content security policy.

    Args:
        title: The title in the browser's tab.
        body: The content of the page.
        styles: The contents of the style sheets.
        scripts: The contents of the scripts; no other script may run.
        more: Further directives of the policy, such as permission to connect to the
            page's own server.
    """
    style, script = "\n".join(styles), "\n".join(scripts)
    runs = _digest(script) if scripts else "'none'"
    policy = (
        f"default-src 'none'; script-src {runs}; style-src {_digest(style)};"
        f" img-src data:; base-uri 'none'; form-action 'none'{more}"
    )
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} – Forewarn"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(style)),
    )
    page = tag(
        "html",
        tag("head", head),
        tag("body", body, tag("script", Markup(script)) if scripts else None),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n", policy


def asset(name: str, package: str = __package__) -> str:
    """Reads one of the scripts or style sheets that a package ships."""
    return (files(package) / "assets" / name).read_text(encoding="utf-8")


def fragment(name: str, package: str = __package__) -> Markup:
    """Reads a part of a page that a package ships, without its indentation."""
    return Markup(re.sub(r"\n\s*", "", asset(name, package)))


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve of a square diagram, with an explanation of each point.

    Args:
        name: The curve's name.
        points: The coordinates, both from 0 to 1, and the explanation of each point.
        weights: The relative size of each point's mark; 0 draws no mark.
        dashed: Whether the line is dashed.
    """

    name: str
    points: tuple[tuple[float, float, str], ...]
    weights: tuple[float, ...] = ()
    dashed: bool = False


def diagram(
    title: str, across: str, upward: str, curves: Sequence[Curve], diagonal: bool
) -> Markup:
    """Draws a square diagram from 0 to 1 on both axes, with a title and a legend."""
    width, legend = _LEFT + _SIDE + 24, 20 * len(curves)
    height = _ABOVE + _SIDE + _BELOW + legend + 8
    parts: list[Markup] = []
    for tick in TICKS:
        x, y = _x(tick), _y(tick)
        parts += [
            line(x, _y(0), x, _y(1), "grid"),
            line(_x(0), y, _x(1), y, "grid"),
            words(x, _y(0) + 16, f"{tick:g}", "middle"),
            words(_x(0) - 6, y + 4, f"{tick:g}", "end"),
        ]
    if diagonal:
        parts.append(line(_x(0), _y(0), _x(1), _y(1), "guide"))
    parts.append(words(_x(0.5), _y(0) + 34, across, "middle"))
    turned = f"rotate(-90 13 {_y(0.5):g})"
    parts.append(
        tag(
            "text",
            upward,
            x=13,
            y=f"{_y(0.5):g}",
            text_anchor="middle",
            transform=turned,
        )
    )
    for number, curve in enumerate(curves):
        parts += _curve(number, curve)
        at = _ABOVE + _SIDE + _BELOW + 14 + 20 * number
        parts.append(_mark(number, _LEFT + 6, at - 4, 5.0, ""))
        parts.append(words(_LEFT + 18, at, curve.name, "start"))
    drawn = tag(
        "svg",
        *parts,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        class_="diagram",
        role="img",
        aria_label=title,
    )
    return tag("figure", tag("figcaption", title), drawn)


def _curve(number: int, curve: Curve) -> Iterator[Markup]:
    path = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y, _ in curve.points)
    kind = f"curve c{number % len(_MARKS)}{' dashed' if curve.dashed else ''}"
    yield tag("polyline", points=path, class_=kind)
    weights = curve.weights or (1.0,) * len(curve.points)
    for (x, y, told), weight in zip(curve.points, weights, strict=True):
        if weight:
            yield _mark(number, _x(x), _y(y), 4.5 * weight, told)


def _mark(number: int, x: float, y: float, size: float, told: str) -> Markup:
    filled = " filled" if number >= len(_MARKS) else ""
    kind = f"mark c{number % len(_MARKS)}{filled}"
    words_ = tag("title", told) if told else None
    corners: list[tuple[float, float]]
    match _MARKS[number % len(_MARKS)]:
        case "circle":
            return tag("circle", words_, cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{size:.1f}",
                       class_=kind)  # fmt: skip
        case "square":
            corners = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
        case "diamond":
            corners = [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)]
        case "triangle":
            corners = [(0, -1.2), (1.2, 1), (-1.2, 1)]
        case _:
            corners = [(-1, -1), (0, -0.4), (1, -1), (0.4, 0), (1, 1), (0, 0.4),
                       (-1, 1), (-0.4, 0)]  # fmt: skip
    points = " ".join(f"{x + dx * size:.1f},{y + dy * size:.1f}" for dx, dy in corners)
    return tag("polygon", words_, points=points, class_=kind)


def trade_off(facts: Mapping[str, Any], law: str) -> Markup:
    """Plots detection rate against false-alarm rate: the curve, with the requested
    thresholds marked.
    """
    swept = facts.get("trade_off") or {}
    ways = [("Forewarn", facts["laws"], swept.get("guard", {}))]
    for name, baseline in facts.get("baselines", {}).items():
        ways.append((name, baseline["laws"], swept.get(name, {})))
    curves = [
        _rates(
            name,
            [row for row in rows if row["law"] == law],
            points.get(law, ()),
            i >= len(_MARKS),
        )
        for i, (name, rows, points) in enumerate(ways)
    ]
    drawn = [curve for curve in curves if curve.points]
    if not drawn:
        return Markup("")
    return diagram(
        f"Detection and false-alarm rates: {law}",
        "false-alarm rate (fraction of clean runs)",
        "detection rate (fraction of violating runs)",
        drawn,
        diagonal=False,
    )


def _rates(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    sweep: Sequence[Mapping[str, Any]],
    dashed: bool,
) -> Curve:
    points = [
        (
            float(each["false_alarm_rate"]),
            float(each["detection_rate"]),
            f"{name}, threshold {each['threshold']:g}",
            weight,
        )
        for weight, several in ((1.0, rows), (0.0, sweep))
        for each in several
        if each["false_alarm_rate"] is not None and each["detection_rate"] is not None
    ]
    points.sort()
    return Curve(
        name, tuple((x, y, t) for x, y, t, _ in points),
        tuple(weight for *_, weight in points), dashed,
    )  # fmt: skip


def reliability(facts: Mapping[str, Any], law: str) -> Markup:
    """Plots the observed frequency of violations against the predicted risk."""
    found = facts.get("reliability", {}).get(law)
    if not found or not found["bins"]:
        return Markup("")
    bins = found["bins"]
    most = max(each["frames"] for each in bins)
    curve = Curve(
        f"larger mark: more of the {found['frames']:,} frames",
        tuple(
            (
                float(each["predicted"]),
                float(each["observed"]),
                f"predicted {each['predicted']:.3f}, observed "
                f"{each['observed']:.3f}: {each['frames']} frames of "
                f"{each['traces']} runs",
            )
            for each in bins
        ),
        tuple(0.5 + 1.2 * math.sqrt(each["frames"] / most) for each in bins),
    )
    return diagram(
        f"Reliability: {law}", "predicted risk", "observed frequency",
        [curve], diagonal=True,
    )  # fmt: skip


# -- elements -------------------------------------------------------------------------


def _x(value: float) -> float:
    return _LEFT + value * _SIDE


def _y(value: float) -> float:
    return _ABOVE + (1.0 - value) * _SIDE


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Draws a straight line with a CSS class."""
    return tag("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}",
               class_=kind)  # fmt: skip


def words(x: float, y: float, text: str, anchor: str) -> Markup:
    """Draws text; `anchor` says which part of the text is at (x, y), as in SVG."""
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def side_by_side(*pictures: Markup) -> Markup:
    """Places pictures in a row that wraps if it is too wide."""
    shown = joined(*pictures)
    return tag("div", shown, class_="pictures") if shown else shown
