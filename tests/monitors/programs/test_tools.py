"""Sentences about an agent's own tools, and programs held to the tools there are."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions.errors import InvalidInput
from forewarn.cli import main
from forewarn.monitors.programs.compiling import compile_request
from forewarn.monitors.programs.file import ProgramFile
from forewarn.monitors.programs.request import InvalidRequest, read_request
from forewarn.monitors.programs.tools import tools_of
from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.programs.judging import ProgramJudge


def tool(name: str, description: str, *arguments: str) -> dict[str, Any]:
    properties = {each: {"type": "string"} for each in arguments}
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": description, "inputSchema": schema}


LISTED = [
    tool("send_email", "Send a message.", "recipient", "cc", "subject"),
    tool("rm", "Deletes files. Nothing comes back.", "file_path"),
    tool("transferMoney", "Moves money.", "amount", "iban"),
    tool("list_files", "Lists all files.", "folder"),
]
TOOLS = tools_of(LISTED, "t")
GIVEN = {each.name: each.arguments for each in TOOLS}
ADA: dict[str, Any] = {"role": "user", "contacts": "ada@x.org, bob@x.org"}


def judge(sentence: str, **user: Any) -> ProgramJudge:
    text = compile_request(read_request(sentence, "r"), "r", "", TOOLS)
    file = ProgramFile(
        name="mine", request=sentence, specification="", made_by="rules", program=text
    )
    return ProgramJudge(file, {"user": ADA | user})


@pytest.mark.parametrize(
    ("sentence", "call", "arguments", "passes"),
    [
        ("do not send mail to strangers", "send_email", {"recipient": "Ada@x.org"}, 1),
        ("do not send mail to strangers", "send_email", {"recipient": "eve@y.net"}, 0),
        ("do not send mail to strangers", "send_email",
         {"recipient": ["bob@x.org"], "cc": ["ada@x.org, eve@y.net"]}, 0),
        ("do not send mail to strangers", "list_files", {"folder": "eve@y.net"}, 1),
        ("never delete files in /etc", "rm", {"file_path": "/etc/passwd"}, 0),
        ("never delete files in /etc", "rm", {"file_path": "/home/ada/x"}, 1),
        ("never remove a file", "rm", {"file_path": "/home/ada/x"}, 0),
        ("ask before paying strangers", "transferMoney", {"iban": "XY1"}, 0),
        ("ask before paying more than 100", "transferMoney", {"amount": 101}, 0),
        ("ask before paying more than 100", "transferMoney", {"amount": 99.5}, 1),
        ("only an admin may transfer money", "transferMoney", {"amount": 1}, 0),
        ("a guest must not list files", "list_files", {"folder": "a"}, 1),
    ],
)  # fmt: skip
def test_a_sentence_is_about_the_tools_that_there_are(
    sentence: str, call: str, arguments: dict[str, Any], passes: int
) -> None:
    with AgentGuard.by_laws([], judges=[judge(sentence)]) as guard:
        guard.check_tools(GIVEN)
        assert guard.before(call, arguments).passes is bool(passes)


def test_user_without_contacts_knows_nobody() -> None:
    asked = judge("do not mail strangers", contacts=None)
    with AgentGuard.by_laws([], judges=[asked]) as guard:
        assert not guard.before("send_email", {"recipient": "ada@x.org"}).passes


@pytest.mark.parametrize(
    ("sentence", "problem"),
    [
        (
            "do not shred files",
            "no tool matches 'shred files'; the tools are send_email, rm",
        ),
        ("do not delete mail", "no tool matches 'delete mail'"),
        ("do not list files to strangers", "list_files has no argument for"),
        ("do not delete files over 3", "rm has no argument for 'over 3'"),
        ("do not transfer more than 100 euros", "'100 euros' is not a plain number"),
        ("a child may not turn on the stove", "no tool matches 'turn'"),
        (
            "guests stay out of the bedroom",
            "the sentence has none of the supported forms",
        ),
    ],
)
def test_sentences_about_missing_tools_or_arguments_are_rejected(
    sentence: str, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem) as raised:
        judge(sentence)
    assert "\n" not in str(raised.value)


def test_a_program_is_held_to_the_tools_of_the_agent_it_guards() -> None:
    asked = judge("do not send mail to strangers")
    with AgentGuard.by_laws([], judges=[asked]) as guard:
        for tools, missing in (
            ({"send_mail": ["recipient", "cc"]}, "'send_email'"),
            ({"send_email": ["to", "cc"]}, "'recipient'"),
        ):
            with pytest.raises(InvalidInput, match=missing):
                guard.check_tools(tools)


def test_the_command_takes_tools_of_mcp_and_of_providers(tmp_path: Path) -> None:
    request, spec, tools = (tmp_path / n for n in ("r.md", "s.md", "t.json"))
    request.write_text("do not send mail to strangers\n")
    spec.write_text("An agent.\n")
    provider = [
        {"type": "function", "function": {**each, "parameters": each["inputSchema"]}}
        for each in LISTED
    ]
    given: Any
    for given, status in (({"tools": LISTED}, 0), (provider, 0), ([{"x": 1}], 2)):
        tools.write_text(json.dumps(given))
        out = tmp_path / "out.yaml"
        arguments = ["guard-program", "compile", request, "--spec", spec, "--out", out]
        done = CliRunner().invoke(main, [*map(str, arguments), "--tools", str(tools)])
        assert done.exit_code == status, done.output
    assert 'Argument(action, "recipient")' in out.read_text()


def test_a_server_says_which_tools_it_has(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed")
    server = Path(__file__).parents[2] / "plugins/agents/files_server.py"
    out = tmp_path / "tools.json"
    arguments = ["mcp", "tools", "--out", str(out), "--", sys.executable, str(server)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0 and not done.output, done.output
    known = tools_of(json.loads(out.read_text()), "t")
    assert [each.name for each in known] == ["backup", "delete"]
    program = compile_request(
        read_request("do not delete files in /etc", "r"), "r", "", known
    )
    assert 'Calls(action, "delete") and Names(Argument(action, "path"), "/etc")' in (
        program
    )
