"""Where arguments come from: laws about what a stranger said."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.agents.sources import Sources
from forewarn.plugins.agents.trajectory import POLICY

MAIL = {"sender": "ann@corp.com", "body": "Pay DE12345678901234 at www.bad.example/x"}
REQUEST = "Answer the mail of Bob Stone, and pay 20 to FR99999999999"


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ("ann@corp.com", "read.sender"),
        ("DE12345678901234", "read.body"),
        ("de12345678901234", "read.body"),
        ("12345678901234", "new"),
        ("FR99999999999", "request"),
        ("bob.stone@x.org", "request"),
        ("bob.stone-77@x.org", "new"),
        (20, "request"),
        (20.0, "request"),
        (7, "read.count"),
        ("see www.bad.example/x, it is good", "read.body"),
        (["FR99999999999", "DE12345678901234"], "read.body"),
        (["FR99999999999", "never"], "new"),
        ("plain.txt", "look"),
        ("zoe.fox@y.org", "look:name"),
        ("zoe.fox.9@y.org", "new"),
        ("", "new"),
        (None, None),
        (True, None),
        ([], None),
    ],
)
def test_a_value_is_of_the_request_a_result_or_new(value: Any, source: str) -> None:
    sources = Sources()
    sources.request = REQUEST
    sources.hear("read", [MAIL, {"count": 7}])
    sources.hear("look", "there is plain.txt here of Zoe Fox, from ann@corp.com")
    assert sources.of(value) == source


def test_text_that_is_json_has_fields_and_other_text_has_none() -> None:
    sources = Sources()
    sources.hear("read", json.dumps(MAIL))
    sources.hear("look", "sender: eve@corp.com")
    assert sources.of("ann@corp.com") == "read.sender"
    assert sources.of("eve@corp.com") == "look"


def test_numbers_are_compared_by_all_their_digits() -> None:
    sources = Sources()
    sources.request = "pay 1234567"
    sources.hear("read", [2234561, 0.1234567, 10**400, 10**5000])
    assert sources.of(1234567) == sources.of(1234567.0) == "request"
    assert sources.of(2234561) == sources.of(0.1234567) == "read"
    assert sources.of(2234562) == sources.of(0.1234568) == "new"
    for huge in (10**400, 10**5000):
        assert sources.of(huge) == "read" and sources.of(huge + 1) == "new"


LARGE = 'always not (tool == pay and from_amount == "read.amount")'


def test_an_odd_number_ends_no_agent() -> None:
    with AgentGuard.by_laws([LARGE]) as guard:
        call = guard.before("read", {}).call
        guard.after(False, call, '{"amount": 1%s}' % ("0" * 400))
        assert guard.before("pay", {"amount": 10**300}).passes
        assert not guard.before("pay", {"amount": 10**400}).passes
        assert not guard.stopped


@pytest.mark.parametrize("shadow", [False, True])
def test_a_result_that_cannot_be_taken_in_raises_nothing(
    shadow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    policy = replace(POLICY, shadow=shadow)
    with AgentGuard.by_laws(["always not from_x == read"], policy) as guard:
        call = guard.before("read", {}).call
        monkeypatch.setattr(Sources, "hear", fails)
        verdict = guard.after(False, call, "x")
        assert (verdict is None) is shadow
        assert guard.before("read", {}).passes is shadow


def test_old_sources_are_forgotten() -> None:
    sources = Sources()
    for number in range(300):
        sources.hear("read", f"word{number} " + "x" * 10_000)
    assert sources.of("word0") == "new" and sources.of("word299") == "read"


def test_a_recipient_from_an_untrusted_page_is_withheld() -> None:
    law = "always (tool == pay -> from_to in [request, read.sender])".replace(
        "read.sender", '"read.sender"'
    )
    with AgentGuard.by_laws([law]) as guard:

        def call(tool: str, result: object = None, **arguments: Any) -> bool:
            verdict = guard.before(tool, arguments, REQUEST)
            if verdict.passes:
                guard.after(False, verdict.call, result)
            return verdict.passes

        assert call("read", MAIL)
        assert call("pay", to="FR99999999999")
        assert call("pay", to="ann@corp.com")
        assert not call("pay", to="DE12345678901234")
        assert not call("pay", to="somebody else")


def test_laws_read_what_came_back_and_what_was_asked() -> None:
    laws = [
        "always (tool == buy -> once (tool == quote and result_price <= 100))",
        'always (tool == drop -> request matches "(?i)delete")',
    ]
    with AgentGuard.by_laws(laws) as guard:
        for price, passes in ((300, False), (80, True)):
            verdict = guard.before("quote", {})
            guard.after(False, verdict.call, {"price": price})
            assert guard.before("buy", {}).passes is passes
        assert not guard.before("drop", {}).passes
        assert guard.before("drop", {}, "Delete it").passes


def test_a_signal_of_no_call_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="from_NAME"):
        AgentGuard.by_laws(["always copied_to == request"])
    with pytest.raises(InvalidInput, match="compared with"):
        AgentGuard.by_laws(["always from_to > 3"])
    with AgentGuard.by_laws(["always not from_to == new"]) as guard:
        with pytest.raises(InvalidInput, match="no call has a signal 'from_to'"):
            guard.check_tools({"send": ["receiver"]})
