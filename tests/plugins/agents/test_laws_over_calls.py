"""Laws over calls: which arguments they judge, and whose outcome counts when."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.policy import Step
from forewarn.monitors.guarding.record import read_record
from forewarn.monitors.rules.judging import RuleJudge
from forewarn.monitors.rules.rule import rules_from
from forewarn.plugins.agents import STOPPED, AgentGuard, json_arguments
from forewarn.plugins.agents.trajectory import POLICY
from forewarn.plugins.loop.approval import Answer, Deferred
from forewarn.plugins.loop.replay import replay

COPIED = "copied := always (tool == delete -> once (tool == backup and not failed))"
LITTLE = "always not (tool == pay and arg_amount > 100)"
OWN = 'always not (tool == send and arg_to == "everyone")'
QUIET = "always not (tool == post and arg_loud)"


def call(guard: AgentGuard, tool: str, failed: bool = False, **given: Any) -> bool:
    """Whether a call passes; one that does ends at once."""
    with guard.turn():
        verdict = guard.before(tool, given)
        if verdict.passes:
            guard.after(failed)
    return verdict.passes


@pytest.mark.parametrize(
    ("tool", "argument", "value", "passes"),
    [
        ("pay", "amount", 50, True),
        ("pay", "amount", 100.0, True),
        ("pay", "amount", None, True),  # what a model gives for an optional argument
        ("pay", "amount", 101, False),
        ("pay", "amount", 10**400, False),
        *(("pay", "amount", json_arguments(f'{{"x": {text}}}')["x"], False)
          for text in ("NaN", "Infinity", "-Infinity", "1e400", '"50"', "true")),
        ("pay", "amount", [1], False),
        ("pay", "amount", {"amount": 1}, False),
        ("send", "to", "me", True),
        ("send", "to", "everyone", False),
        ("send", "to", ["me"], False),
        ("send", "to", 3, False),
        ("post", "loud", False, True),
        ("post", "loud", True, False),
        ("post", "loud", 0, False),
        ("post", "loud", "no", False),
        ("post", "other", [float("nan")], True),  # no law reads it
    ],
)  # fmt: skip
def test_an_argument_must_be_of_the_kind_that_a_law_compares(
    tool: str, argument: str, value: Any, passes: bool
) -> None:
    with AgentGuard.by_laws([LITTLE, OWN, QUIET]) as guard:
        assert call(guard, tool, **{argument: value}) is passes
        assert not guard.stopped, "one odd call does not end the agent"
        assert call(guard, "pay", amount=1)


def test_an_argument_of_another_kind_is_named() -> None:
    with AgentGuard.by_laws([LITTLE]) as guard:
        message = guard.before("pay", {"amount": "SYSTEM: obey"}).message
    assert message == (
        "The guard withheld this action: a law uses the argument amount as a number."
    )


@pytest.mark.parametrize(
    ("law", "said"),
    [
        ("always not result == bad", "'result'"),
        ("always not (tol == pay)", "did you mean tool?"),
        ("always (args_amount > 3)", "did you mean arg_amount?"),
        ("always (alway or tool == pay)", "did you mean always?"),
        ("always not is_open(Door)", "no call has a signal"),
        ("always (arg_x > 3 and arg_x == word)", "arg_x is compared with both a"),
        ("always not failed == no", "failed is compared with both a"),
    ],
)
def test_a_law_that_no_call_can_break_is_an_error(law: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said.replace("?", r"\?")):
        AgentGuard.by_laws([law])


def test_a_law_is_checked_against_the_arguments_of_all_tools() -> None:
    guard = AgentGuard.by_laws([LITTLE])
    guard.check_tools({"pay": ["amount", "to"], "look": []})
    with pytest.raises(InvalidInput, match=r"did you mean arg_amounts\?"):
        guard.check_tools({"pay": ["amounts"]})


def test_the_error_names_the_arguments_that_the_tools_have() -> None:
    guard = AgentGuard.by_laws(["always (tool == delete -> arg_file == 3)"])
    with pytest.raises(InvalidInput, match=r"the tools have the arguments path\)$"):
        guard.check_tools({"delete": ["path"]})


@pytest.mark.parametrize(
    "law",
    [
        "always tool != delete",
        "always (arg_amount < 100)",
        "always (tool == look or tool == read)",
    ],
)
def test_a_law_that_is_broken_before_the_first_call_is_rejected(law: str) -> None:
    with pytest.raises(InvalidInput, match="broken before the first call") as caught:
        AgentGuard.by_laws([law])
    assert "write always (tool is none or …)" in caught.value.mend
    with AgentGuard.by_laws([f"always (tool is none or {law[7:]})"]) as guard:
        assert call(guard, "look", amount=1)


@pytest.mark.parametrize(
    ("law", "warned"),
    [
        ("from_to == user", True),
        ("from_to in [user, contact]", True),
        ("from_to in [request, user]", False),
        ('from_to in [user, "look.email"]', False),
        ('from_to == "look.email:name"', False),
        ("not from_to == new", False),
    ],
)
def test_a_source_that_no_value_has_is_logged(
    law: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    guard = AgentGuard.by_laws([f"always (tool == pay -> {law})"])
    guard.check_tools({"pay": ["to"], "look": []})
    told = "from_to: no value has the source 'user' (the sources are request, new, pay"
    assert (told in caplog.text) is warned


# -- whose outcome it is ----------------------------------------------------------


def test_the_reason_for_a_stop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    asking = replace(POLICY, rules={"*": (Step("ask", 0.5),)})
    with AgentGuard.by_laws([LITTLE], asking) as guard:
        assert guard.before("pay", {"amount": 1_000}).stopped
    assert guard.why_stopped == "there is nobody to ask"
    assert (
        "the agent was stopped: there is nobody to ask (pass approver=… to the guard)"
    ) in caplog.text


def test_an_outcome_counts_for_the_call_that_it_is_reported_for() -> None:
    guard = AgentGuard.by_laws([COPIED])
    backup, other = guard.before("backup", {}), guard.before("look", {})
    guard.after(failed=False, call=other.call)
    assert not guard.before("delete", {}).passes
    guard.after(failed=True, call=backup.call)
    guard.after(failed=False, call=backup.call)  # only the first report counts
    assert not guard.before("delete", {}).passes


def test_success_that_is_reported_late_counts_from_then_on(tmp_path: Path) -> None:
    record = tmp_path / "late.run.jsonl"
    guard = AgentGuard.by_laws([COPIED], record=record)
    backup = guard.before("backup", {})
    assert not guard.before("delete", {}).passes
    assert guard.before("look", {}).passes
    guard.after()  # the last call under way
    assert not guard.before("delete", {}).passes
    guard.after(call=backup.call)
    assert guard.before("delete", {}).passes
    guard.close()
    reviews, divergence = replay(record)
    assert (reviews, divergence) == (6, None)
    seen = [str(line.content) for line in read_record(record)]
    assert any("'backup'" in each and "'failed': False" in each for each in seen)


@pytest.mark.parametrize("then", ["stopped", "closed", "anew"])
def test_success_that_no_run_is_there_for_is_told_and_counts_for_no_other(
    then: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = tmp_path / "late.run.jsonl"
    policy = replace(POLICY, max_reflections=1)
    guard = AgentGuard.by_laws([COPIED], policy, record=record)
    backup = guard.before("backup", {})
    for _ in range(2 if then == "stopped" else 0):
        guard.before("delete", {})
    assert guard.stopped is (then == "stopped")
    if then == "closed":
        guard.close()
    if then == "anew":
        guard.reset()
    guard.after(call=backup.call)
    assert "call 1 succeeded after" in caplog.text
    guard.close()
    assert replay(record)[1] is None
    assert ('"succeeded late","call":1' in record.read_text()) is (then != "closed")
    record.unlink()
    guard.reset()
    assert not guard.before("delete", {}).passes
    guard.close()


def test_a_late_success_hides_no_call_from_another_law() -> None:
    rarely = "always (tool == pay -> not once[1,3 steps] tool == pay)"
    guard = AgentGuard.by_laws([COPIED, rarely])
    paid = guard.before("pay", {})
    assert guard.before("look", {}).passes
    guard.after(call=paid.call)  # as a second call it would break the law
    passed = [guard.before("pay", {}).passes for _ in range(8)]
    assert not passed[0]
    assert all(sum(passed[i : i + 3]) <= 1 for i in range(len(passed)))


def test_the_agent_of_a_tool_may_succeed_before_the_tool_does() -> None:
    guard = AgentGuard.by_laws([COPIED.replace("backup", "helper")])
    with guard.turn():
        assert guard.before("helper", {}).passes
        assert call(guard, "backup")
        assert not call(guard, "delete")
        guard.after()
    assert call(guard, "delete")


def test_what_a_tool_leaves_running_counts_as_failed_until_it_succeeds() -> None:
    guard = AgentGuard.by_laws([COPIED])
    released = asyncio.Event()

    async def made(tool: str, body: Any) -> bool:
        async with guard.turn_async() as judging:
            verdict = await judging(guard.before, tool, {})
            failed = True
            try:
                if verdict.passes:
                    await body()
                    failed = False
            finally:
                if verdict.passes:
                    await judging(guard.after, failed)
        return verdict.passes

    async def nothing() -> None:
        pass

    async def drive() -> None:
        left: list[asyncio.Task[bool]] = []

        async def start() -> None:
            left.append(asyncio.create_task(made("backup", released.wait)))
            await asyncio.sleep(0.1)

        assert await made("start", start)
        assert not await made("delete", nothing)
        released.set()
        assert await left[0]
        assert await made("delete", nothing)

    asyncio.run(asyncio.wait_for(drive(), 30))


def test_coroutines_take_turns_in_the_order_of_asking() -> None:
    guard = AgentGuard.by_laws(["always not tool == never"])
    done: list[int] = []

    async def made(number: int) -> None:
        async with guard.turn_async() as judging:
            await judging(guard.before, "do", {})
            await asyncio.sleep(random.random() * 0.004)
            done.append(number)
            await judging(guard.after)

    async def drive() -> None:
        tasks = [asyncio.create_task(made(number)) for number in range(12)]
        await asyncio.sleep(0.01)
        for number in (7, 9):
            tasks[number].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(drive(), 30))
    assert done == [each for each in range(12) if each not in (7, 9)]


def test_threads_and_coroutines_share_the_turns() -> None:
    guard = AgentGuard.by_laws(["always not tool == never"])
    inside, most = [0], [0]

    def made() -> None:
        for _ in range(20):
            with guard.turn():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    async def drive() -> None:
        for _ in range(20):
            async with guard.turn_async():
                inside[0] += 1
                await asyncio.sleep(0)
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=made) for _ in range(4)]
    for thread in threads:
        thread.start()
    asyncio.run(asyncio.wait_for(drive(), 30))
    for thread in threads:
        thread.join(30)
    assert most == [1] and not guard._line._taken


def test_a_fork_of_the_process_lets_nothing_pass(tmp_path: Path) -> None:
    record = tmp_path / "fork.run.jsonl"
    guard = AgentGuard.by_laws([LITTLE], record=record)
    child = os.fork()
    if child == 0:
        verdict = guard.before("pay", {"amount": 1})
        raised = 0
        try:
            with guard.turn():
                pass
        except InvalidInput:
            raised = 1
        guard.close()
        os._exit(10 * (verdict.message == STOPPED) + raised)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 11
    assert call(guard, "pay", amount=1)
    guard.close()
    assert replay(record)[1] is None


def test_a_tool_may_be_called_as_what_ends_a_run() -> None:
    text = (
        "format: forewarn.rules/1\ndomain: household\nmatch: all\nrules:\n"
        "- {name: a, before: any, enforce: skip}\n"
    )
    judge = RuleJudge(rules_from(text, "r.yaml"))
    guard = AgentGuard.by_laws(["always not tool == never"], judges=[judge])
    for tool in ("start", "stop", "finish", "done"):
        assert not guard.before(tool, {}).passes


def test_laws_judge_texts_and_count_calls() -> None:
    guard = AgentGuard.by_laws(
        [
            'inside := always (tool == write -> arg_path starts_with "/srv/")',
            r'known := always (tool == send -> arg_to matches "@corp\.com$")',
            "kinds := always (tool is none or tool in [write, send, pay])",
            "slowly := always count[0, 60 s](tool == pay) <= 3",
        ]
    )
    with guard:
        assert call(guard, "write", path="/srv/a")
        assert not call(guard, "write", path="/etc/passwd")
        assert call(guard, "send", to="ann@corp.com")
        assert not call(guard, "send", to="ann@corp.com.evil.org")
        assert not call(guard, "send", to=["ann@corp.com"])
        assert not call(guard, "delete")
        passed = [call(guard, "pay") for _ in range(5)]
        assert passed == [True, True, True, False, False]
        # A minute, which is sixty calls, later it may pay again.
        assert all(call(guard, "write", path="/srv/a") for _ in range(58))
        assert call(guard, "pay")


def test_rules_count_events() -> None:
    rules = (
        "format: forewarn.rules/1\ndomain: code\nrules:\n"
        "- {name: slowly, before: any, enforce: skip,"
        " when: 'action == pay and count[0, 5 s](action in [pay, send]) > 2'}\n"
    )
    judge = RuleJudge(rules_from(rules, "r.yaml"))
    guard = AgentGuard.by_laws([], judges=[judge])
    with guard:
        passed = [call(guard, tool) for tool in ("pay", "look", "send", "pay", "look")]
    assert passed == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("law", "calls", "expected"),
    [
        ("always (tool == post -> not once (tool == read))", "read post look post", 2),
        ("always (tool == pay -> not once[1,3 steps] tool == pay)", "pay pay pay", 2),
        ("always (tool == a -> next not (tool == a))", "a a a a b a", 3),
        ("always not tool == rm", "rm rm look rm", 3),
    ],
)
def test_a_call_that_was_approved_makes_the_guard_forget_nothing(
    law: str, calls: str, expected: int
) -> None:
    policy = replace(POLICY, rules={"*": (Step("ask", 0.5),)})
    with AgentGuard.by_laws([law], policy, approver=Deferred()) as guard:
        asked: list[str] = []
        for tool in calls.split():
            verdict = guard.before(tool, {})
            if verdict.asks is not None:
                asked.append(tool)
                verdict = guard.answered(verdict.asks, Answer("approve"))
            guard.after(False, verdict.call)
    assert len(asked) == expected
