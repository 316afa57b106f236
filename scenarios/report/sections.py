"""A run or two on the page: the stage, the sentence, and all the rest folded away."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from shlex import quote

from forewarn.monitors.guarding.chain import ChainWatch
from forewarn.monitors.laws.outline import draw, outline
from forewarn.scenarios.report.chains import Node, draw_chain, draw_scores, run_chain
from forewarn.scenarios.report.markup import Markup, joined, tag
from forewarn.scenarios.report.runs import LawStory, Run
from forewarn.scenarios.report.showing.sentences import bounds, compared, verdict
from forewarn.scenarios.report.showing.stage import stage
from forewarn.scenarios.report.sources import WORDS, Pair


def run_section(
    run: Run, place: str, chain: Markup, laws: Sequence[LawStory], stride: int
) -> Markup:
    """One run: its picture, what it comes to, and all the rest folded away."""
    told = f"{run.name}, {WORDS.get(run.mode, run.mode)}; {_length(run)}"
    return tag(
        "section",
        tag("h2", run.title, id=f"{place}-title"),
        tag("p", told + _thinned(stride), class_="sub"),
        stage([run], verdict(run)),
        _explained(run),
        _folded("What happened", _story(run), _marking(run)),
        _folded("The signals at this moment", _signals()),
        _folded("The chain", chain) if chain else None,
        *(_law(law) for law in laws),
        id=place,
        class_="run",
        aria_labelledby=f"{place}-title",
    )


def pair_section(
    pair: Pair, place: str, chain: Markup, laws: Sequence[LawStory], stride: int
) -> Markup:
    """Two runs side by side, such as without a guard and with one."""
    first, second = pair.runs
    sides = pair.sides
    told = f"{second.name}; {_length(first)} and {_length(second)}"
    return tag(
        "section",
        tag("h2", second.title, id=f"{place}-title"),
        tag("p", told + _thinned(stride), class_="sub"),
        stage(pair.runs, compared(first, second, sides), sides),
        _explained(second),
        *(
            _folded(f"What happened {side[:1].lower()}{side[1:]}", _story(run),
                    _marking(run))
            for side, run in zip(sides, pair.runs, strict=True)
        ),
        _folded("The signals at this moment", _signals()),
        _folded("The chain", chain) if chain else None,
        *(_law(law) for law in laws),
        id=place,
        class_="run",
        aria_labelledby=f"{place}-title",
    )  # fmt: skip


def _length(run: Run) -> str:
    return f"{run.times_s[-1] - run.times_s[0]:.1f} s"


def _thinned(stride: int) -> str:
    return f"; every {stride}th frame is shown" if stride > 1 else ""


def _folded(name: str, *inside: Markup | None) -> Markup:
    return tag("details", tag("summary", name), *inside, class_="fold")


def _explained(run: Run) -> Markup:
    """What the figures rest on, where a reader must know it."""
    why = bounds(run)
    return joined(
        tag("p", why, class_="note") if why else None,
        *(tag("p", text, class_="note") for text in run.notes),
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
    chain = run.chain
    if chain is None:
        return Markup(""), []
    nodes, steps = run_chain(run, chain)
    if not nodes:
        return Markup(""), []
    learned = chain.model.chain.n - 1
    title = f"{len(nodes)} of the chain's {learned} states, in the order of this run"
    if run.watch is not None and len(run.watch.parts) > 1:
        names = " and ".join(law.name for law in chain.laws)
        title = f"The chain of {names}: {title}"
    return joined(
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
        _scores(chain),
    ), nodes


def _scores(chain: ChainWatch) -> Markup:
    drawn = list(draw_scores(chain.abstraction))
    if not drawn:
        return Markup("")
    summary = tag("summary", "What its scores add up, curve by curve")
    return tag("details", summary, *drawn)


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
    return _folded(f"The law: {law.name}", tag("pre", law.text or law.name), picture)
