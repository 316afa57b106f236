"""Two hundred queries of a shop: the guard finds by itself what they read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.cli import main

SHOP = Path(__file__).parents[3] / "examples" / "guard_programs"


@pytest.mark.needs("sqlglot")
def test_the_columns_of_two_hundred_queries_are_found() -> None:
    cases, roles = SHOP / "shop-cases.jsonl", SHOP / "shop-roles.json"
    lines = [json.loads(line) for line in cases.read_text("utf-8").splitlines()]
    assert len(lines) == 200 and not any("required" in line for line in lines)
    command = ["guard-program", "evaluate", "--json", "--kind", "access"]
    result = CliRunner().invoke(
        main, [*command, "--cases", str(cases), "--roles", str(roles)]
    )
    found = json.loads(result.stdout)
    assert found["executable_rate"] == 1.0
    assert found["label_accuracy"] >= 0.97, found["wrong"][:3]
    assert found["explanation_accuracy"] >= 0.97, found["wrong"][:3]
