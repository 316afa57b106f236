"""The trained model and the tuned policies that ship with a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forewarn.abstractions.arguments import checked
from forewarn.scenarios.schema import ELSEWHERE, Scenario, shipped_scenarios

FOLDER = Path(__file__).parent / "trained"


@dataclass(frozen=True, slots=True)
class Shipped:
    """The paths of the files of a trained scenario.

    Args:
        model: The model.
        policy: The policy that alerts.
        abstraction: The learned abstraction; the file does not exist if the scenario's
            own was chosen.
        acting: The policy that stops, found by `tune --preset stop`; the file may not
            exist.
    """

    model: Path
    policy: Path
    abstraction: Path
    acting: Path

    @classmethod
    def in_folder(cls, folder: Path, name: str) -> Shipped:
        """Returns the paths for a scenario with this name in a folder."""
        return cls(
            folder / f"{name}.model.json.gz",
            folder / f"{name}.policy.yaml",
            folder / f"{name}.abstraction.yaml",
            folder / f"{name}.stop.policy.yaml",
        )

    def policy_for(self, purpose: str) -> Path:
        """Returns the policy for a purpose: `alert` or `stop`."""
        return self.policy if purpose == "alert" else self.acting


@checked
def shipped_with(scenario: Scenario) -> Shipped | None:
    """Returns the files that ship with a scenario; None if there are none."""
    path = shipped_scenarios().get(scenario.name)
    source = scenario.source.removesuffix(f"{ELSEWHERE}{scenario.world.name}")
    if path is None or str(path) != source:
        return None
    files = Shipped.in_folder(FOLDER, scenario.name)
    return files if files.model.exists() and files.policy.exists() else None
