"""What is written comes back: random chains through every format, and Storm's eyes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import string
import tarfile
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidModel, MissingDependency, TooLarge
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats import storm as storm_process
from forewarn.monitors.chains.formats.files import write_chain
from forewarn.monitors.chains.formats.own import model_as_dict, parse_model
from forewarn.monitors.chains.model import Model, load_model

storm = pytest.mark.needs("stormpy")
kinds = pytest.mark.parametrize("kind", ["prism", "drn"])
names = st.text(string.ascii_letters + string.digits + " _:é", min_size=1, max_size=6)
here = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
with_storm = settings(here, max_examples=25)


@st.composite
def chains(draw: st.DrawFn, exact: bool | None = None) -> Chain:
    """Chains of up to six states, in fractions or in doubles, with labels."""
    states = draw(
        st.lists(names.map(str.strip).filter(bool), min_size=1, max_size=6, unique=True)
    )
    n = len(states)
    rational = draw(st.booleans()) if exact is None else exact
    rows: dict[int, dict[int, float | Fraction]] = {}
    for state in range(n):
        weights = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
        total = sum(weights)
        if total:
            rows[state] = {
                j: Fraction(w, total) if rational else w / total
                for j, w in enumerate(weights)
            }
    label = st.frozensets(st.integers(0, n - 1))
    labels = draw(st.dictionaries(st.sampled_from(["bad", "_1", "ok_2"]), label))
    return Chain.from_rows(states, rows, initial=0, labels=labels)


def numbered(chain: Chain) -> Chain:
    """The same with numbers for names, as all formats can say them."""
    rows = {i: chain.exact_row(i) for i in range(chain.n)}
    variables = {"s": np.arange(chain.n)}
    return Chain.from_rows([str(i) for i in range(chain.n)], rows, initial=0,
                           labels=chain.labels, variables=variables)  # fmt: skip


def check_same(found: Chain, wanted: Chain) -> None:
    assert found.states == wanted.states
    assert (found.dense() == wanted.dense()).all()
    assert found.initial == wanted.initial
    assert {k: v for k, v in found.labels.items() if v} == {
        k: v for k, v in wanted.labels.items() if v
    }
    if wanted.exact is not None:
        assert found.exact == wanted.exact


places = count()


def written(chain: Chain, kind: str, folder: Path) -> Path:
    path = folder / f"chain{next(places)}.{kind}"
    write_chain(chain, kind, path)
    return path


@storm
@settings(here, max_examples=5, deadline=None)
@given(chain=chains())
def test_numbers_survive_drn(tmp_path: Path, chain: Chain) -> None:
    chain = numbered(chain)
    check_same(load_model(written(chain, "drn", tmp_path)).chain, chain)


@storm
@settings(here, max_examples=5)
@given(chain=chains())
def test_doubles_and_labels_survive_umb(tmp_path: Path, chain: Chain) -> None:
    found = load_model(written(chain, "umb", tmp_path)).chain
    assert (found.dense() == chain.dense()).all() and found.initial == 0
    for label, members in chain.labels.items():
        assert found.labels.get(label, frozenset()) == members


@storm
@settings(here, max_examples=5)
@given(chain=chains())
def test_numbers_survive_the_prism_language(tmp_path: Path, chain: Chain) -> None:
    found = load_model(written(chain, "prism", tmp_path)).chain
    assert (found.dense() == numbered(chain).dense()).all()


@storm
@settings(here, max_examples=10, deadline=None)
@given(chain=chains())
def test_names_survive_drn(tmp_path: Path, chain: Chain) -> None:
    check_same(load_model(written(chain, "drn", tmp_path)).chain, chain)


@given(chains())
def test_our_own_format_keeps_everything(chain: Chain) -> None:
    again = parse_model(model_as_dict(Model(chain))).chain
    check_same(again, chain)
    assert again.deadlocks == chain.deadlocks and again.labels == chain.labels


@storm
def test_two_variables_survive_drn(tmp_path: Path) -> None:
    source = tmp_path / "m.prism"
    source.write_text(
        "dtmc module m x:[0..3] init 1; b:bool; [] b -> 1/2:(x'=0)+1/2:(b'=false);"
        "[] !b -> (b'=true); endmodule"
    )
    chain = load_model(source).chain
    found = load_model(written(chain, "drn", tmp_path)).chain
    assert found.variables.keys() == chain.variables.keys()
    assert (found.variables["b"] == chain.variables["b"]).all()
    check_same(found, chain)


@storm
def test_a_single_variable_survives_the_prism_language(tmp_path: Path) -> None:
    rows = {0: {1: 1.0}, 1: {2: 0.5, 0: 0.5}}
    values = {"x": np.array([5, 6, 7])}
    labels = {"late": frozenset({1, 2})}
    chain = Chain.from_rows(
        ["5", "6", "7"], rows, initial=1, labels=labels, variables=values
    )
    found = load_model(written(chain, "prism", tmp_path)).chain
    check_same(found, chain)
    assert found.variables["x"].tolist() == [5, 6, 7]


@kinds
def test_the_same_chain_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    chain = Chain.from_rows(["a", "b"], {0: {1: 1.0}}, initial=0)
    first, second = (written(chain, kind, tmp_path).read_bytes() for _ in range(2))
    assert first == second


# Storm


def storm_rows(model: Any) -> np.ndarray:
    matrix = np.zeros((model.nr_states, model.nr_states))
    for state in model.states:
        for action in state.actions:
            for transition in action.transitions:
                matrix[state.id, transition.column] = float(transition.value)
    return matrix


@pytest.mark.needs("stormpy")
@with_storm
@given(chain=chains())
def test_storm_reads_our_drn(tmp_path: Path, chain: Chain) -> None:
    import stormpy

    path = written(chain, "drn", tmp_path)
    model = stormpy.build_model_from_drn(str(path))
    assert storm_rows(model) == pytest.approx(chain.dense(), abs=1e-15)
    assert list(model.initial_states) == [0]
    for label, members in chain.labels.items():
        if members:
            assert set(model.labeling.get_states(label)) == members


@pytest.mark.needs("stormpy")
@with_storm
@given(chain=chains(exact=True))
def test_storm_reads_our_prism(tmp_path: Path, chain: Chain) -> None:
    import stormpy

    program = stormpy.parse_prism_program(str(written(chain, "prism", tmp_path)))
    options = stormpy.BuilderOptions(build_full=True)
    options.set_build_state_valuations(True)
    model = stormpy.build_model(program, options=options)
    values = model.state_valuations
    (variable,) = values.get_all_variables()
    order = [values.get_value(state, variable) for state in range(model.nr_states)]
    assert storm_rows(model) == pytest.approx(chain.dense()[np.ix_(order, order)])


@pytest.mark.needs("stormpy")
def test_rows_that_do_not_sum_to_1_are_rejected_although_storm_accepts_them(
    tmp_path: Path,
) -> None:
    """Why rows are checked by us: Storm builds a chain whose row sums to three."""
    import stormpy

    path = tmp_path / "three.drn"
    good = Chain.from_rows(["a", "b", "c"], {0: {1: 1.0}}, initial=0)
    write_chain(good, "drn", path)
    path.write_text(path.read_text().replace("\t\t1 : 1", "\t\t1 : 1\n\t\t2 : 1", 1))
    assert stormpy.build_model_from_drn(str(path)).nr_transitions == 4
    with pytest.raises(InvalidModel, match="'a' sums to 2, not to 1"):
        load_model(path)


# UMB's own troubles


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.needs("stormpy", "umbi")
def test_others_read_our_umb(tmp_path: Path) -> None:
    import umbi.umb

    chain = Chain.from_rows(["a", "b"], {0: {0: 0.25, 1: 0.75}}, initial=1)
    read = umbi.umb.read(written(chain, "umb", tmp_path))
    assert read.branch_to_probability == [0.25, 0.75, 1.0]
    assert list(map(bool, read.state_is_initial)) == [False, True]


@storm
def test_a_umb_file_may_be_packed_otherwise(tmp_path: Path) -> None:
    path = written(Chain.from_rows(["a", "b"], {0: {1: 1.0}}), "umb", tmp_path)
    plain = gzip.decompress(path.read_bytes())
    for packed in (plain, lzma.compress(plain), bz2.compress(plain)):
        path.write_bytes(packed)
        assert load_model(path).chain.dense().tolist() == [[0, 1], [0, 1]]


@storm
@pytest.mark.parametrize(
    "files",
    [
        {"other.txt": b"x"},
        {"index.json": b"{"},
        {"index.json": b"\xff"},
        {"index.json": b'{"transition-system": {"#states": 10000000000000, '
         b'"#branches": 1}}'},
    ],
)  # fmt: skip
def test_a_broken_umb_file_is_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises((InvalidModel, TooLarge), match=r"m\.umb: Storm"):
        load_model(archive(tmp_path / "m.umb", files))


@storm
def test_umb_rows_are_checked(tmp_path: Path) -> None:
    path = written(Chain.from_rows(["a", "b"], {0: {0: 0.5, 1: 0.5}}), "umb", tmp_path)
    with tarfile.open(path) as packed:
        files = {
            m.name: packed.extractfile(m).read()  # type: ignore[union-attr]
            for m in packed if m.isfile()
        }  # fmt: skip
    for wrong in ([0.9, 0.5, 1.0], [np.nan, 1, 1]):
        changed = np.array(wrong, "<f8").tobytes()
        broken = archive(path, files | {"branch-to-probability.bin": changed})
        with pytest.raises(InvalidModel):
            load_model(broken)


def test_without_storm_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storm_process, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"pip install 'forewarn\[storm\]'"):
        write_chain(Chain.from_rows(["a"], {}), "umb", tmp_path / "m.umb")
    assert not list(tmp_path.iterdir())
