"""Files of guard programs: the request, the program and its signatures.

A signature is a name with the digest of everything else in the file. It shows that a
person has reviewed exactly this program; it does not protect against people with write
access to the file.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final, Literal

import yaml
from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, clean
from forewarn.abstractions.files import atomic_text, read_yaml
from forewarn.abstractions.serial import Strict, validated

FORMAT: Final = "forewarn.guard-program/1"
LONGEST_NAME = 100


class NotSigned(InvalidInput):
    """The current content of a guard program is not signed."""


class Signature(Strict):
    """A signer, and the digest of the signed content."""

    by: str = Field(min_length=1, max_length=LONGEST_NAME)
    digest: str = Field(pattern="^[0-9a-f]{64}$")


class ProgramFile(Strict):
    """A guard program with its request and origin.

    Args:
        specification: A description of the guarded agent.
        made_by: The author of the program: `rules`, or a model's name.
        plan: The reasoning of a model before it wrote the program.
        functions: The sources of uploaded functions, by file name.
    """

    format: Literal["forewarn.guard-program/1"] = FORMAT
    name: str
    request: str
    specification: str
    made_by: str
    plan: str = ""
    functions: dict[str, str] = {}
    program: str
    signatures: list[Signature] = []

    @property
    def digest(self) -> str:
        """The digest of everything except the signatures."""
        content = self.model_dump(exclude={"signatures"})
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def signed_by(self) -> tuple[str, ...]:
        """The people who signed the current content."""
        digest = self.digest
        return tuple(each.by for each in self.signatures if each.digest == digest)

    def signed(self, by: str) -> ProgramFile:
        """Returns the file with one more signature; outdated ones are dropped."""
        name = " ".join(clean(by).split())
        if not name or len(name) > LONGEST_NAME:
            raise InvalidInput("a signature needs the name of a person", mend="--name")
        digest = self.digest
        kept = [s for s in self.signatures if s.digest == digest and s.by != name]
        signatures = [*kept, Signature(by=name, digest=digest)]
        return self.model_copy(update={"signatures": signatures})


def load_program(path: Path) -> ProgramFile:
    """Loads a guard program from a file, signed or not."""
    content = None if path.suffix == ".md" else read_yaml(path)
    if not isinstance(content, dict):
        raise InvalidInput(
            "this is not a guard program",
            source=str(path),
            mend=(
                f"compile a request with `forewarn guard-program compile {path.name} "
                "--spec AGENT.md --out PROGRAM.yaml`"
            ),
        )
    return program_of(content, str(path))


def program_of(content: object, source: str) -> ProgramFile:
    """Parses a guard program from a file's content."""
    return validated(ProgramFile, content, source)


def require_signature(program: ProgramFile, source: str) -> None:
    """Raises NotSigned unless the current content of the program is signed."""
    if program.signed_by:
        return
    mend = f"forewarn guard-program review {source}, then sign it"
    if program.signatures:
        names = ", ".join(each.by for each in program.signatures)
        raise NotSigned(
            f"the program was changed after {names} signed it", source=source, mend=mend
        )
    raise NotSigned("nobody has signed the program", source=source, mend=mend)


def write_program(path: Path, program: ProgramFile) -> None:
    """Writes a guard program to a file in readable form."""
    with atomic_text(path) as out:
        yaml.dump(
            program.model_dump(), out, Dumper=_Dumper, sort_keys=False,
            allow_unicode=True, width=88,
        )  # fmt: skip


class _Dumper(yaml.SafeDumper):
    """A YAML writer that writes multi-line texts as blocks."""


def _lines(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _lines)
