"""Reads cases from the files that were published with GuardAgent's paper.

EICU-AC is a JSON list of questions with roles, next to a folder `logs` with the agent's
logs. Mind2Web-SC is a JSON list of tasks with users.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_json, read_text

AN_ACTION = '{"action": {"name": …, "arguments": {…}}, "user": {…}}'
"""The form of an action to judge."""

_LINE = "\n----------------------------------------------------------\n"
_CELL = re.compile(r'"cell": "(.*?)"\n?\}', re.DOTALL)
_USER = {
    "licen": "drivers_license",
    "vacc": "vaccinated",
    "domestic": "domestic",
    "member": "member",
    "age": "age",
}
_TRUE = frozenset(("yes", "true", "1"))


def published(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the cases of a published file, in our own format."""
    content = read_json(path)
    for number, entry in enumerate(content if isinstance(content, list) else [{}], 1):
        try:
            yield _access(entry, path) if "identity" in entry else _web(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"entry {number} is neither in EICU-AC's nor in Mind2Web-SC's "
                f"format: {error}",
                source=str(path),
                mend=(
                    f"write one action on each line, as {AN_ACTION}, in a file whose "
                    "name ends in .jsonl, or give the original published file"
                ),
            ) from None


def _access(entry: Mapping[str, Any], path: Path) -> dict[str, Any]:
    log = path.parent / "logs" / f"{Path(str(entry['id'])).name}.txt"
    code, answer = _logged(read_text(log)) if log.is_file() else ("", None)
    found: dict[str, Any] = {
        "id": f"{entry['id']}:{entry['identity']}",
        "identity": entry["identity"],
        "question": entry["template"],
        "label": int(entry["label"]),
        "inaccessible_db": entry.get("inaccessible_db") or {},
        "log": [code] if code else [],
    }
    if not code:
        found["required"] = entry["required"]
    if answer is not None and "answer" in entry:
        right = entry["answer"]
        right = ", ".join(map(str, right)) if isinstance(right, list) else str(right)
        found["answer_right"] = right.casefold() in answer.casefold()
    return found


def _logged(text: str) -> tuple[str, str]:
    """Returns the last program in an agent's log, and the answer."""
    solution = text.rpartition("Solution:")[2]
    cells = [json.loads(f'"{cell}"') for cell in _CELL.findall(solution)]
    sections = solution.split(_LINE)
    done = [i for i, section in enumerate(sections) if "TERMINATE" in section]
    answer = sections[done[-1] - 1] if done and done[-1] else sections[-1]
    return (cells[-1] if cells else max(sections, key=len)), answer


def _web(entry: Mapping[str, Any]) -> dict[str, Any]:
    violated = str(entry.get("violation") or "").strip()
    return {
        "id": str(entry["annotation_id"]),
        "request": entry["confirmed_task"],
        "user": dict(_said(name, value) for name, value in entry["user_info"].items()),
        "label": int(entry["label"]),
        "violated": [violated] if violated else [],
        "group": violated,
    }


def _said(name: str, value: Any) -> tuple[str, Any]:
    """Converts a fact about a user to its name and value in our rules."""
    plain = name.casefold()
    known = next((ours for part, ours in _USER.items() if part in plain), plain)
    if known == "age":
        return known, int(value)
    if isinstance(value, str) and value.casefold() in _TRUE | {"no", "false", "0"}:
        return known, value.casefold() in _TRUE
    return known, value
