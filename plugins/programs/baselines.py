"""Baselines for guard programs: other ways to guard an agent with a model.

Each baseline judges cases like a program. An unreadable reply denies the case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from forewarn.monitors.programs.cases import Case
from forewarn.monitors.programs.running import Outcome, Verdict
from forewarn.plugins.chat import Chat, Message, ModelError, Usage
from forewarn.plugins.programs.writing import (
    LONGEST_REPLY,
    PATIENCE_S,
    Shown,
    data,
    demonstration,
    prompts,
    timely,
)

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


@cache
def baselines() -> Mapping[str, str]:
    """Returns the prompt of each baseline."""
    answer = prompts()["answer"]
    return {name: f"{told} {answer}" for name, told in prompts()["judges"].items()}


class ModelBaseline:
    """A baseline that sends its prompt and each case to a model."""

    def __init__(
        self,
        chat: Chat,
        told: str,
        request: str,
        specification: str,
        patience_s: float = PATIENCE_S,
        shown: Shown | None = None,
    ) -> None:
        system = told.replace("{specification}", specification.strip())
        self._system = system.replace("{request}", request.strip())
        self._chat, self._patience_s = chat, patience_s
        self._shown = shown or Shown()
        self.usage = Usage()

    def __call__(self, case: Case) -> Outcome:
        examples = map(demonstration, self._shown.of(case.shown))
        asked = "\n\n".join([*examples, data(case.shown)])
        messages = [Message("system", self._system), Message("user", asked)]
        try:
            reply = timely(self._chat, messages, self._patience_s)
        except ModelError as error:
            return Outcome("deny", fault=str(error))
        self.usage.add(reply)
        return _read(reply.text[:LONGEST_REPLY])


def _read(text: str) -> Outcome:
    found = _OBJECT.search(text)
    try:
        content: Any = json.loads(found[0]) if found else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("label") not in (0, 1):
        return Outcome("deny", fault="the reply cannot be read")
    if content["label"] == 0:
        return Outcome("allow")
    verdict = Verdict("deny", "the model denied it", content.get("details"))
    return Outcome("deny", (verdict,))
