"""What was made with a user's own vocabulary carries it along."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.abstractions.abstraction import (
    Abstraction,
    from_expressions,
    load_abstraction,
)
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.vocabularies.vocabulary import (
    load_vocabulary,
    vocabulary_from,
    vocabulary_reference,
)

KITCHEN = """
format: forewarn.vocabulary/1
name: kitchen
signals:
  heat: {type: number, unit: W, range: [0, 3000], danger: rises, doc: of the hob}
  lid: {type: bool}
  dish: {type: enum, values: [soup, rice], none: nothing is cooking}
  age: {type: number, range: [0, null]}
predicates:
  is_in: {arities: [2]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kitchen.yaml").write_text(KITCHEN)
    (tmp_path / "A.yaml").write_text(
        "format: forewarn.abstraction/1\nname: hob\nvocabulary: kitchen.yaml\n"
        "predicates: [heat > 1000 W, lid, dish == soup, 'is_in(Egg, Pan)']\n"
    )
    return tmp_path


@pytest.mark.parametrize("name", ["driving", "household"])
def test_what_ships_is_named(name: str) -> None:
    assert vocabulary_reference(load_vocabulary(name)) == name


def test_a_vocabulary_that_only_borrows_the_name_is_embedded(folder: Path) -> None:
    own = replace(load_vocabulary(folder / "kitchen.yaml"), name="driving")
    reference = vocabulary_reference(own)
    assert isinstance(reference, dict) and set(reference["signals"]) == {
        "heat", "lid", "dish", "age",
    }  # fmt: skip


def test_an_embedded_vocabulary_means_the_same(folder: Path) -> None:
    own = load_vocabulary(folder / "kitchen.yaml")
    again = vocabulary_from(vocabulary_reference(own), "embedded")
    for name, signal in own.signals.items():
        assert again.signals[name] == replace(signal, doc="")
    assert again.predicates["is_in"].arities == (2,)


def test_embedded_abstraction_needs_no_other_file(folder: Path) -> None:
    abstraction = load_abstraction(folder / "A.yaml")
    for file in folder.iterdir():
        file.unlink()
    again = Abstraction.from_dict(abstraction.as_dict(), "M.json")
    assert again.texts == abstraction.texts
    assert again.fingerprint() == abstraction.fingerprint()
    assert again.valid_states() == abstraction.valid_states()
    assert again.as_dict() == abstraction.as_dict()


def test_a_vocabulary_is_looked_for_beside_the_abstraction(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert load_abstraction(Path("..") / "A.yaml").vocabulary is not None
    text = (folder / "A.yaml").read_text()
    (folder / "A.yaml").write_text(text.replace("kitchen.yaml", "../kitchen.yaml"))
    with pytest.raises(
        InvalidInput, match=("is outside the folder of the file that refers to it")
    ):
        load_abstraction(folder / "A.yaml")


def test_a_wrong_embedded_vocabulary_is_refused() -> None:
    content = from_expressions(["a"]).as_dict() | {"vocabulary": {"name": "x"}}
    with pytest.raises(InvalidInput, match="M.json: vocabulary"):
        Abstraction.from_dict(content, "M.json")
