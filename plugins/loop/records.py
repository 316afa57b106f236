"""Opens run records: chooses their files, and writes headers that allow replay."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forewarn import __version__
from forewarn.abstractions.errors import InvalidModel
from forewarn.abstractions.files import atomic_bytes, make_folder, read_bytes
from forewarn.abstractions.frame import Source
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.formats.own import models_as_dict
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.certificate import digest_of
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.record import SUFFIX, RunRecord

ANEW = "began anew"
"""The event that separates two runs that share a record."""


def model_file(record: Path, digest: str) -> Path:
    """Returns the path for the copy of a model next to a record."""
    return record.parent / f"model-{digest[:16]}.json"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The model file of a guard, to which records refer.

    Args:
        name: The name of the file.
        digest: The SHA-256 digest of the content.
        path: The path of the file; None if the models were created in this process.
        content: The content, if there is no file.
    """

    name: str
    digest: str
    path: Path | None = None
    content: bytes = b""

    @classmethod
    def of(cls, path: Path) -> ModelFile:
        """Creates a reference to an existing file."""
        return cls(path.name, digest_of(path), path)

    @classmethod
    def made(cls, models: Sequence[Model]) -> ModelFile:
        """Creates a reference to the file that would store these models."""
        content = json.dumps(models_as_dict(models), indent=2).encode()
        return cls("model.json", hashlib.sha256(content).hexdigest(), None, content)

    @property
    def facts(self) -> dict[str, str]:
        """The fields about this file in a record's header."""
        return {"sha256": self.digest, "name": self.name}

    def keep(self, folder: Path) -> str:
        """Copies the file into a folder if it is missing; returns its digest."""
        copy = model_file(folder / "any", self.digest)
        if not copy.exists():
            content = self.content if self.path is None else read_bytes(self.path)
            if hashlib.sha256(content).hexdigest() != self.digest:
                raise InvalidModel(
                    "the model was changed during the run", source=str(self.path)
                )
            with atomic_bytes(copy) as out:
                out.write(content)
        return self.digest


@dataclass(frozen=True, slots=True)
class Records:
    """Opens the records of one guarded loop.

    Args:
        model: The model file of the guard.
        laws: The requested laws; if empty, all laws that the guard watches.
        source: The source of the frames.
        place: The folder for one record per run, or the file for a single record. If
            None, only runs with a file of their own are recorded.
    """

    model: ModelFile
    laws: Sequence[str]
    source: Source
    place: Path | None = None

    @property
    def one_file(self) -> bool:
        """Whether all runs share a single record."""
        return self.place is not None and not is_folder(self.place)

    def open(
        self,
        guard: Guard,
        scenario: Mapping[str, Any] | None = None,
        seed: int | None = None,
        path: Path | None = None,
    ) -> RunRecord | None:
        """Opens the record of a run, and stores the model next to it.

        Returns None if the run is not recorded.

        Args:
            guard: The guard whose decisions are recorded.
            scenario: The scenario, in the form stored in the record's header.
            seed: The run's seed.
            path: The file of the record, if the run has a separate record.
        """
        path = path or self.place
        if path is None:
            return None
        if is_folder(path):
            path /= _name()
        if not path.is_char_device():
            make_folder(path.parent)
            self.model.keep(path.parent)
        source, provides = self.source, list(self.source.provides)
        vocabulary = source.vocabulary and load_vocabulary(source.vocabulary).name
        watched = [each.law.reference for each in guard.watch.laws]
        header: dict[str, Any] = {
            "scenario": scenario,
            "seed": seed,
            "mode": "shadow" if guard.policy.shadow else "guarded",
            "model": self.model.facts,
            "policy": guard.policy.as_dict(),
            "laws": list(self.laws) or watched,
            "source": source.name,
            "vocabulary": vocabulary or None,
            "period_s": source.period_s or None,
        }
        said = {name: value for name, value in header.items() if value is not None}
        if guard.revoked:
            said["revoked"] = guard.revoked
        said["provides"] = provides or None
        if guard.judges:
            said["judges"] = [judge.as_dict() for judge in guard.judges]
        return RunRecord(path, said, {} if source.embedded else machine_facts())


def is_folder(place: Path) -> bool:
    """Whether a path is a folder, or does not exist and has no suffix."""
    return place.is_dir() or not (place.suffix or place.exists())


def _name() -> str:
    """Returns a file name that is unique even within one second."""
    began = f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
    return f"{began}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"


def machine_facts() -> dict[str, str]:
    """Returns the time and facts about this machine, for records in real time."""
    return {
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "forewarn": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
