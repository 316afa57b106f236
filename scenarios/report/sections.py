"""A run on the page: its picture and curves, its story, its chain and its laws."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from shlex import quote

from forewarn.monitors.laws.automata.outline import outline
from forewarn.monitors.laws.automata.picture import draw
from forewarn.scenarios.report.chains import Node, draw_chain, run_chain
from forewarn.scenarios.report.film import first_alarm
from forewarn.scenarios.report.markup import Markup, joined, tag
from forewarn.scenarios.report.runs import LawStory, Run

MODES = {
    "guarded": "with the guard acting",
    "shadow": "the guard only watched",
    "unguarded": "without a guard",
}


def run_section(
    run: Run, place: str, chain: Markup, laws: Sequence[LawStory], stride: int
) -> Markup:
    """One run: its picture and curves, its story, its chain and its laws."""
    told = (
        f"{run.name}, {MODES.get(run.mode, run.mode)};"
        f" {run.times_s[-1] - run.times_s[0]:.1f} s"
    )
    if stride > 1:
        told += f"; every {stride}th frame is shown"
    return tag(
        "section",
        tag("h2", run.title, id=f"{place}-title"),
        tag("p", told, class_="sub"),
        *(tag("p", sentence, class_="lead") for sentence in _verdict(run)),
        _stage(run),
        *(tag("p", text, class_="note") for text in run.notes),
        tag(
            "div",
            tag("div", tag("h3", "What happened"), _story(run), _marking(run)),
            tag("div", tag("h3", "The signals at this moment"), _signals()),
            class_="columns",
        ),
        chain,
        *(_law(law) for law in laws),
        id=place,
        class_="run",
        aria_labelledby=f"{place}-title",
    )


def _verdict(run: Run) -> Iterator[str]:
    """What the run comes to, in a sentence a law."""
    for law in run.laws:
        alarm = first_alarm(law, run)
        if law.broken:
            time_s, since_s = law.broken[0]
            if alarm is None or alarm >= since_s:
                late = "There was no warning."
                if alarm is not None:
                    late = f"The first warning, at {alarm:g} s, came too late."
                yield f"{law.name} was broken at {time_s:g} s. {late}"
                continue
            ahead = f"{time_s - alarm:.1f} s before"
            if since_s < time_s:
                ahead += f" and {since_s - alarm:.1f} s before what led to it began"
            yield f"{law.name} was broken at {time_s:g} s; the guard warned {ahead}."
        elif alarm is not None:
            done = "intervened" if run.mode == "guarded" else "warned"
            yield f"The guard {done} at {alarm:g} s; {law.name} was not broken."
        else:
            yield f"{law.name} was not broken, and the guard had nothing to say."


def _stage(run: Run) -> Markup:
    times = run.times_s
    unseen = None
    if run.scenery is None:
        unseen = tag("p", run.unseen, class_="unseen note")
    view = tag(
        "div",
        tag("canvas", role="img", aria_label="The run from above")
        if run.scenery is not None
        else unseen,
        tag("p", class_="hud") if run.scenery is not None else None,
        class_="view",
    )
    controls = tag(
        "div",
        tag("button", "Play", type="button", class_="play"),
        tag("input", type="range", min=times[0], max=times[-1], step="any",
            value=times[0], aria_label="Time in the run"),
        tag("output", f"{times[0]:.1f} s"),
        tag(
            "select",
            *(
                tag("option", f"{pace:g}×", value=pace, selected=pace == 1)
                for pace in (0.25, 0.5, 1, 2, 4)
            ),
            aria_label="Pace",
        ),
        class_="controls",
    )  # fmt: skip
    curves = tag("div", class_="curves")
    return joined(
        tag(
            "div",
            view,
            tag("div", curves, _key(run)),
            controls,
            class_="stage",
            tabindex=0,
            role="group",
            aria_label="The run: space plays, arrows step, Home and End jump.",
        ),
        tag("p", run.scenery.problem, class_="note")
        if run.scenery is not None and run.scenery.problem
        else None,
    )


def _key(run: Run) -> Markup:
    bounds = any(
        r is not None and r.high > r.low for law in run.laws for r in law.risks
    )
    entries = [("k-risk", f"risk within {run.horizon_s:g} s")]
    if bounds:
        entries.append(("k-band", "its bounds"))
    if any(r is not None and r.likely for law in run.laws for r in law.risks):
        entries.append(("k-likely", "where it likely lies"))
    entries += [("k-threshold", "threshold"), ("k-warn", "warning")]
    if any(law.broken for law in run.laws):
        entries.append(("k-bad", "law broken"))
    if any(law.owes_later for law in run.laws):
        entries.append(("k-pending", "something is owed"))
    return tag(
        "ul",
        *(tag("li", tag("b", class_=kind), words) for kind, words in entries),
        class_="key",
    )


def _story(run: Run) -> Markup:
    return tag(
        "ol",
        *(
            tag(
                "li",
                tag("button", f"{e.time_s:.1f} s", type="button", data_t=e.time_s),
                tag(
                    "div",
                    tag("span", e.text, class_=e.kind),
                    tag("details", tag("summary", "In its words"), tag("pre", e.more))
                    if e.more
                    else None,
                ),
            )
            for e in run.events
        ),
        class_="story",
    )


MARKED = ("driving", "household")
"""The vocabularies whose runs rules learn from."""


def _marking(run: Run) -> Markup | None:
    """How a reader says that the guard was wrong: it becomes a label."""
    if run.vocabulary not in MARKED:
        return None
    marks = (
        ("false-alarm", "It should have let this pass:"),
        ("miss", "It should have stepped in:"),
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


def chain_of(run: Run) -> tuple[Markup, list[Node]]:
    """The chain as the run went through it, and which states are drawn."""
    watch = run.watch
    if watch is None:
        return Markup(""), []
    nodes, steps = run_chain(run, watch)
    if not nodes:
        return Markup(""), []
    learned = watch.model.chain.n - 1
    title = f"{len(nodes)} of the chain's {learned} states, in the order of this run"
    return joined(
        tag("h3", "The chain"),
        tag(
            "p",
            f"{title}; the higher, the riskier when the run first came there. Steps"
            " that this run took are darker; the broader, the likelier.",
            class_="note",
        ),
        tag(
            "div",
            draw_chain(title, nodes, steps),
            class_="wide",
            tabindex=0,
            role="group",
            aria_label="the chain",
        ),
        tag(
            "details",
            tag("summary", "What holds in each state"),
            tag("ol", *(tag("li", node.words) for node in nodes), class_="states"),
        ),
    ), nodes


def _law(law: LawStory) -> Markup:
    picture = None
    if law.automaton is not None:
        drawn = draw([(law.name, outline(law.automaton))])
        data = base64.b64encode(drawn.encode()).decode()
        picture = tag(
            "div",
            tag(
                "img",
                src=f"data:image/svg+xml;base64,{data}",
                alt=f"The automaton of {law.name}",
            ),
            class_="wide",
            tabindex=0,
            role="group",
            aria_label="the automaton",
        )
    return joined(
        tag("h3", f"The law: {law.name}"), tag("pre", law.text or law.name), picture
    )
