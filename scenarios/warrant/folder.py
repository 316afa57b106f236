"""Writes the folder of a guard with a certificate, atomically."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forewarn import __version__
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import write_json
from forewarn.monitors.chains.formats.own import models_as_dict
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.guarding.certificate import (
    MODEL,
    POLICY,
    Certificate,
    digests,
    is_warranted,
)
from forewarn.monitors.guarding.policy import Policy, write_policy
from forewarn.scenarios.warrant.making import Made
from forewarn.scenarios.warrant.page import write_page


def write_guard(folder: Path, made: Made) -> Certificate:
    """Writes a guard and its certificate; earlier files are replaced.

    Raises:
        InvalidInput: The folder contains other files.
    """
    refuse_other(folder)
    policy, certificate = made.policy, made.certificate
    if policy is None or certificate is None:
        raise InvalidInput("no rate is guaranteed, so no guard can be written")
    with _in_place_of(folder) as new:
        write_json(new / MODEL, models_as_dict(made.models))
        write_policy(new / POLICY, policy)
        certificate = certificate.model_copy(update={"guard": digests(new)})
        certificate.write(new)
        write_page(new, certificate)
    return certificate


def write_acting(folder: Path, model: Path, policy: Policy) -> Certificate:
    """Writes a guard whose certificate contains only the policy's guarantee about runs
    in which the guard intervenes.
    """
    kept = policy.kept
    if kept is None:
        raise InvalidInput("the policy has no guarantee, so no guard can be written")
    models = tuple(load_models(model))
    certificate = Certificate(
        format="forewarn.warrant/1",
        made_by=f"forewarn {__version__}",
        laws={
            law: steps[0].threshold
            for each in models
            for law in each.laws
            if (steps := policy.steps_for(law))
        },
        over="frames",
        horizon_s=policy.horizon_s,
        confidence=kept.confidence,
        guarantees=[],
        assumption=kept.sentence(),
        base_rates=[],
        group="",
        over_groups=[],
        runs={},
        guard={},
        shadow=[],
        kept=kept,
    )
    return write_guard(folder, Made(models, policy, certificate, (), {}, 0))


def refuse_other(folder: Path) -> None:
    """Raises an error if the folder contains anything but a guard."""
    if folder.exists() and not is_warranted(folder) and any(folder.iterdir()):
        raise InvalidInput(
            "the folder contains other files",
            source=str(folder),
            mend="choose a new folder",
        )


@contextmanager
def _in_place_of(folder: Path) -> Iterator[Path]:
    """Provides a new folder that replaces this one once everything is written."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".warrant-") as spare:
        new, old = Path(spare) / "new", Path(spare) / "old"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
