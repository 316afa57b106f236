"""A guard program in a guard: it judges every frame and the action proposed on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.decision import Kind as Intervention
from forewarn.monitors.guarding.judges import Judgement
from forewarn.monitors.programs.file import (
    ProgramFile,
    load_program,
    program_of,
    require_signature,
)
from forewarn.monitors.programs.running import Answer
from forewarn.monitors.programs.values import Value
from forewarn.plugins.programs.holding import Holds
from forewarn.plugins.programs.toolbox import compiled

HANDED = "handed"
"""Where a record keeps what the program knows of the episode."""

INTERVENTIONS: Mapping[Answer, Intervention] = {
    "deny": "skip",
    "ask": "ask",
    "reflect": "reflect",
    "slow": "slow",
}


class ProgramJudge:
    """One guard program in one guard.

    Args:
        file: The program.
        handed: What it is handed beside each frame and action: for whom the agent
            acts (`user`), and where (`place`).
        source: Its file, for errors.
    """

    def __init__(
        self, file: ProgramFile, handed: Mapping[str, Value], source: str = ""
    ) -> None:
        self._file, self._handed = file, dict(handed)
        self._program = compiled(file, source or file.name)
        self.rules = {text: text for text in self._program.reasons}
        self.rules[file.name] = file.name
        self._holds = Holds(self._program.predicates)

    def as_dict(self) -> Mapping[str, Any]:
        return {**self._file.as_dict(), HANDED: self._handed}

    def reset(self) -> None:
        self._holds.reset()

    def judge(self, frame: Frame, proposal: Action | None) -> Judgement | None:
        action = {"name": "", "arguments": {}}
        if proposal is not None:
            action = {"name": proposal.name, "arguments": proposal.arguments}
        self._holds.enter(frame, proposal)
        outcome = self._program.run(
            {
                **self._handed,
                "frame": frame.values,
                "action": action,
                "holds": self._holds,
            }
        )
        if outcome.answer == "allow":
            return None
        verdict = outcome.deciding
        return Judgement(
            INTERVENTIONS[outcome.answer],
            self._file.name if verdict is None else verdict.reason,
            outcome.reason,
            () if verdict is None else tuple(map(str, verdict.because)),
            outcome.cap_kmh,
        )


def judge_of(content: Mapping[str, Any]) -> ProgramJudge:
    """The judge that a record keeps."""
    given = dict(content)
    handed = given.pop(HANDED, {})
    return ProgramJudge(program_of(given, "the guard program"), handed)


def read_judge(path: Path, handed: Mapping[str, Value], enforced: bool) -> ProgramJudge:
    """The judge of a program's file.

    Raises:
        NotSigned: It is to be enforced, and nobody signed it as it is.
    """
    file = load_program(path)
    if enforced:
        require_signature(file, str(path))
    return ProgramJudge(file, handed, str(path))
