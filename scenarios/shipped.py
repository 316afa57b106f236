"""The files that ship with a scenario: a trained model and a tuned policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forewarn.scenarios.schema import ELSEWHERE, Scenario, shipped_scenarios

FOLDER = Path(__file__).parent / "trained"


@dataclass(frozen=True, slots=True)
class Shipped:
    """The files of a trained scenario.

    Args:
        model: The model.
        policy: The policy that alerts.
        abstraction: The learned abstraction; None if the scenario's own was chosen.
        acting: The policy for stopping instead of only alerting, found by `tune
            --preset stop`, if there is one.
    """

    model: Path
    policy: Path
    abstraction: Path
    acting: Path

    @classmethod
    def in_folder(cls, folder: Path, name: str) -> Shipped:
        """The files of a scenario with this name in a folder."""
        return cls(
            folder / f"{name}.model.json.gz",
            folder / f"{name}.policy.yaml",
            folder / f"{name}.abstraction.yaml",
            folder / f"{name}.stop.policy.yaml",
        )

    def policy_for(self, purpose: str) -> Path:
        """The policy for a purpose: to `alert`, or to `stop`."""
        return self.policy if purpose == "alert" else self.acting


def shipped_with(scenario: Scenario) -> Shipped | None:
    """The files that ship with a scenario; None if there are none."""
    path = shipped_scenarios().get(scenario.name)
    source = scenario.source.removesuffix(f"{ELSEWHERE}{scenario.world.name}")
    if path is None or str(path) != source:
        return None
    files = Shipped.in_folder(FOLDER, scenario.name)
    return files if files.model.exists() and files.policy.exists() else None
