"""Formats are found by content, golden files keep their values, the rest is refused."""

from __future__ import annotations

import gzip
import pickle
from fractions import Fraction
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.chains.formats.files import TEXT_FORMATS, chain_as_text
from forewarn.monitors.chains.model import load_model

GOLDEN = Path(__file__).parents[3] / "golden" / "chains"
KETTLE = [
    {0: Fraction(1, 2), 1: Fraction(1, 2)},
    {1: Fraction(7, 10), 2: Fraction(1, 5), 3: Fraction(1, 10)},
    {0: Fraction(1, 3), 2: Fraction(2, 3)},
    {3: Fraction(1)},
]
everywhere = pytest.mark.parametrize(
    "name",
    [
        pytest.param("kettle.prism", marks=pytest.mark.needs("stormpy")),
        pytest.param("kettle.drn", marks=pytest.mark.needs("stormpy")),
        "kettle.tra",
        "kettle.json",
        "kettle.model.json",
        "storm.tra",
        pytest.param("kettle.umb", marks=pytest.mark.needs("stormpy")),
    ],
)


@everywhere
def test_every_format_gives_the_same_chain(name: str) -> None:
    chain = load_model(GOLDEN / name).chain
    assert [chain.row(i) for i in range(4)] == [
        {j: float(p) for j, p in row.items()} for row in KETTLE
    ]
    if name != "storm.tra":  # whose thirds are rounded
        assert [chain.exact_row(i) for i in range(4)] == KETTLE
    if name != "kettle.model.json":  # which has neither
        assert chain.initial == 0
        assert chain.labels == {"hot": frozenset({2}), "dry": frozenset({3})}
    assert not chain.deadlocks


@everywhere
def test_a_format_is_found_whatever_the_file_is_called(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "some.file"
    path.write_bytes((GOLDEN / name).read_bytes())
    assert load_model(path).chain.row(2) == {0: 1 / 3, 2: 2 / 3}
    if not name.endswith(".umb"):
        path.write_bytes(gzip.compress(path.read_bytes()))
        assert load_model(path).chain.n == 4


@pytest.mark.parametrize("kind", [*TEXT_FORMATS])
def test_written_chain_equals_the_golden_file(kind: str) -> None:
    chain = load_model(GOLDEN / "kettle.json").chain
    assert chain_as_text(chain, kind) == (GOLDEN / f"kettle.{kind}").read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"hello there",
            "not a chain or model in a known format (create a model with `forewarn "
            "learn`, or use Forewarn's own",
        ),
        (b"", "the file is empty"),
        (b"\xff\xfe\x00", "not a chain or model in a known format"),
        (b'{"format": "forewarn.trace/1"}', "forewarn.trace, but a model is needed"),
        (b'{"some": 1}', "not a chain or model in a known format"),
        (b'{"format": "forewarn.model/1", "states": ["a"], ', "not JSON"),
        (b'{"format": "forewarn.model/1", "alpha": NaN}', "NaN is not a number"),
        (b'{"states": ["a"], "states": ["b"]}', "the key 'states' appears twice"),
        (b"[" * 100_000, "not a chain or model in a known format"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (pickle.dumps({"states": []}), "this is a pickle"),
        (gzip.compress(pickle.dumps([1]), mtime=0), "this is a pickle"),
        (gzip.compress(b"dtmc" * 99, mtime=0)[:-9], "cut off|ended before"),
    ],
)
def test_unknown_model_format_is_rejected_with_its_name(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "M.json"
    path.write_bytes(content)
    with pytest.raises(InvalidModel) as refusal:
        load_model(path)
    assert any(part in str(refusal.value) for part in said.split("|"))
    assert "M.json" in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InvalidModel, match=str(path)):
            load_model(path)


@pytest.mark.parametrize(
    "template",
    [
        '{{"format": "forewarn.model/1", "states": [{states}], "rows": {{}}}}',
        '{{"states": [{states}], "state_index": {{}}, "transition_probs": {{}}}}',
    ],
)
def test_json_with_too_many_states_is_refused(
    tmp_path: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.monitors.chains.chain.MAX_STATES", 100)
    path = tmp_path / "M.json"
    path.write_text(template.format(states=", ".join(f'"s{i}"' for i in range(101))))
    with pytest.raises(TooLarge, match="101 states exceed the limit of 100"):
        load_model(path)
