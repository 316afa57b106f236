"""What stands beside a guard's risk, made again of what a record keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.judges import Judge
from forewarn.monitors.programs.file import FORMAT as PROGRAM
from forewarn.monitors.rules import judging as rules
from forewarn.monitors.rules.rule import FORMAT as RULES
from forewarn.plugins.programs import judging

_MAKERS: Mapping[str, Callable[[Mapping[str, Any]], Judge]] = {
    PROGRAM: judging.judge_of,
    RULES: rules.judge_of,
}


def make_judge(content: Mapping[str, Any]) -> Judge:
    """The judge that a record's header, or a plan, keeps.

    Raises:
        InvalidInput: It is of no known format.
    """
    make = _MAKERS.get(str(content.get("format")))
    if make is None:
        raise InvalidInput(
            f"no judge has the format {content.get('format')!r:.60}",
            mend=f"known are {', '.join(_MAKERS)}",
        )
    return make(content)
