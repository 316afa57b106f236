"""The PRISM language: what is read, and where errors point."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.prism import (
    identifiers,
    is_prism,
    read_prism,
    write_prism,
)
from forewarn.monitors.chains.formats.prism.exploration import MAX_WORK
from forewarn.monitors.chains.model import load_model

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
# Each formula asks twice for the one before it.
DOUBLES = "formula f0 = s;\n" + "\n".join(
    f"formula f{i} = f{i - 1}+f{i - 1};" for i in range(1, 60)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (module("s : [0..1];\n[] s=0 -> 1/2 : (s'=1) + 1/3 : (s'=0);"),
         "m.pm: line 5 column 1: the row of state '0' sums to 5/6, not to 1"),
        (module("s : [0..1];\n[] s=0 -> 1 : (s'=2);"),
         "m.pm: line 5 column 1: 2 is outside the range [0..1] of 's'"),
        (module("s : [0..1];\n[] s=0 -> 1e99 : (s'=1);"),
         "the row of state '0' sums to more than 10, not to 1"),
        (module("s : [0..1];\n[] s=0 -> -1 : (s'=0) + 2 : (s'=1);"),
         "m.pm: line 5 column 1: the probability -1 is negative"),
        (module("s : [0..1];\n[] s=0 -> 1 : (t'=1);"), "'t' is not declared"),
        (module("speed : [0..1];\n[] sped=0 -> (speed'=1);"),
         "line 5 column 4: the name 'sped' is not declared (did you mean speed?)"),
        (module("s : [0..1];\n[] s=0 -> 1/0 : (s'=1);"), "'1/0' divides by zero"),
        (module("s : [0..1];\n[] s=0 -> s/s : (s'=1);"),
         "line 5 column 12: division by zero"),
        (module("s : [0..1];\n[] s=0 -> (s'=1);\n[] s<1 -> (s'=0);"),
         "line 5 column 1 and line 6 column 1: two commands apply in state '0'"),
        (module("s : [0..1];\n[] s=0 & s=1 -> (s'=1);"), "gives 's' two values"),
        (module("s : [0..1];\n[] s=0 -> 1/2 : (s'=1)"),
         "line 6 column 1: expected ';', found 'endmodule'"),
        ("dtmc module m s:[0..1]; [] s=0 -> (s'=", "found 'the end of the file'"),
        (module("s : [0..1]; s : [0..1];"), "variable 's' is declared twice"),
        (module("s : [3..1];"), "the range of 's' is empty"),
        (module("s : [0..1] init 5;"), "initial value of 's' is outside its range"),
        (module("s : [0..k];"), "'k' is not a constant"),
        (module("s : [0..1];", before="const int k;"), "'k' has no value"),
        (module("s : [0..1];", before="const int k = 1/2;"), "not a whole number"),
        (module("s : [0..1];", before="formula f = f + 1;"), "depends on itself"),
        (module("s : [0..1];\n[] s=0 -> §;"), "unexpected character '§'"),
        (module("s : [0..1];\n[] s=0 -> sqrt(1) : (s'=1);"), "'sqrt' is not supported"),
        (module("s : [0..1];\n[] s=0 -> pow(2, 9999) : (s'=1);"), "too large"),
        (module("s : [0..1];", before=SQUARES), "column 20: the number is too large"),
        (module(f"s : [-{10**19}..1];"), "the number is too large"),
        (module("s : [0..1];\n[] f>1 -> (s'=1);", before="formula f = s=0?1:f;"),
         "a formula depends on itself"),
        (module("s : [0..1];\n[] " + "(" * 500 + "s=0 -> (s'=0);"), "too deeply"),
        (module("s : [0..1];\n[] " + "!" * 500 + "true -> (s'=0);"), "too deeply"),
        (module("", after="module n endmodule"), "several modules"),
        (module(""), "the module has no variable"),
        ("mdp module m endmodule", "this is a mdp"),
        ("module m s:[0..1]; endmodule", "the model kind is missing"),
        ("dtmc", "there is no module"),
        (module("s : [0..1];", after='label "a"=s=0; label "a"=s=1;'), "twice"),
        (module("s : [0..1];", after="init true endinit"), "names 2 states"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidModel) as refusal:
        read_prism(text, "m.pm")
    assert said in str(refusal.value)


def test_a_range_of_ten_million_is_refused_before_it_is_built() -> None:
    with pytest.raises(TooLarge, match=r"m\.pm: 10,000,000 states"):
        read_prism(module("s : [0..9999999];\n[] s=0 -> (s'=1);"), "m.pm")


def test_a_product_that_grows_too_large_is_refused() -> None:
    wheels = "".join(f"x{i} : [0..999] init 0;\n" for i in range(2))
    spokes = "[] x0<999 -> 1/2:(x0'=x0+1) + 1/2:(x1'=mod(x1+1,1000));"
    with pytest.raises(TooLarge, match="states are more than"):
        read_prism(module(wheels + spokes), "m.pm")


STEPS = "".join(f"[] mod(s,200)={i} -> (s'={i});\n" for i in range(200))
EDGES = " + ".join(f"1/40 : (b{i}'=!b{i})" for i in range(40))


@pytest.mark.parametrize(
    "text",
    [
        module(f"s : [0..99998];\n{STEPS}"),
        module("s : [0..99998];", after="".join(
            f'label "l{i}" = mod(s,200)={i};' for i in range(200))),
        module("s : [0..99998];", before="".join(
            f"formula f{i} = mod(s,200)={i};" for i in range(200))),
        module("s : [0..99998];", after="init " + "|".join(
            f"mod(s,999)={i}" for i in range(99)) + " endinit"),
        module("".join(f"b{i} : bool;" for i in range(2000)) + f"[] true -> {EDGES};"),
    ],
    ids=["commands", "labels", "formulas", "init", "variables"],
)  # fmt: skip
def test_a_few_lines_that_would_be_evaluated_for_minutes_are_refused(text: str) -> None:
    assert len(text) < 64_000
    with pytest.raises(TooLarge, match=r"m\.pm: to evaluate [\d,]+ characters in"):
        read_prism(text, "m.pm")


def test_a_command_for_each_state_is_evaluated_in_its_own_alone() -> None:
    lines = "".join(f"[] s={i} -> (s'={(i + 1) % 6000});\n" for i in range(6000))
    assert len(lines) * 6000 > MAX_WORK
    assert read_prism(module(f"s : [0..5999];\n{lines}")).n == 6000


def test_sums_of_odd_fractions_do_not_grow_without_end() -> None:
    odd = "+".join(f"1/{2**300 - 2 * i - 1}" for i in range(30))
    with pytest.raises(InvalidModel, match="line 6 column .*: the number is too large"):
        single(f"\n[] s=0 -> {odd} : (s'=1);")


def test_a_row_that_is_off_by_the_last_digit_is_taken() -> None:
    chain = single("[] s=0 -> 0.3333333333 : (s'=1) + 0.6666666667 : (s'=2);")
    assert chain.row(0)[1] == pytest.approx(1 / 3)
    with pytest.raises(InvalidModel, match="'0' sums to 99997/100000, not to 1"):
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
def test_it_is_known_by_its_beginning(head: str, known: bool) -> None:
    assert is_prism(head) is known


def test_what_is_written_says_the_names() -> None:
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
        chain = load_model(path).chain
        named = load_model(path.with_name(path.stem + ".model.json")).chain
        assert chain.exact == named.exact and chain.exact is not None, path.name
        assert chain.deadlocks == named.deadlocks


def test_a_formula_is_evaluated_once_a_state_however_often_it_is_named() -> None:
    chain = read_prism(module("s : [0..1];\n[] f59>0 -> (s'=0);", before=DOUBLES))
    assert chain.deadlocks == (0,)
    assert chain.row(1) == {0: 1.0}
