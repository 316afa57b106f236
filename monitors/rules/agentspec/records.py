"""AgentSpec's own run logs as labelled traces that nobody has labelled yet.

A line has `intermediate_steps`, each an action with its tool and input and what was
observed, or `traj`, each a step of a household plan with its success.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from forewarn.abstractions.errors import InvalidTrace

_TWO_WORDS = frozenset(("turn", "switch", "toggle"))
_CODE = frozenset(("python_repl", "pythonrepl", "terminal"))


def is_record(row: object) -> bool:
    """Whether a line is one of AgentSpec's logs."""
    return isinstance(row, dict) and ("intermediate_steps" in row or "traj" in row)


def labelled_row(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The line as a labelled trace has it, with the label null."""
    steps = list(_steps(row))
    code = any(tool.casefold() in _CODE for tool, _, _ in steps)
    given = row.get("input")
    asked = given.get("instruction") if isinstance(given, dict) else given
    return {
        "id": name,
        "domain": "code" if code else "household",
        "label": None,
        "label_basis": "a log of AgentSpec's that nobody has labelled",
        "task": str(row.get("instruction") or row.get("prompt") or asked or ""),
        "events": [(_cell if code else _act)(*step) for step in steps],
    }


def _steps(row: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The tool, what it was given, and what was observed."""
    try:
        for step in row.get("intermediate_steps") or ():
            action = step["action"]
            yield str(action["tool"]), str(action["input"]), step.get("observation")
        for step in row.get("traj") or ():
            yield "robotic controller", str(step["action"]), step
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidTrace(f"not a log of AgentSpec's: {error}") from None


def _cell(tool: str, given: str, observed: Any) -> dict[str, Any]:
    text = str(observed or "")
    failed = "Error" in text.split("(")[0]
    return {"tool": tool, "code": given, "observation": text, "success": not failed}


def _act(tool: str, given: str, observed: Any) -> dict[str, Any]:
    words = given.split() or ["wait"]
    taken = 2 if words[0].casefold() in _TWO_WORDS and len(words) > 1 else 1
    verb, rest = " ".join(words[:taken]), words[taken:]
    liquid = rest.pop() if verb.casefold() == "fillliquid" and len(rest) > 1 else None
    seen = observed if isinstance(observed, dict) else {}
    return {
        "tool": tool,
        "raw": given,
        "verb": verb,
        "object": " ".join(rest) or None,
        "extra": liquid,
        "success": seen.get("success") is True,
        "message": str(seen.get("message") or ""),
    }
