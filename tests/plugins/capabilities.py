"""The ways in to a guard, and what a guard can do on each: the table of capabilities.

A row is a `Way`: a class that begins something to guard and drives it for a few frames
under a `Guarding`. A column is a probe that asks for one capability and looks whether
it is there. `python -m tests.plugins.capabilities` writes `docs/capabilities.md`.

To add a row, write a subclass of `Way` in a module below `tests/plugins` and name the
module in `MODULES`.
"""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import click

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame, Source
from forewarn.cli import main
from forewarn.monitors.fleet.files import read_tallies
from forewarn.monitors.guarding.decision import Action, Decision, Turn
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.record import SUFFIX, read_record
from forewarn.monitors.guarding.watch import Watch
from forewarn.monitors.programs.file import ProgramFile
from forewarn.monitors.rules.judging import RuleJudge
from forewarn.monitors.rules.rule import rules_from
from forewarn.plugins.loop.approval import Answer
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.replay import replay
from forewarn.plugins.loop.tallies import TallyFile
from forewarn.plugins.programs.judging import ProgramJudge
from forewarn.plugins.telemetry import OpenTelemetry
from forewarn.plugins.testing.loops import always
from forewarn.scenarios.live.feed import ToPage
from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.schema import Scenario, load_scenario

PAGE = Path(__file__).parents[2] / "docs" / "capabilities.md"

SIMULATED = "time is simulated and stops while the guard decides"
BLIND = "rejected: the integration cannot predict the effect of an action"
ON_FILE = "the run is a recording, so no action is carried out"
MEASURES = "rejected: the command has no such option; use `forewarn run`"
OCCUPIED = (
    "standard input carries messages, so the guard cannot ask a person; `ask` escalates"
)


class Way:
    """One way in.

    Attributes:
        name: As the table has it.
        title: What it is, in a few words.
        without: The columns that it does not have, each with the reason. A reason that
            begins with "rejected" means that asking for it is an error of one line.
        needs: The package that it needs, besides ours.
        command: The words of the command that it is; empty if it is a class.
        options: The options that ask the command for columns, where they are not those
            of `OPTIONS`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    without: ClassVar[Mapping[str, str]] = {}
    needs: ClassVar[str] = ""
    command: ClassVar[Sequence[str]] = ()
    options: ClassVar[Mapping[str, str]] = {}

    def asks(self, column: str) -> bool:
        """Whether users can ask for a column; if they use a class, they can."""
        option = {**OPTIONS, **self.options}.get(column)
        if not self.command or option is None:
            return True
        command: Any = main
        for word in self.command:
            command = command.get_command(click.Context(command), word)
        return any(option in each.opts for each in command.params)

    def sees(self, foresees: bool) -> tuple[Source, Frame]:
        """The source that is guarded, and a first frame of it."""
        raise NotImplementedError

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        """Guards a few frames, each with a proposal where the way has proposals.

        Args:
            guarding: What the guard is made of.
            foresees: Whether it is one that foresees what actions lead to.
            folder: Free to be used.
        """
        raise NotImplementedError


# -- what is heard ---------------------------------------------------------------------


class Ear(Listener):
    """Keeps what a listener is told."""

    def __init__(self) -> None:
        self.began_as: list[str] = []
        self.decisions: list[Decision] = []
        self.alerts: list[Decision] = []
        self.turns: list[Turn] = []
        self.over: list[str] = []

    def began(self, run: Run) -> None:
        self.began_as.append(run.name)

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        self.decisions.append(decision)

    def alerted(self, decision: Decision) -> None:
        self.alerts.append(decision)

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        self.turns.append(turn)

    def ended(self, facts: Mapping[str, Any]) -> None:
        self.over.append(facts["ended"])

    @property
    def kinds(self) -> set[str]:
        return {each.kind for each in self.decisions}


class Hanging(Listener):
    """Holds up the third review for longer than a lease lasts."""

    def __init__(self) -> None:
        self._count = 0

    def reviewed(self, *_: object) -> None:
        self._count += 1
        if self._count == 3:
            time.sleep(0.4)


@dataclass
class Person:
    """Approves whatever is asked."""

    asked: int = 0

    def ask(self, decision: Decision, proposal: Action | None) -> Answer:
        self.asked += 1
        return Answer("approve")


# -- the columns -----------------------------------------------------------------------

Probe = Callable[[Way, Path], bool]
COLUMNS: dict[str, Probe] = {}
OPTIONS: Mapping[str, str] = {
    "record": "--record", "shadow": "--shadow", "alerts": "--log",
    "telemetry": "--log", "live": "--live", "tally": "--tally", "rules": "--rules",
    "guard programs": "--guard-program", "`when: before`": "--policy",
    "ask": "--policy",
}  # fmt: skip
"""The options of commands that ask for columns.

A command that has `--log` also exports telemetry, which needs no option.
"""


def column(name: str) -> Callable[[Probe], Probe]:
    """A probe under its name in the table."""

    def added(probe: Probe) -> Probe:
        COLUMNS[name] = probe
        return probe

    return added


def _guarding(way: Way, kind: Any, foresees: bool = False, **parts: Any) -> Guarding:
    return replace(always(kind, *way.sees(foresees)), **parts)


def _heard(way: Way, folder: Path, guarding: Guarding, foresees: bool = False) -> Ear:
    ears: list[Ear] = []

    def made() -> Ear:
        ears.append(Ear())
        return ears[-1]

    listeners = (*guarding.listeners, made)
    way.drive(replace(guarding, listeners=listeners), foresees, folder)
    assert len(ears) == 1, "a listener is made once for each loop"
    return ears[0]


@column("record")
def _(way: Way, folder: Path) -> bool:
    runs = folder / "runs"
    runs.mkdir()
    _heard(way, folder, _guarding(way, "alert", record=runs))
    records = sorted(runs.glob(f"*{SUFFIX}"))
    alike = [replay(record) for record in records]
    return bool(alike) and all(n > 0 and lost is None for n, lost in alike)


@column("shadow")
def _(way: Way, folder: Path) -> bool:
    guarding = _guarding(way, "stop")
    policy = replace(guarding.policy, shadow=True)
    ear = _heard(way, folder, replace(guarding, policy=policy))
    enforced = any(turn.outcome.enforced for turn in ear.turns)
    return ear.kinds == {"stop"} and not enforced


@column("alerts")
def _(way: Way, folder: Path) -> bool:
    return bool(_heard(way, folder, _guarding(way, "alert")).alerts)


@column("telemetry")
def _(way: Way, folder: Path) -> bool:
    told: list[OpenTelemetry] = []

    def made() -> OpenTelemetry:
        told.append(OpenTelemetry())
        return told[-1]

    _heard(way, folder, _guarding(way, "alert", listeners=(made,)))
    (one,) = told
    return one.frames > 0 and one.failures == 0 and not one.open


@column("live")
def _(way: Way, folder: Path) -> bool:
    with socket.create_server(("127.0.0.1", 0)) as page:
        host, port = page.getsockname()
        feed = ToPage(host, port, "a token")
        _heard(way, folder, _guarding(way, "alert", listeners=(feed,)))
        line, _ = page.accept()
        with line, line.makefile("rb") as came:
            _, body = came.read().split(b"\r\n\r\n")
    kinds = {json.loads(each)[0] for each in body.splitlines()}
    return {"begin", "frame", "event", "end"} <= kinds


@column("tally")
def _(way: Way, folder: Path) -> bool:
    guarding = _guarding(way, "alert")
    file = TallyFile(folder / "tally.json", guarding.models)
    _heard(way, folder, replace(guarding, tally=file))
    return any(each.transitions for each in read_tallies(folder / "tally.json"))


RULES = """\
format: forewarn.rules/1
domain: household
rules:
- {name: ticks, tick: any, when: not heats_metal, enforce: %s}
- {name: acts, before: any, when: not heats_metal, enforce: %s}
"""


def _rules(enforced: str) -> Callable[[], list[RuleJudge]]:
    rules = rules_from(RULES % (enforced, enforced), "the rules")
    return lambda: [RuleJudge(rules)]


@column("rules")
def _(way: Way, folder: Path) -> bool:
    guarding = _guarding(way, "alert", judges=_rules("stop"))
    laws = {each.law for each in _heard(way, folder, guarding).decisions}
    return bool(laws & {"ticks", "acts"})


@column("guard programs")
def _(way: Way, folder: Path) -> bool:
    file = ProgramFile(
        name="no",
        request="words",
        specification="anybody",
        made_by="rules",
        program='deny("no")',
    )
    guarding = _guarding(way, "alert", judges=lambda: [ProgramJudge(file, {})])
    return "skip" in _heard(way, folder, guarding).kinds


@column("several models")
def _(way: Way, folder: Path) -> bool:
    one = _guarding(way, "alert")
    (model,) = one.models
    other = replace(model, laws=tuple(f"again := {law}" for law in model.laws))
    both = replace(one, models=(model, other))
    seen: list[int] = []

    class Counting(Listener):
        def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
            seen.append(len(watch.parts))

    _heard(way, folder, replace(both, listeners=(Counting,)))
    return set(seen) == {2}


def _ahead(way: Way, foresees: bool) -> Guarding:
    guarding = _guarding(way, "alert", foresees)
    return replace(guarding, policy=replace(guarding.policy, when="before"))


@column("`when: before`")
def _(way: Way, folder: Path) -> bool:
    ear = _heard(way, folder, _ahead(way, True), True)
    return any(each.now is not None for each in ear.decisions)


@column("`before` without foresight is rejected")
def _(way: Way, folder: Path) -> bool:
    try:
        way.drive(_ahead(way, False), False, folder)
    except InvalidInput as error:
        return "cannot predict" in error.problem and "\n" not in str(error)
    return False


@column("substitutes are checked")
def _(way: Way, folder: Path) -> bool:
    judges = _rules("{substitute: {name: no_such_action}}")
    try:
        way.drive(_guarding(way, "alert", judges=judges), False, folder)
    except InvalidInput as error:
        return "substitutes" in error.problem and "\n" not in str(error)
    return False


@column("ask")
def _(way: Way, folder: Path) -> bool:
    person = Person()
    _heard(way, folder, _guarding(way, "ask", approver=person))
    return person.asked > 0


@column("lease")
def _(way: Way, folder: Path) -> bool:
    runs = folder / "runs"
    runs.mkdir()
    parts: dict[str, Any] = {"listeners": (Hanging,), "record": runs}
    _heard(way, folder, _guarding(way, "alert", **parts))
    (record,) = runs.glob(f"*{SUFFIX}")
    return any(each.content.get("event") == "lapsed" for each in read_record(record))


# -- the rows --------------------------------------------------------------------------


def _scenario(foresees: bool) -> Scenario:
    return load_scenario("tiny-kitchen" if foresees else "tiny-road")


class Running(Way):
    name, title = "run", "`forewarn run`, in a scenario's world"
    command, options = ("run",), {"record": "--out"}
    without: ClassVar[Mapping[str, str]] = {"lease": SIMULATED}

    def sees(self, foresees: bool) -> tuple[Source, Frame]:
        with closing(Runner(_scenario(foresees)).world(7)) as world:
            return world.source, world.reset(7)

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        episode = Runner(_scenario(foresees), guarding).run(7)
        assert not episode.failed, episode.error


class Measuring(Way):
    name, title = "measure", "`forewarn measure`, on recorded runs"
    command, options = ("measure",), {"shadow": "--intervene"}
    without: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            (
                "record",
                "alerts",
                "telemetry",
                "live",
                "tally",
                "rules",
                "guard programs",
            ),
            MEASURES,
        ),
        "ask": ON_FILE,
        "lease": ON_FILE,
        "`when: before`": (
            "rejected: a recording does not contain the effect of other actions"
        ),
    }

    def sees(self, foresees: bool) -> tuple[Source, Frame]:
        return Source("a file", "driving", ("speed",), 0.5), Frame(0.0, 0, {"speed": 1})

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        from forewarn.scenarios.measuring.recorded import Spectator, StoredRun

        source, _ = self.sees(foresees)
        frames = tuple(Frame(i / 2, i, {"speed": float(i)}) for i in range(6))
        run = StoredRun(folder / "trace.jsonl", "s", 7, source, frames)
        Spectator(guarding, load_scenario("tiny-road").laws).look(run)


class OverSocket(Way):
    name, title = "guard --socket", "`forewarn guard --socket` and its client"
    command = ("guard",)

    def sees(self, foresees: bool) -> tuple[Source, Frame]:
        source = Source("guard/1", "driving", ("speed",), 0.5, embedded=False)
        return source, Frame(0.0, 0, {"speed": 1.0})

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        from forewarn.plugins.remote.client import GuardClient
        from forewarn.plugins.remote.server import GuardServer
        from forewarn.plugins.remote.session import GuardPool

        token = "a word of some length"  # noqa: S105
        server = GuardServer(GuardPool(guarding).lend, token)
        thread = threading.Thread(target=server.serve)
        thread.start()
        client = GuardClient(
            f"127.0.0.1:{server.port}", token, ["speed"], lease_s=5.0,
            can=["alert", "ask", "stop"], foresees=foresees,
        )  # fmt: skip
        try:
            for i in range(5):
                values = {"speed": float(i)}
                ahead = values if foresees else None
                said = client.review(i, i / 2, values, {"name": "go"}, foreseen=ahead)
                if said["reason"].startswith("no guard"):
                    raise InvalidInput(said["reason"])
        finally:
            client.close()
            server.close()
            thread.join()


class OverLines(OverSocket):
    name, title = "guard --stdio", "`forewarn guard --stdio`"
    without: ClassVar[Mapping[str, str]] = {"ask": OCCUPIED}

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        from forewarn.plugins.remote.session import GuardPool, serve_lines

        guarding = replace(guarding, approver=None)  # as the command does
        hello = {"forewarn": "guard/1", "provides": ["speed"], "foresees": foresees}
        lines: list[Any] = [{**hello, "can": ["alert", "ask", "stop"]}]
        for i in range(5):
            line: dict[str, Any] = {"sequence": i, "time_s": i / 2}
            line |= {"signals": {"speed": float(i)}, "proposal": {"name": "go"}}
            lines.append({**line, "foreseen": line["signals"]} if foresees else line)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        serve_lines(io.BytesIO(text.encode()), io.BytesIO(), GuardPool(guarding).lend)


MODULES: Sequence[str] = (
    "tests.plugins.capabilities",
    "tests.plugins.ros.capable",
    "tests.plugins.carla.capable",
    "tests.apollo_bridge.capable",
    "tests.plugins.agents.capable",
    "tests.plugins.gym.capable",
)
"""Where the rows are: each `Way` of these modules, in the order of its definition."""


def ways() -> list[type[Way]]:
    """The rows."""
    found: dict[str, type[Way]] = {}
    for module in map(import_module, MODULES):
        for made in vars(module).values():
            if isinstance(made, type) and issubclass(made, Way) and made is not Way:
                found.setdefault(made.name, made)
    return list(found.values())


def page() -> str:
    """The table, as `docs/capabilities.md` has it."""
    rows = ways()
    lines = [
        "# What a guard can do, and where",
        "",
        "After reading this page you can say which capabilities each integration",
        "supports, and why it lacks the others. All guards are created by",
        "`forewarn.Guarding`, so every integration has the same capabilities, except",
        "for the numbered exceptions below the table. If an exception is marked",
        "*rejected*, requesting the capability causes a one-line error. A test tries",
        "every capability on every integration, checks that each command has the",
        "necessary options, and compares this page with the result.",
        "",
        "| | " + " | ".join(way.name for way in rows) + " |",
        "|---" * (len(rows) + 1) + "|",
    ]
    reasons: list[str] = []
    for name in COLUMNS:
        cells = []
        for way in rows:
            why = way.without.get(name)
            if why is not None and why not in reasons:
                reasons.append(why)
            cells.append("yes" if why is None else f"no ({reasons.index(why) + 1})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", *(f"{i}. {why}" for i, why in enumerate(reasons, 1)), ""]
    lines += [f"- **{way.name}**: {way.title}" for way in rows]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    # This module runs under another name here, whose rows are not the same classes.
    PAGE.write_text(import_module("tests.plugins.capabilities").page())
