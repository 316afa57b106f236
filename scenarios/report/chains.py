"""Selects and draws the states of a chain that a run visited."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.expression import tree
from forewarn.monitors.guarding.chain import ChainWatch
from forewarn.scenarios.report.drawing import TICKS, Markup, line, tag, words
from forewarn.scenarios.report.runs import RecordedRun

SHOWN = 14
"""The maximum number of states that are drawn: the riskiest states, and those in which
the run stayed longest.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A state of the chain that the run visited.

    Args:
        number: The state's number in the picture, from 1.
        state: The state's number in the model.
        risk: The risk when the run first reached the state.
        visits: The number of visits in training.
        words: The predicates that hold in the state.
    """

    number: int
    state: int
    risk: float
    visits: int
    words: str


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition of the chain between two of the drawn states."""

    source: int
    target: int
    share: float
    taken: bool


_WIDE, _HIGH, _TOP, _EDGE = 60, 260, 40, 66


def draw_chain(
    title: str, nodes: Sequence[Node], steps: Sequence[Transition]
) -> Markup:
    """Draws the states from left to right in the order of the run, riskier ones higher
    up.
    """
    width = 2 * _EDGE + _WIDE * max(len(nodes) - 1, 6)
    height = _TOP + _HIGH + 46
    gap = (width - 2 * _EDGE) / max(len(nodes) - 1, 1)
    most = max(node.visits for node in nodes) or 1
    places = {
        node.state: (_EDGE + i * gap, _TOP + (1.0 - node.risk) * _HIGH)
        for i, node in enumerate(nodes)
    }
    sizes = {node.state: 11.0 + 9.0 * math.sqrt(node.visits / most) for node in nodes}
    parts: list[Markup] = [
        tag("title", title),
        tag(
            "defs",
            tag("marker", tag("path", d="M0 0L7 3.5L0 7z", class_="tip"), id="tip",
                viewBox="0 0 7 7", refX=6.5, refY=3.5, markerWidth=9, markerHeight=9,
                markerUnits="userSpaceOnUse",
                orient="auto"),
        ),
    ]  # fmt: skip
    for tick in TICKS:
        y = _TOP + (1.0 - tick) * _HIGH
        parts.append(line(_EDGE - 30, y, width - 10, y, "grid"))
        parts.append(words(_EDGE - 34, y + 4, f"{tick:g}", "end"))
    parts.append(words(10, _TOP - 20, "risk", "start"))
    for step in sorted(steps, key=lambda step: step.taken):
        parts.append(_arc(step, places, sizes))
    for node in nodes:
        x, y = places[node.state]
        told = tag(
            "title", f"{node.words}; risk {node.risk:.3f}, {node.visits:,} visits"
        )
        parts.append(
            tag(
                "g",
                told,
                tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}",
                    r=f"{sizes[node.state]:.1f}"),
                words(x, y + 4, str(node.number), "middle"),
                class_="state",
                data_node=node.number,
            )
        )  # fmt: skip
    return tag(
        "svg", *parts, viewBox=f"0 0 {width} {height}", width=width, height=height,
        class_="diagram chain", role="img", aria_label=title,
    )  # fmt: skip


def _arc(
    step: Transition,
    places: Mapping[int, tuple[float, float]],
    sizes: Mapping[int, float],
) -> Markup:
    (ax, ay), (bx, by) = places[step.source], places[step.target]
    length = math.hypot(bx - ax, by - ay) or 1.0
    ux, uy = (bx - ax) / length, (by - ay) / length
    # Opposite transitions bend away from each other.
    bend = 0.16 * length + 8.0
    mx, my = (ax + bx) / 2 + bend * uy, (ay + by) / 2 - bend * ux
    ax, ay = _towards((ax, ay), (mx, my), sizes[step.source])
    bx, by = _towards((bx, by), (mx, my), sizes[step.target] + 2.0)
    return tag(
        "path",
        tag("title", f"probability {step.share:.3g}"),
        d=f"M{ax:.1f} {ay:.1f}Q{mx:.1f} {my:.1f} {bx:.1f} {by:.1f}",
        class_="arc taken" if step.taken else "arc",
        stroke_width=f"{0.8 + 3.2 * math.sqrt(step.share):.2f}",
        marker_end="url(#tip)",
    )


def _towards(
    start: tuple[float, float], end: tuple[float, float], by: float
) -> tuple[float, float]:
    length = math.dist(start, end) or 1.0
    share = by / length
    return start[0] + share * (end[0] - start[0]), start[1] + share * (
        end[1] - start[1]
    )


# -- selection ------------------------------------------------------------------------


def run_chain(
    run: RecordedRun, chain: ChainWatch
) -> tuple[list[Node], list[Transition]]:
    """Selects the states to draw, and the transitions between them."""
    stays: dict[int, int] = {}
    risks: dict[int, float] = {}
    taken: set[tuple[int, int]] = set()
    before: int | None = None
    for i, state in enumerate(run.visits):
        if state is not None:
            stays[state] = stays.get(state, 0) + 1
            known = [law.risks[i] for law in run.laws]
            risk = max((each.point for each in known if each is not None), default=0.0)
            risks.setdefault(state, risk)
            if before is not None and before != state:
                taken.add((before, state))
        before = state
    riskiest = sorted(stays, key=lambda state: (-risks[state], state))[: SHOWN // 2]
    longest = sorted(stays, key=lambda state: (-stays[state], state))
    chosen = set([*riskiest, *longest][: SHOWN // 2] + longest[: SHOWN // 2])
    chosen |= set(longest[: max(0, SHOWN - len(chosen))])
    model, abstraction = chain.model, chain.abstraction
    nodes: list[Node] = []
    for state in (state for state in stays if state in chosen):
        bits = abstraction.bits(model.chain.states[state])
        visits = 0 if model.visits is None else int(model.visits[state])
        told = " and ".join(abstraction.holding(bits)) or "none of the predicates"
        nodes.append(Node(len(nodes) + 1, state, risks[state], visits, told))
    steps = [
        Transition(source, target, share, (source, target) in taken)
        for source in chosen
        for target, share in sorted(model.chain.row(source).items())
        if target in chosen and target != source
    ]
    return nodes, sorted(steps, key=lambda step: (step.source, step.target))


_STEP, _TALL, _LABEL = 26, 46, 15


def draw_scores(abstraction: Abstraction) -> Iterator[Markup]:
    """Draws the step curves of each hazard score of an abstraction; other terms become
    text.
    """
    for score in abstraction.scores:
        yield tag("h4", score.name)
        left: list[str] = []
        for part in tree.summands(score.expression):
            plain = isinstance(part, tree.Curve) and all(
                isinstance(value, tree.Number) for value in part.values
            )
            if plain and isinstance(part, tree.Curve):
                yield _draw_steps(part)
            else:
                left.append(repr(part))
        if left:
            items = (tag("li", tag("code", text)) for text in left)
            yield tag("p", "The score also adds:")
            yield tag("ul", *items, class_="states")


def _draw_steps(curve: tree.Curve) -> Markup:
    """Draws one bar per step, upwards from zero if it raises the score, else
    downwards.
    """
    title = repr(curve.operand)
    labels = [f"< {bound!r}" for bound in curve.bounds] + ["else"]
    values = [node.value for node in curve.values if isinstance(node, tree.Number)]
    if isinstance(curve.absent, tree.Number):
        labels.append("none")
        values.append(curve.absent.value)
    most = max(map(abs, values)) or 1.0
    middle = 24 + _TALL
    width = max(8 + _STEP * len(values), 9 * len(title))
    parts = [tag("title", title), words(4, 14, title, "start")]
    parts.append(line(4, middle, width, middle, "guide"))
    for number, (label, value) in enumerate(zip(labels, values, strict=True)):
        x, tall = 8 + _STEP * number, abs(value) / most * _TALL
        top = middle - tall if value > 0 else middle
        told = tag("title", f"{label}: {value:+g}")
        parts.append(
            tag("rect", told, x=x, y=f"{top:g}", width=_STEP - 4,
                height=f"{max(tall, 1):g}", class_="step")
        )  # fmt: skip
    edge = middle + _TALL + _LABEL
    parts.append(words(8, edge, labels[0], "start"))
    parts.append(words(width, edge, labels[-1], "end"))
    return tag(
        "svg", *parts, viewBox=f"0 0 {width} {edge + 6}", width=width, height=edge + 6,
        class_="diagram", role="img", aria_label=title,
    )  # fmt: skip
