"""The PRISM language: what is read, and where errors point."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidModel, MissingDependency, TooLarge
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats import storm
from forewarn.monitors.chains.formats.prism import (
    identifiers,
    is_prism,
    read_prism,
    write_prism,
)
from forewarn.monitors.chains.model import load_model
from tests.monitors.published import published

pytestmark = pytest.mark.needs("stormpy")

THIRD = Fraction(1, 3)


def module(body: str, before: str = "", after: str = "") -> str:
    return f"dtmc\n{before}\nmodule m\n{body}\nendmodule\n{after}"


def single(commands: str, top: int = 2, after: str = "") -> Chain:
    return read_prism(
        module(f"s : [0..{top}] init 0;\n{commands}", after=after), "m.pm"
    )


def test_an_explicit_module_is_read_exactly() -> None:
    chain = single("[] s=0 -> 1/3 : (s'=1) + 2/3 : (s'=2);\n[] s=1 -> (s'=0);")
    assert chain.states == ("0", "1", "2")
    assert chain.exact_row(0) == {1: THIRD, 2: 2 * THIRD}
    assert chain.exact_row(1) == {0: Fraction(1)}
    assert chain.initial == 0
    assert chain.deadlocks == (2,)
    assert chain.variables["s"].tolist() == [0, 1, 2]


def test_decimals_are_exact_too() -> None:
    chain = single("[go] s=0 -> 0.1 : (s'=1) + 9e-1 : (s'=2);")
    assert chain.exact_row(0) == {1: Fraction(1, 10), 2: Fraction(9, 10)}


def test_updates_to_one_state_add_up() -> None:
    chain = single("[] s=0 -> 1/4 : (s'=1) + 1/4 : (s'=1) + 1/2 : true;")
    assert chain.exact_row(0) == {0: Fraction(1, 2), 1: Fraction(1, 2)}


def test_constants_formulas_labels_and_comments() -> None:
    chain = read_prism(
        module(
            "s : [0..top] init 1; // the state\n"
            "[] !last -> p : (s'=s+1) + 1-p : (s'=max(0, s-1));",
            before="const double p = 1/3; const int top = 3;\nformula last = s=top;\n"
            'label "ends" = last; label "odd" = mod(s, 2) = 1;',
        )
    )
    assert chain.exact_row(2) == {1: 2 * THIRD, 3: THIRD}
    assert chain.exact_row(0) == {0: 2 * THIRD, 1: THIRD}
    assert chain.labels == {"ends": frozenset({3}), "odd": frozenset({1, 3})}
    assert chain.initial == 1


def test_several_variables_are_explored_from_the_initial_state() -> None:
    chain = read_prism(
        module(
            "x : [0..9] init 0; done : bool init false;\n"
            "[] x<2 & !done -> 1/2 : (x'=x+1) + 1/2 : (done'=true);\n"
            "[] x=2 & done=false -> (x'=0) & (done'=true);\n"
            "[] done -> true;"
        )
    )
    assert chain.states == (
        "x=0,done=false", "x=0,done=true", "x=1,done=false", "x=1,done=true",
        "x=2,done=false",
    )  # fmt: skip
    assert chain.row(4) == {1: 1.0}
    assert chain.variables["done"].tolist() == [0, 1, 0, 1, 0]
    assert not chain.deadlocks


def test_a_module_may_rename_another() -> None:
    one = "s : [0..1] init 0; b : bool init false;\n[] s<1 & !b -> (s'=1) & (b'=true);"
    chain = read_prism(module(one, after="module two = m [ s = t, b=c ] endmodule"))
    assert chain.n == 4 and chain.initial == 0
    assert list(chain.variables) == ["s", "b", "t", "c"]
    assert chain.states[0] == "s=0,b=false,t=0,c=false"
    assert chain.deadlocks == (3,)


def test_an_init_block_and_rewards() -> None:
    chain = single(
        "[] true -> (s'=s);",
        after='init s=2 endinit\nrewards "steps" [] true : 1; endrewards',
    )
    assert chain.initial == 2


# Each constant has twice the digits of the one before it.
SQUARES = "const int k0 = 9;\n" + "\n".join(
    f"const int k{i} = k{i - 1}*k{i - 1};" for i in range(1, 60)
)
EDGES = " + ".join(f"1/40 : (b{i}'=!b{i})" for i in range(40))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (module("s : [0..1];\n[] s=0 -> 1/2 : (s'=1) + 1/3 : (s'=0);"),
         "m.pm: the row of state '0' sums to 0.833"),
        (module("s : [0..1];\n[] s=0 -> 1 : (s'=2);"), "an out-of-bounds value (2)"),
        (module("s : [0..1];\n[] s=0 -> 1 : (t'=1);"), "Unknown variable 't'"),
        (module("s : [0..1];\n[] s=0 -> 1/2 : (s'=1)"), "m.pm: Storm rejects the"),
        (module("s : [0..1];", before="const int k;\nformula f = f + 1;"), "rejects"),
        ("mdp\nmodule m s:[0..1]; [] true -> true; endmodule", "of type MDP"),
        (module("s : [0..1];", after="init true endinit"), "2 initial states"),
    ],
)  # fmt: skip
def test_error_is_reported_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidModel) as refusal:
        read_prism(text, "m.pm")
    assert said in str(refusal.value)


def test_a_range_of_ten_million_is_refused_before_it_is_built() -> None:
    with pytest.raises(TooLarge, match=r"m\.pm: 10,000,000 states"):
        read_prism(module("s : [0..9999999];\n[] s=0 -> (s'=1);"), "m.pm")


@pytest.mark.parametrize(
    "text",
    [
        module("s : [0..1];\n[] s=0 -> (s'=mod(k59, 2));", before=SQUARES),
        module("".join(f"b{i} : bool;" for i in range(2000)) + f"[] true -> {EDGES};"),
    ],
    ids=["squares", "variables"],
)
def test_storm_is_stopped_at_its_time_limit(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storm, "STORM_SECONDS", 1)
    with pytest.raises(TooLarge, match="more than 1 s or 600 MB"):
        read_prism(text, "m.pm")


@pytest.mark.parametrize(
    ("number", "before"),
    [
        ("N", "const int N = pow(9, pow(9, pow(9, 9)));"),
        ("pow(3, 41 + s)", ""),
        ("4611686018427387904 * 4 + 1", ""),
        ("9999999999*9999999999", ""),
        (f"pow(10, 20) + 1 - {'*'.join(['2'] * 64)}", ""),
        ("N + 1", "const int N = 9223372036854775807;"),
        ("f", f"formula f = {'*'.join(['(s + 1)'] * 70)};"),
    ],
)
def test_numbers_that_would_wrap_around_are_rejected(number: str, before: str) -> None:
    rule = f"[] true -> 1 : (s'=mod({number}, 2));"
    with pytest.raises(InvalidModel, match="a whole number may exceed 62 bits"):
        read_prism(module(f"s : [0..1];\n{rule}", before=before), "m.pm")


def test_numbers_that_fit_are_read() -> None:
    rule = "[] true -> pow(0.5, 3) : (s'=min(1, 2*s*s)) + 0.875 : (s'=mod(N, 2));"
    chain = read_prism(module(f"s : [0..1];\n{rule}", before="const int N = pow(3,9);"))
    assert chain.row(0) == {0: 0.125, 1: 0.875}


def test_without_storm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storm, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"forewarn\[storm\]"):
        read_prism(module("s : [0..1];"))


def test_a_row_that_is_off_by_the_last_digit_is_taken() -> None:
    chain = single("[] s=0 -> 0.3333333333 : (s'=1) + 0.6666666666 : (s'=2);")
    assert chain.row(0)[1] == pytest.approx(1 / 3)
    with pytest.raises(InvalidModel, match="Storm rejects the model"):
        single("[] s=0 -> 0.3333333333 : (s'=1) + 0.6666666666 : (s'=9);")
    with pytest.raises(InvalidModel, match="'0' sums to 0.99997"):
        single("[] s=0 -> 0.33333 : (s'=1) + 0.66664 : (s'=2);")


@pytest.mark.parametrize(
    ("head", "known"),
    [
        ("// a model\n\ndtmc\nmodule m", True),
        ("const int k = 1;\ndtmc", True),
        ("dtmc\n0 1 0.5\n", False),
        ("3 4\n0 1 0.5", False),
        ("a b c", False),
    ],
)
def test_prism_is_recognised_by_its_head(head: str, known: bool) -> None:
    assert is_prism(head) is known


def test_written_model_contains_the_names() -> None:
    chain = Chain.from_rows(
        ["idle", 'wa"it\n'],
        {0: {0: THIRD, 1: 2 * THIRD}},
        labels={"bad": frozenset({1})},
    )
    out = io.StringIO()
    write_prism(chain, out)
    assert "[] s=0 -> 1/3 : (s'=0) + 2/3 : (s'=1); // idle" in out.getvalue()
    assert "// wa?it?\n" in out.getvalue()
    again = read_prism(out.getvalue())
    assert again.exact == chain.exact and again.labels == chain.labels


def test_labels_become_names_of_the_language() -> None:
    labels = ["very bad", "very_bad", "2", "é"]
    assert identifiers(labels) == ["very_bad", "very_bad_", "_2", "_"]


def test_a_label_of_thousands_is_one_look_up() -> None:
    union = "|".join(f"s={i}" for i in range(0, 6000, 2))
    after = f'label "even" = {union};\nlabel "low" = s=1|s=2|s<1;'
    chain = single("[] s=0 -> (s'=0);", 6000, after)
    assert chain.labels["even"] == frozenset(range(0, 6000, 2))
    assert chain.labels["low"] == {0, 1, 2}


def test_published_chains_agree_with_their_json(shared_data: Path) -> None:
    files = sorted((shared_data / "models").glob("*.prism"))
    assert len(files) == 12
    for path in files:
        chain = published(path)
        named = load_model(path.with_name(path.stem + ".model.json")).chain
        assert chain.exact == named.exact and chain.exact is not None, path.name
        assert chain.deadlocks == named.deadlocks
