"""Guards agents that call tools, in any agent framework.

An `AgentGuard` is asked before a tool runs, and is told the result. Its verdict is
final: a tool runs only if the verdict lets the call pass, and a guard that fails lets
no call pass. The guard does not depend on a message format or on a model. The adapters
for LangChain, the OpenAI Agents SDK, inspect_ai and MCP only convert calls and results.

Each call is one time step of the learned model and of the laws.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from forewarn.abstractions.arguments import checked, expect, named
from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.frame import Frame, Source, Value
from forewarn.abstractions.readers.calls import CallRun
from forewarn.monitors.guarding.decision import (
    RANK,
    Action,
    Decision,
    Judge,
    Outcome,
    oversized,
)
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.laws.lawbook import Law
from forewarn.plugins.agents.trajectory import (
    POLICY,
    UNNAMED,
    Trajectory,
    compared,
    laws_of,
    model_of_laws,
)
from forewarn.plugins.agents.turns import Turns
from forewarn.plugins.agents.verdicts import (
    ASKING,
    EDITED,
    STOPPED,
    UNREADABLE,
    WITHHELD,
    Question,
    Tools,
    Verdict,
)
from forewarn.plugins.loop.alerts import tell
from forewarn.plugins.loop.approval import Answer, Deferred
from forewarn.plugins.loop.guarding import Guarding, check_substitutes
from forewarn.plugins.loop.interventions import NOBODY
from forewarn.plugins.loop.loop import Closing, EpisodeClock, GuardedLoop
from forewarn.plugins.loop.reflection import quoted
from forewarn.plugins.loop.tallies import TallyFile

LONGEST_REQUEST = 20_000

INSTEAD = "The guard had another action carried out instead"

Observe = Callable[[], Frame]
Foresee = Callable[[Action], Frame]
ActionOf = Callable[[str, Mapping[str, Any]], Action | None]


def _laws_over_calls(guarding: Guarding) -> list[Law]:
    """Returns the laws of the models, which must be about calls.

    Raises:
        InvalidInput: A law is not about calls.
    """
    names = [law for model in guarding.models for law in model.laws]
    try:
        laws = laws_of(names)
        compared(laws)
    except InvalidInput as error:
        raise InvalidInput(
            f"the laws of the model are not about calls: {error.problem}",
            source=guarding.name,
            mend="pass observe=…, which returns the state of the world",
        ) from error
    return laws


SOURCE = Source("agent")


@checked
class AgentGuard(Turns, Closing):
    """Decides whether each tool call may run.

    An internal failure stops the agent instead of raising an exception.

    If the policy's `when` is `after`, the guard reviews the state that is observed
    after each call. A decision of `reflect` or more severe withholds the next call, and
    `stop` or more severe stops the agent immediately. If `when` is `before` or `both`,
    the guard first reviews the state that the call would lead to.

    Args:
        guarding: The configuration of the guard.
        observe: Returns the current state of the world. Only the signals of this frame
            are used; the guard sets its own times and sequence numbers.
        foresee: Predicts the state that an action would lead to.
        action_of: Maps a tool call to an action, or to None if the tool does not affect
            the world. It raises `InvalidInput` for a malformed call. By default, the
            action consists of the tool's name and arguments.
        halt: Puts the world in a safe state; called once, when the agent is stopped.
        trajectory: Converts calls to signals, for laws over calls.
    """

    def __init__(
        self,
        guarding: Guarding,
        *,
        observe: Observe,
        foresee: Foresee | None = None,
        action_of: ActionOf = Action,
        halt: Callable[[], object] | None = None,
        trajectory: Trajectory | None = None,
    ) -> None:
        super().__init__()
        self.policy = guarding.policy
        self._observe, self._action_of, self._halt = observe, action_of, halt
        ahead = None if foresee is None else partial(self._ahead, foresee)
        # Time is counted in calls, so a slow model makes no frame stale.
        self._tools = Tools()
        self.loop = guarding.open(
            SOURCE, actions=self._tools, foresee=ahead, clock=EpisodeClock()
        )
        self.guard = self.loop.guard
        self._looks_back = self.policy.when == "after" and not self.guard.judges
        self._trajectory = trajectory
        approver = guarding.approver
        self._deferred = approver if isinstance(approver, Deferred) else None
        self._state = threading.RLock()
        self.reset()

    @classmethod
    @checked
    def load(
        cls,
        model: Path | str,
        policy: Policy | None = None,
        *,
        observe: Observe | None = None,
        foresee: Foresee | None = None,
        action_of: ActionOf = Action,
        halt: Callable[[], object] | None = None,
        judges: Sequence[Judge] = (),
        tally: Path | None = None,
        **settings: Any,
    ) -> AgentGuard:
        """Creates a guard from a model file.

        Arguments that are not listed here are those of the class.

        Args:
            model: The model file, or the folder of a certified guard.
            policy: The policy, which maps risks to interventions.
            observe: Returns the state of the world; None if the laws are about the
                calls.
            judges: Rules and guard programs that are evaluated in addition to the risk.
                With judges, each call is reviewed before it is made, together with the
                result of the previous call.
            tally: The file for the tally of transitions.
            settings: Further arguments of `Guarding`: `laws`, `record`, `listeners` and
                `approver`. If the approver is `Deferred`, the caller asks the person,
                and reports the answer with `answered`.
        """
        known = Guarding.load(model, policy, judges=lambda: judges, **settings)
        if tally is not None:
            known = replace(known, tally=TallyFile(tally, known.models))
        if observe is None:
            if known.laws:
                laws = laws_of(known.laws)
            else:
                laws = _laws_over_calls(known)
            return cls._over_calls(known, laws, action_of, halt)
        return cls(
            known, observe=observe, foresee=foresee, action_of=action_of, halt=halt
        )

    @classmethod
    @checked
    def by_laws(
        cls,
        laws: str | Sequence[str],
        policy: Policy = POLICY,
        *,
        action_of: ActionOf = Action,
        halt: Callable[[], object] | None = None,
        judges: Sequence[Judge] = (),
        record: Path | str | None = None,
        **settings: Any,
    ) -> AgentGuard:
        """Creates a guard without a learned model, which withholds calls that violate a
        law.

        The laws are about the sequence of the agent's calls, for example
        `always (tool == delete -> once (tool == backup))`. The module `trajectory`
        describes the signals.

        Args:
            laws: One or more formulas. A formula can have a name: `careful := always
                …`.
            policy: The policy, which selects the intervention if a call would violate a
                law.
            action_of: Maps a tool call to an action.
            halt: Puts the world in a safe state; called once, when the agent is
                stopped.
            judges: Rules and guard programs that are evaluated in addition to the laws.
            record: The file for the run record.
            settings: Further arguments of `Guarding`, as in `load`.
        """
        laws = [laws] if isinstance(laws, str) else laws
        if not laws and not judges:
            mend = "give at least one law, or judges=[read_judge(file)]"
            raise InvalidInput("the guard has no law", source="laws", mend=mend)
        found = laws_of(laws or [UNNAMED] * bool(judges))
        guarding = Guarding(
            [model_of_laws(found)],
            policy,
            "the laws",
            laws=[law.reference for law in found],
            judges=lambda: judges,
            record=Path(record) if isinstance(record, str) else record,
            **settings,
        )
        return cls._over_calls(guarding, found, action_of, halt)

    @classmethod
    def _over_calls(
        cls,
        guarding: Guarding,
        laws: Sequence[Law],
        action_of: ActionOf,
        halt: Callable[[], object] | None,
    ) -> AgentGuard:
        """Creates a guard whose laws are about the calls.

        Raises:
            InvalidInput: The policy judges a call only after it was made.
        """
        policy = guarding.policy
        if policy.when == "after" and not policy.shadow and not guarding.judges():
            raise InvalidInput(
                "the policy judges calls only after they are made, so a call that "
                "breaks a law would pass",
                source="when",
                mend="write `when: before` in the policy, or when='before' in Python",
            )
        trajectory = Trajectory(laws)
        return cls(
            guarding, observe=trajectory.observe, foresee=trajectory.foresee,
            action_of=action_of, halt=halt, trajectory=trajectory,
        )  # fmt: skip

    @checked
    def check_tools(self, tools: Mapping[str, Collection[str]]) -> None:
        """Checks that laws and rules match the agent's tools and their arguments.

        Args:
            tools: The arguments of each tool, as in {"delete": ["path"]}.

        Raises:
            InvalidInput: A law uses an argument that no tool has, or a rule or guard
                program applies to calls that no tool accepts.
        """
        if self._trajectory is not None:
            self._trajectory.check(tools)
        self.check_rules(tools)

    def check_rules(self, tools: Mapping[str, Collection[str]]) -> None:
        """Checks the rules; logs a warning if laws do not match, because they may also
        be about tools of other agents.
        """
        if self._trajectory is not None and tools:
            self._trajectory.check(tools, alone=False)
        known = None
        if self._action_of is Action:  # otherwise, rules are not about tools
            known = self._tools
            known.tell(tools)
        check_substitutes(self.guard.judges, SOURCE, known)
        for judge in self.guard.judges:
            judge.check_tools(tools)

    def reset(self) -> None:
        """Starts a new episode; a stopped agent may act again."""
        self._mine()  # rejects a forked process
        with self._state:
            if self._trajectory is not None:
                self._trajectory.begin()
            self._steps = 0
            self._request = ""
            self._judged: tuple[Decision, Frame] | None = None
            self._asked: Question | None = None
            self.stopped = False
            self.why_stopped = ""
            self.loop.begin(self._tools)

    def close(self) -> None:
        """Ends the run and its record; may be called twice.

        In a forked process, it does nothing.
        """
        if self.is_elsewhere:
            return
        self.loop.close(self.why_stopped or "the agent was done")

    def loops(self) -> list[GuardedLoop]:
        return [self.loop]

    # -- reviewing calls

    @named
    def before(
        self, tool: str, arguments: Mapping[str, Any], request: str = ""
    ) -> Verdict:
        """Reviews a call, and returns the verdict: whether the tool may run.

        The call counts as failed until `after` reports its success.

        Args:
            tool: The name of the tool.
            arguments: The arguments of the call, as in {"path": "a.txt"}.
            request: The user's request to the agent, for laws and guard programs.
        """
        if self.is_elsewhere:
            return Verdict(False, STOPPED, stopped=True)
        with self._state:
            if self.stopped:
                return Verdict(False, STOPPED, stopped=True)
            try:
                expect(tool, str, "tool", "give the name of the tool")
                mend = "parse the text of the model first, with json.loads"
                expect(arguments, Mapping, "arguments", mend)
                expect(request, str, "request", "give the user's text, or leave it out")
                self._request = request[:LONGEST_REQUEST]
                if self._trajectory is not None:
                    self._trajectory.asked(self._request)
                return self._before(tool, arguments)
            except Exception as error:
                return self._fault(error)

    @checked
    def answered(self, question: Question, answer: Answer) -> Verdict:
        """Returns the final verdict on a call, given a person's answer.

        Only an answer to the pending question counts.
        """
        if self.is_elsewhere:
            return Verdict(False, STOPPED, stopped=True)
        with self._state:
            if self.stopped:
                return Verdict(False, STOPPED, stopped=True)
            if self._deferred is None or question is not self._asked:
                return Verdict(False, WITHHELD)
            try:
                self._asked = None
                self._deferred.hear(answer)
                return self._settle(question.decision, question.action, question.frame)
            except Exception as error:
                return self._fault(error)

    @checked
    def after(
        self,
        failed: bool | None = False,
        call: int | None = None,
        result: object = None,
    ) -> Verdict | None:
        """Reviews the result of a call; returns a verdict only if the agent is stopped.

        Args:
            failed: Whether the tool failed; None if its result is not known yet. Until
                it is known, the call counts as failed.
            call: The number of the call, from its verdict. By default, it is the call
                made in the current turn or, outside any turn, the last call in
                progress.
            result: The result as text or as fields, for laws about results.
        """
        if self.is_elsewhere:
            return Verdict(False, STOPPED, stopped=True)
        with self._state:
            try:
                if failed is not None:
                    ended = self._ended(call)
                    if ended is not None:
                        self._came_to(ended, failed, result)
                    elif call is not None:
                        told = "call %s is not in progress: give the verdict's `call`"
                        tell(logging.WARNING, told, call)
            except Exception as error:
                verdict = self._fault(error)
                return None if verdict.passes else verdict
            if self.stopped or not self._looks_back:
                return None
            return self._stop_if_due()

    def unmade(self, verdict: Verdict) -> str:
        """Returns the message to the agent if neither call nor substitute was made."""
        if verdict.instead is None:
            return verdict.message
        self.after(True, verdict.call)
        return f"{WITHHELD}."

    def finish(self) -> Verdict | None:
        """Reviews the final state; returns a verdict only if the agent is stopped."""
        if self.is_elsewhere:
            return Verdict(False, STOPPED, stopped=True)
        with self._state:
            return None if self.stopped else self._stop_if_due()

    def _came_to(self, call: int, failed: bool, result: object) -> None:
        """Records the result of a call, even if no further frame is reviewed."""
        known = self._trajectory
        counts = known is None or known.ended(call, failed, result)
        if not failed and (self.stopped or self.loop.is_over or not counts):
            told = "call %d succeeded after the guard had stopped or been reset"
            tell(logging.WARNING, told, call)
            self.loop.note("succeeded late", call=call)

    def _before(self, tool: str, arguments: Mapping[str, Any]) -> Verdict:
        try:
            action = self._action_of(tool, arguments)
        except InvalidInput:
            return self._unread(UNREADABLE)
        if action is None:
            return Verdict(True, acts=False)
        if oversized(action.arguments):
            return self._unread(UNREADABLE)
        if self._trajectory is not None and (wrong := self._trajectory.wrong(action)):
            return self._unread(f"{WITHHELD}: {wrong}.")
        if self._asked is not None:
            # A repetition of the call in question is not reviewed again.
            if action == self._asked.action:
                return Verdict(False, WITHHELD, asks=self._asked)
            return Verdict(False, ASKING)
        if self._looks_back:
            # The result of the last call was reviewed when that call ended.
            decision, frame = self._judged or self._look()
        else:
            decision, frame = self._review(action)
        if self._deferred is not None and self.loop.asks(decision, action):
            self._asked = Question(action, decision, frame)
            return Verdict(False, WITHHELD, asks=self._asked)
        return self._settle(decision, action, frame)

    def _settle(self, decision: Decision, action: Action, frame: Frame) -> Verdict:
        """Carries out a decision, and returns the verdict on the call."""
        turn = self.loop.carry_out(decision, action, frame)
        made, kind = turn.executed, turn.outcome.kind
        if made is not None and (made == action or kind == "substitute"):
            call = self._began()
            if self._trajectory is not None:
                self._trajectory.made(call, made)
            if made == action:
                return Verdict(True, call=call)
            told = f"{INSTEAD}: {decision.reason}. Its result is: "
            return Verdict(False, told, call=call, instead=made)
        if self._trajectory is not None and self._trajectory.lacks_results:
            told = (
                "a call is withheld, and no result of an earlier call has been reported"
                " (call guard.after(failed=False) after each call that succeeds: until "
                "then, every call counts as failed)"
            )
            tell(logging.WARNING, told)
        return self._refused(turn.executed, turn.outcome, decision.reason)

    def _ahead(self, foresee: Foresee, action: Action) -> Frame:
        """Predicts the frame of the next step if the call is made."""
        if self._trajectory is not None and (wrong := self._trajectory.wrong(action)):
            raise InvalidInput(wrong)
        return self._step(self._steps + 1, foresee(action).values)

    def _refused(
        self, executed: Action | None, outcome: Outcome, reason: str
    ) -> Verdict:
        if outcome.prompt is not None:
            return Verdict(False, outcome.prompt)
        if RANK[outcome.kind] >= RANK["stop"]:
            return self._stop(outcome.because or reason)
        if executed is not None:
            return Verdict(False, f"{EDITED}\n{quoted(executed)}")
        return Verdict(False, f"{WITHHELD}: {reason}." if reason else f"{WITHHELD}.")

    def _stop_if_due(self) -> Verdict | None:
        try:
            decision, frame = self._look()
            if RANK[decision.kind] < RANK["stop"]:
                return None
            if not self.loop.carry_out(decision, None, frame).outcome.enforced:
                return None
            return self._stop(decision.reason)
        except Exception as error:
            verdict = self._fault(error)
            return None if verdict.passes else verdict

    def _unread(self, message: str) -> Verdict:
        """Returns the verdict on a call that cannot be reviewed."""
        shadow = self.policy.shadow
        return Verdict(shadow, message, acts=not shadow)

    def _look(self) -> tuple[Decision, Frame]:
        """Reviews the current state without a proposed call."""
        self._judged = self._review(None)
        return self._judged

    def _review(self, action: Action | None) -> tuple[Decision, Frame]:
        """Reviews the steps that have not been reviewed yet, and then the call."""
        if self._trajectory is not None and self._trajectory.is_late:
            for frame in self._trajectory.late(self._breaks):
                seen = self._next(frame.values)
                decision = self.loop.review(seen)
                if RANK[decision.kind] > RANK["alert"]:
                    return decision, seen
        seen = self._next(self._observe().values)
        return self.loop.review(seen, action), seen

    def _breaks(self, values: Mapping[str, Value]) -> bool:
        """Whether a next step with these signals would violate a law."""
        ahead = self._step(self._steps + 1, values)
        return bool(self.guard.watch.foresee(ahead).violated)

    def _next(self, values: Mapping[str, Value]) -> Frame:
        """Returns the frame of the next time step."""
        self._steps += 1
        return self._step(self._steps, values)

    def _step(self, number: int, values: Mapping[str, Value]) -> Frame:
        if self._request:
            values = {**values, "request": self._request}
        return Frame(number * self.guard.watch.period_s, number, values)

    def _fault(self, error: Exception) -> Verdict:
        """Stops the agent after an internal failure, unless in shadow mode."""
        why = f"the guard failed: {type(error).__name__}: {error}"
        if self.policy.shadow:
            tell(logging.ERROR, "%s", why)
            return Verdict(True)
        return self._stop(why, logging.ERROR)

    def _stop(self, why: str, level: int = logging.WARNING) -> Verdict:
        self.stopped, self.why_stopped = True, why
        mend = " (pass approver=… to the guard)" if why == NOBODY else ""
        told = "the agent was stopped: %s%s"
        tell(level, told, why, mend)
        if self._halt is not None:
            try:
                self._halt()
            except Exception as error:
                tell(logging.CRITICAL, "the halt failed: %s", error)
        return Verdict(False, STOPPED, stopped=True)


def check_harmless(harmless: Collection[str], tools: Collection[str]) -> None:
    """Logs a warning for each name in `harmless` that is almost the name of a tool."""
    for name in sorted({*harmless}.difference(tools)):
        if mend := near_miss(name, tools):
            _warn_once(f"harmless: there is no tool {name!r:.60} ({mend})")


@cache
def _warn_once(text: str) -> None:
    tell(logging.WARNING, "%s", text)


class LawReplay:
    """Replays recorded runs to a guard with one law until it withholds a call.

    Args:
        law: The formula of the law.
    """

    def __init__(self, law: str) -> None:
        self._guard = AgentGuard.by_laws(law)

    def withheld(self, run: CallRun) -> int | None:
        """Returns the index of the first call that the guard withholds, or None.

        A call that the guard cannot read counts as withheld.
        """
        guard = self._guard
        guard.reset()
        for number, call in enumerate(run.calls):
            verdict = guard.before(call.tool, call.arguments, run.request)
            if not verdict.passes:
                return number
            guard.after(call.failed, verdict.call, call.result)
        return None
