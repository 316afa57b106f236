"""Simulates agents that share a guard, and compares its verdicts with a reference.

Calls succeed, fail or are cancelled. They can be nested, and can continue after the
call that made them. Results are reported late, twice or never, and a person approves
some calls. Arguments have all types of JSON, and sometimes the process forks. The
reference uses no formulas, chains or risks. To run:

    python -m tests.fuzz.agents --steps 1000000

In a step, a call is proposed or its result is reported.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections import Counter
from contextlib import ExitStack
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import click

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.policy import Step
from forewarn.plugins.agents import AgentGuard, json_arguments
from forewarn.plugins.agents.trajectory import POLICY
from forewarn.plugins.agents.verdicts import Question, Verdict
from forewarn.plugins.loop.approval import Answer, Deferred

WINDOW = 3
MOST = 100
LAWS = (
    "copied := always (tool == delete -> once (tool == backup and not failed))",
    f"little := always not (tool == pay and arg_amount > {MOST})",
    'own := always not (tool == send and arg_to == "everyone")',
    f"rarely := always (tool == pay -> not once[1,{WINDOW} steps] tool == pay)",
    "quiet := always not (tool == post and arg_loud)",
)
TOOLS = ("backup", "delete", "pay", "send", "post", "look", "stop", "")
KINDS = {"amount": (int, float), "to": (str,), "loud": (bool,)}

Arguments = dict[str, Any]


def legible(arguments: Arguments) -> bool:
    """Whether each argument that a law compares is missing or has the law's type."""
    for name, kinds in KINDS.items():
        value = arguments.get(name)
        if value is None:
            continue
        if not isinstance(value, kinds):
            return False
        if name == "amount":
            if isinstance(value, bool | str) or not abs(value) <= sys.float_info.max:
                return False
    return True


@dataclass(eq=False)
class Deed:
    """A call that was made.

    Args:
        tool: The name of the tool.
        done: Whether its success was reported.
        seen: Whether a later call has been judged.
    """

    tool: str
    done: bool = False
    seen: bool = False


class Reference:
    """Decides which calls may pass, from the meaning of the laws alone."""

    def __init__(self) -> None:
        self.steps: list[Deed | None] = []
        self.due: list[Deed] = []
        self.late: list[Deed] = []
        self.copied = False

    def judge(self, tool: str, arguments: Arguments) -> bool:
        """Whether a call may pass."""
        if not legible(arguments):
            return False
        if self.late:
            if self.due:
                self._takes_place()
            waiting, self.late = self.late, []
            for step in waiting:
                if step.tool == "pay" and self._paid(WINDOW):
                    self.late.append(step)  # now, it would violate a law
                else:
                    self.due = [step]
                    self._takes_place()
        self._takes_place()
        amount, paid = arguments.get("amount"), self._paid(WINDOW)
        return not (
            (tool == "delete" and not self.copied)
            or (tool == "pay" and (paid or (amount is not None and amount > MOST)))
            or (tool == "send" and arguments.get("to") == "everyone")
            or (tool == "post" and arguments.get("loud") is True)
        )

    def _takes_place(self) -> None:
        """Adds the last call as a step, or a step without a call."""
        step = self.due.pop() if self.due else None
        self.steps = [*self.steps[-WINDOW:], step]
        if step is not None:
            step.seen = True
            self.copied |= step.tool == "backup" and step.done

    def _paid(self, steps: int) -> bool:
        return any(each and each.tool == "pay" for each in self.steps[-steps:])

    def made(self, deed: Deed) -> None:
        self.due.append(deed)

    def ended(self, deed: Deed, failed: bool) -> None:
        if failed:
            return
        if deed.seen:
            self.late.append(Deed(deed.tool, done=True))
        else:
            deed.done = True


@dataclass(eq=False)
class Made:
    """A call in progress, with its context and its turn."""

    deed: Deed
    number: int | None
    context: Context | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    reported: bool = False


class World:
    """Agents with their guard and the reference."""

    def __init__(self, luck: Random, counts: Counter[str]) -> None:
        self.luck, self.counts = luck, counts
        policy = replace(POLICY, max_reflections=1 << 30)
        self.asks = luck.random() < 0.3
        if self.asks:
            policy = replace(policy, rules={"*": (Step("ask", 0.5),)})
        self.guard = AgentGuard.by_laws(LAWS, policy, approver=Deferred())
        self.expect = Reference()
        self.root = copy_context()
        self.places: list[Context] = [self.root]
        self.open: list[Made] = []
        self.past: list[Made] = []

    def step(self) -> None:
        """Carries out a random step."""
        self.counts["steps"] += 1
        chance = self.luck.random()
        if chance < 0.55 or not self.open:
            self.calls()
        elif chance < 0.9:
            self.ends()
        elif chance < 0.95:
            self.reports_again()
        elif chance < 0.9995:
            self.calls_without_a_turn()
        else:
            self.forks()

    def calls(self) -> None:
        """Makes a call: at top level, within another call, or after its end."""
        place = self.luck.choice(self.places)
        if place.run(self.guard._mine)._taken:
            return  # the call would wait for another call in the same place
        own, stack = place.copy(), ExitStack()
        own.run(stack.enter_context, self.guard.turn())
        made = own.run(self._asked)
        if made is None:
            own.run(stack.close)
            return
        made.context, made.stack = own, stack
        self.open.append(made)
        if len(self.places) < 8:
            self.places.append(own.copy())
            self.counts["nested"] += len(self.open) > 1

    def calls_without_a_turn(self) -> None:
        """Makes a call without a turn, as hosts do that track call numbers."""
        made = self.root.run(self._asked)
        if made is not None:
            self.past.append(made)

    def _asked(self) -> Made | None:
        tool, arguments = self._some_call()
        may = self.expect.judge(tool, arguments)
        verdict = self.guard.before(tool, arguments)
        assert not verdict.stopped, self.guard.why_stopped
        if verdict.asks is not None:
            # Right after a violation, the guard may also ask about a lawful call.
            verdict = self._approved(verdict.asks)
            may = True
        assert verdict.passes <= may, f"escape: {tool!r} {arguments!r}"
        assert verdict.passes == may, f"withheld: {tool!r} {arguments!r}"
        self.counts["passed" if may else "withheld"] += 1
        if not may:
            return None
        deed = Deed(tool)
        self.expect.made(deed)
        return Made(deed, verdict.call)

    def _approved(self, question: Question) -> Verdict:
        """Approves a call; until then, no call passes, and an answer counts once."""
        self.counts["approved"] += 1
        yes = Answer("approve")
        if self.luck.random() < 0.3:
            assert not self.guard.before("look", {"k": 1}).passes, "escape: not asked"
            other = replace(question)
            assert not self.guard.answered(other, yes).passes, "escape: not its answer"
        verdict = self.guard.answered(question, yes)
        assert not self.guard.answered(question, yes).passes, "escape: answered twice"
        return verdict

    def _some_call(self) -> tuple[str, Arguments]:
        luck = self.luck
        arguments = {
            name: self._value(name)
            for name in luck.sample((*KINDS, "path", "x y"), luck.randrange(4))
        }
        if luck.random() < 0.3:
            try:
                arguments = json_arguments(json.dumps(arguments))
            except (InvalidInput, ValueError):
                pass
        return luck.choice(TOOLS), arguments

    def _value(self, name: str, depth: int = 0) -> Any:
        luck = self.luck
        kind = luck.randrange(12 if depth < 3 else 9)
        if kind < 4:
            fitting: dict[str, tuple[Any, ...]] = {
                "amount": (0, 50, MOST, MOST + 1, 1e300, -5.5),
                "to": ("everyone", "me", "", "Everyone", "everyone "),
                "loud": (True, False),
            }
            return luck.choice(fitting.get(name, ("a.txt",)))
        plain: tuple[Any, ...] = (
            None, True, luck.randrange(-200, 200), luck.uniform(-200, 200),
            luck.choice((float("nan"), float("inf"), 1e308, 10**400, 2**63, -0.0)),
        )  # fmt: skip
        if kind < 9:
            return plain[kind - 4]
        if kind == 9:
            return luck.choice(("everyone", "100", "true", "\ud83d", "\x00", "é" * 50))
        if kind == 10:
            return [self._value(name, depth + 1) for _ in range(luck.randrange(3))]
        return {"v": self._value(name, depth + 1)}

    def ends(self) -> None:
        """Ends a call: it succeeds, fails, or is cancelled without a report."""
        made = self.luck.choice(self.open)
        self.open.remove(made)
        context = made.context
        assert context is not None
        how = self.luck.choice(("done", "done", "done", "failed", "taken back"))
        self.counts[how] += 1
        if how != "taken back":
            self._report(made, how == "failed", context, self.luck.random() < 0.5)
        context.run(made.stack.close)
        self.counts["left running"] += any(
            each.context is not None and each.context.run(self._is_within, made)
            for each in self.open
        )
        self.past = [*self.past[-5:], made]
        if len(self.places) > 4:
            self.places.pop(self.luck.randrange(1, len(self.places)))

    def _is_within(self, made: Made) -> bool:
        now = self.guard._now()
        return now is not None and now.within is not None and now.within.over

    def reports_again(self) -> None:
        """Reports a result late or for the second time; only the first counts."""
        if self.past:
            made = self.luck.choice(self.past)
            self.counts["again" if made.reported else "late"] += 1
            self._report(made, self.luck.random() < 0.3, self.root, numbered=True)

    def _report(
        self, made: Made, failed: bool, context: Context, numbered: bool
    ) -> None:
        # A late success is never reviewed if only a person let the call pass.
        failed |= self.asks and made.deed.seen
        if not made.reported:
            self.expect.ended(made.deed, failed)
        made.reported = True
        number = made.number if numbered else None
        assert context.run(self.guard.after, failed, number) is None

    def forks(self) -> None:
        """Forks the process; the guard lets no call pass in the child."""
        self.counts["forks"] += 1
        child = os.fork()
        if child == 0:
            os._exit(self.guard.before("look", {}).passes)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "escape: fork"

    def close(self) -> None:
        for made in self.open:
            assert made.context is not None
            made.context.run(made.stack.close)
        self.guard.close()


def live(steps: int, first: int, counts: Counter[str], each: int = 5_000) -> None:
    """Runs episodes with increasing seeds until the number of steps is reached."""
    for seed in itertools.count(first):
        world = World(Random(f"agents {seed}"), counts)
        for number in range(each):
            try:
                world.step()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {number}: {error}") from error
        world.close()
        if counts["steps"] >= steps:
            return
        if sys.stderr.isatty():
            click.echo(f"\r{counts['steps']:,} steps", nl=False, err=True)


@click.command()
@click.option("--steps", default=1_000_000, show_default=True)
@click.option("--seed", "first", default=1, show_default=True)
def main(steps: int, first: int) -> None:
    """Run episodes until a wrong verdict is found or the number of steps is reached."""
    counts: Counter[str] = Counter()
    live(steps, first, counts)
    said = ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items()))
    click.echo(f"0 escapes: {said}")


if __name__ == "__main__":
    main()
