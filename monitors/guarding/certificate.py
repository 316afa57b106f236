"""The certificate of a guard: guaranteed alarm rates, and the runs that support them.

A guard with a certificate is a folder that `forewarn warrant` wrote: the model, the
policy, and the certificate, which contains the digests of both. A guard keeps its
certificate only while it runs with exactly these files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_bytes, read_json, write_json
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.evaluation.certified import Guarantee, Rate
from forewarn.monitors.evaluation.guarantee import Guarantee as Kept
from forewarn.monitors.guarding.policy import Policy

MODEL, POLICY, CERTIFICATE = "model.json", "policy.yaml", "certificate.json"
PAGE = "certificate.html"


class InvalidCertificate(InvalidInput):
    """A certificate that cannot be read, or that belongs to a different guard."""


class BaseRate(Strict):
    """The numbers of runs that break a law, of runs with an alarm, and of all runs."""

    law: str
    violating: int = Field(ge=0)
    alarmed: int = Field(ge=0)
    runs: int = Field(ge=0)


class OverGroups(Strict):
    """The bound on a rate for a new group of runs, if all groups have the same weight.

    `mean` is the mean rate of the groups, and `bound` its upper confidence bound.
    `alike` is the p-value of the hypothesis that all groups have the same rate.
    """

    law: str
    rate: Rate
    groups: int
    mean: float
    bound: float
    alike: float


class Clip(Strict):
    """The times and signals of the frames around a wrong decision."""

    times_s: list[float]
    signals: dict[str, list[Any]]


class Wrong(Strict):
    """A run of the certificate in which the guard would have decided wrongly."""

    run: str
    group: str
    law: str
    what: Literal["wrongly stopped", "wrongly let pass"]
    at_s: float
    clip: Clip


class Certificate(Strict):
    """The guarantees of a guard.

    Fields:
        laws: The guard's laws with their thresholds; None for a law that is judged
            without a risk.
        over: The content of the runs: frames of signals, or tool calls.
        runs: Digests of the runs, by use.
        kept: The guarantee about runs in which the guard intervenes, if any.
    """

    format: Literal["forewarn.warrant/1"]
    made_by: str
    laws: dict[str, float | None]
    over: Literal["frames", "calls"]
    horizon_s: float | None
    confidence: float = Field(gt=0, lt=1)
    guarantees: list[Guarantee]
    assumption: str
    base_rates: list[BaseRate]
    group: str
    over_groups: list[OverGroups]
    runs: dict[str, dict[str, str]]
    guard: dict[str, str]
    shadow: list[Wrong]
    kept: Kept | None = None

    @property
    def digest(self) -> str:
        """A digest of the certificate's content."""
        content = self.model_dump_json(exclude=self._absent)
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def _absent(self) -> set[str]:
        # Certificates of earlier versions do not have this field.
        return set() if self.kept else {"kept"}

    def write(self, folder: Path) -> None:
        """Writes the certificate into the folder of its guard."""
        content = self.model_dump(mode="json", exclude=self._absent)
        write_json(folder / CERTIFICATE, content)

    def differ(self) -> list[OverGroups]:
        """Returns the rates that differ between groups by more than chance."""
        return [each for each in self.over_groups if each.alike < DIFFERENT]

    def covers(self, policy: Policy) -> bool:
        """Whether a policy raises alarms exactly when the certified policy does; for a
        guarantee about interventions, whether it makes the same decisions.
        """
        if self.kept is not None:
            return policy.digest == self.kept.policy
        if self.horizon_s is None:
            return policy.laws == () or set(policy.laws) == set(self.laws)
        if policy.horizon_s != self.horizon_s or policy.judge_by != "point":
            return False
        for law, at in self.laws.items():
            steps = policy.steps_for(law)
            if not steps or steps[0].threshold != at or not steps[0].inclusive:
                return False
        return True


DIFFERENT = 0.05
"""The significance level at which groups are reported to differ."""


def is_warranted(path: Path) -> bool:
    """Whether a folder contains a guard with a certificate."""
    return (path / CERTIFICATE).is_file()


def guard_files(model: Path, policy: Path | None = None) -> tuple[Path, Path | None]:
    """Returns the model file and the policy file of a guard.

    Args:
        model: A model's file, or the folder of a guard with a certificate.
        policy: A policy's file; by default, the one in the folder.
    """
    if not model.is_dir():
        return model, policy
    if not is_warranted(model):
        raise InvalidInput(
            "this folder does not contain a guard",
            source=str(model),
            mend="create one with `forewarn warrant`, or give a model file",
        )
    return model / MODEL, policy or model / POLICY


def digest_of(path: Path) -> str:
    """Returns the SHA-256 digest of a file."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def deciding(model: Path, policy: Policy) -> str:
    """Returns a digest of the parts of a model that affect decisions under a policy."""
    told = {"training"}
    if policy.judge_by == "point":
        told |= {"likely", "first_visits"}
    content = [
        {key: value for key, value in model_as_dict(each).items() if key not in told}
        for each in load_models(model)
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """Returns the digests of a guard's files."""
    return {name: digest_of(folder / name) for name in (MODEL, POLICY)}


def load_certificate(folder: Path) -> Certificate:
    """Reads the certificate of the guard in a folder.

    Raises:
        InvalidCertificate: The certificate cannot be read, or a file of the guard was
            changed after it was certified.
    """
    path = folder / CERTIFICATE
    if not path.is_file():
        raise InvalidCertificate(
            f"the folder has no {CERTIFICATE}",
            source=str(folder),
            mend="give a folder that `forewarn warrant` wrote",
        )
    content = read_json(path)
    found = validated(Certificate, content, str(path), InvalidCertificate)
    changed = [
        name for name, of in digests(folder).items() if found.guard.get(name) != of
    ]
    if changed:
        raise InvalidCertificate(
            f"{changed[0]} was changed after it was certified",
            source=str(path),
            mend="create the guard again with `forewarn warrant`",
        )
    return found


def counted(runs: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Returns the number of runs for each use."""
    return {use: len(some) for use, some in runs.items()}
