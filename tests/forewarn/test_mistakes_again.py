"""Further mistakes that once got a misleading message or none: each message must say
what helps.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.cli import main

LAWS = (
    ("slow = always speed < 5", "write slow := …"),
    ("slow: always speed < 5", "write slow := …"),
    ("always speed < 5; always braking", "repeat --law"),
    ("always eventually[2 s] braking", "write both times, as in [0, 2 s]"),
    ("always once[0, inf] braking", "leave out the interval"),
    ("until[0, 5 s](braking, collision)", "write a until[0, 2 s] b"),
    ("if braking then collision", "write a -> b"),
    ("always not (braking until collision 3)", "or ')' before '3'"),
    ("always not (braking before collision)", "write always (b -> once a)"),
    ("always speed < 50 km / h", "write km/h without spaces"),
    ("always speed < 5 foo", "use a unit such as"),
    ("always lead_distance is None", "write `is none` or `is not none`"),
    ("always lead_distance == none", "write lead_distance is none"),
    ("always args.path == x", "names contain no dots"),
    ('always not traffic_light contains "red"', 'write traffic_light matches "…"'),
    ("always count[0, 60 s](braking)", "compare it, as in count["),
    ("always count(braking) <= 3", "write count[0, 60 s](a) <= 3"),
    ("own_laws.yaml", "use --book own_laws.yaml"),
)


def said(line: str, status: int = 2) -> str:
    """The message of a command that ends with `status`."""
    done = CliRunner().invoke(main, shlex.split(line))
    assert done.exit_code == status, done.output
    return done.stderr.strip() or done.stdout


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "drive.csv").write_text(
        "time_s,speed,braking,collision,lead_distance,arg_path\n"
        "0,40,false,false,3,x\n1,45,true,false,none,x\n"
    )
    (tmp_path / "own_laws.yaml").write_text("format: forewarn.laws/1\nlaws: {}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("law", "mend"), LAWS)
def test_wrong_laws_are_mended(law: str, mend: str) -> None:
    assert mend in said(f"monitor drive.csv --law {shlex.quote(law)}")
