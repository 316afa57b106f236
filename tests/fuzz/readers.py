"""All readers of files and texts, with checks of the content that they accept."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from forewarn.abstractions.abstraction import Abstraction, load_abstraction
from forewarn.abstractions.errors import ForewarnError, SignalFault
from forewarn.abstractions.expression import Expression, parse_expression
from forewarn.abstractions.files import parse_json, read_json
from forewarn.abstractions.readers import read_trace
from forewarn.abstractions.trace import Trace, write_trace
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary, load_vocabulary
from forewarn.monitors.chains.chain import MAX_STATES, Chain
from forewarn.monitors.chains.formats.own import model_as_dict, parse_model
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model, load_model
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.properties import parse_property
from forewarn.monitors.guarding.decision import RANK
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import Policy, load_policy
from forewarn.monitors.guarding.record import line_hash, read_record
from forewarn.monitors.guarding.watch import load_watch
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.lawbook import EDITIONS, law_book
from forewarn.monitors.trust.training import read_sequences
from forewarn.plugins.chat import Message, Replayed, ReplayMismatch
from forewarn.plugins.loop.replay import replay
from forewarn.scenarios.schema import load_scenario
from forewarn.thor_bridge.household.actions import LocalController
from forewarn.thor_bridge.household.scenes import load_scenes
from forewarn.thor_bridge.performing import read_recordings
from tests.fuzz import seeds as valid

DRIVING = load_vocabulary("driving")


@dataclass(frozen=True)
class Reader:
    """A reader of files or texts.

    Args:
        name: The name of the reader and of its seeds.
        suffix: The suffix of its files; empty for texts from the command line.
        read: Reads a file, and checks its content if it is accepted.
        edges: Inputs that are critical only for this reader.
        prepare: Converts a mutated file before it is read.
    """

    name: str
    suffix: str
    read: Callable[[Path], None]
    edges: tuple[bytes, ...] = ()
    prepare: Callable[[bytes], bytes] = bytes

    @property
    def seeds(self) -> tuple[bytes, ...]:
        return valid.seeds()[self.name]


# -- checks --------------------------------------------------------------------------


def check_chain(chain: Chain) -> None:
    assert 1 <= chain.n <= MAX_STATES
    assert len(set(chain.states)) == chain.n
    assert np.isfinite(chain.data).all() and (chain.data > 0).all()
    for i in range(chain.n):
        row = chain.row(i)
        assert abs(math.fsum(row.values()) - 1) <= 1e-9
        assert all(0 <= j < chain.n for j in row)
    if chain.exact is not None:
        assert [float(p) for p in chain.exact] == chain.data.tolist()
        assert all(sum(chain.exact_row(i).values()) == 1 for i in range(chain.n))


def check_model(model: Model) -> None:
    """Checks that the chain is valid, and that writing and reading changes nothing."""
    check_chain(model.chain)
    if model.counts is not None:
        assert (model.counts.seen >= 0).all()
        assert model.visits is not None and (model.visits >= 0).all()
    text = json.dumps(model_as_dict(model), allow_nan=False)
    text.encode()
    again = parse_model(parse_json(text, "again"))
    assert again.chain.states == model.chain.states
    assert again.chain.indices.tolist() == model.chain.indices.tolist()
    assert np.abs(again.chain.data - model.chain.data).max() <= 1e-12
    assert again.chain.labels == model.chain.labels


def check_trace(trace: Trace) -> None:
    last = None
    for frame in trace.frames:
        assert math.isfinite(frame.time_s)
        assert last is None or frame.sequence > last.sequence
        assert last is None or frame.time_s > last.time_s
        for name, value in frame.values.items():
            assert value is None or isinstance(value, bool | str) or value - value == 0
            if trace.vocabulary is not None and trace.vocabulary.knows(name):
                assert trace.vocabulary.check_value(name, value) == value
        last = frame


# -- readers -------------------------------------------------------------------------


def _vocabulary(path: Path) -> None:
    vocabulary = load_vocabulary(path)
    for name, signal in vocabulary.signals.items():
        assert vocabulary.signal(name) is signal
        assert signal.low is None or math.isfinite(signal.low)
    for alias in vocabulary.aliases.values():
        assert alias.signal in vocabulary.signals


def _abstraction(path: Path) -> None:
    abstraction = load_abstraction(path)
    again = Abstraction.from_dict(
        abstraction.as_dict(), "again", abstraction.vocabulary
    )
    assert again.fingerprint() == abstraction.fingerprint()
    frame = dict.fromkeys(abstraction.signals, 1.5)
    for values in (frame, valid.frames()[0].values, {}):
        try:
            bits = abstraction.encode(values)
        except SignalFault:
            continue
        assert abstraction.bits(abstraction.state_name(bits)) == bits


def _policy(path: Path) -> None:
    policy = load_policy(path)
    assert Policy.from_dict(policy.as_dict(), "again") == policy
    assert RANK[policy.fallback] >= RANK["stop"]
    for steps in policy.rules.values():
        assert all(step.applies(math.nan) for step in steps)
        assert all(0 <= step.threshold <= 1 for step in steps)


def _laws(path: Path) -> None:
    for edition in EDITIONS:
        for law in law_book(edition, path).every().values():
            assert parse_formula(repr(law.formula), law.vocabulary) == law.formula


def _scenario(path: Path) -> None:
    scenario = load_scenario(str(path))
    assert scenario.drawn(7) == scenario.drawn(7)
    for plugin in (scenario.world, scenario.pilot):
        json.dumps(scenario.settings(plugin, 7), default=str)
    assert scenario.digest


def _trace(path: Path) -> None:
    trace = read_trace(path)
    check_trace(trace)
    if trace.header.vocabulary in (None, "driving") and not trace.header.period_s:
        return
    again = path.with_suffix(".again.jsonl")
    write_trace(again, trace)
    assert read_trace(again, trace.vocabulary).frames == trace.frames


def _table(path: Path) -> None:
    check_trace(read_trace(path))


def _states(path: Path) -> None:
    sequences = read_sequences(path)
    tally = Tally()
    for row in sequences:
        tally.add_sequence(row)
    _learned(tally, Support("observed"))


def _support(path: Path) -> None:
    _learned(Tally(), Support.declared(read_json(path), str(path)))


def _learned(tally: Tally, support: Support) -> None:
    try:
        model = learn(tally, support, Fraction(1), "absorb")
    except ForewarnError:
        return  # only the caller of `learn` knows the file to name in the message
    check_model(model)


def _model(path: Path) -> None:
    check_model(load_model(path))


def _beside(path: Path) -> None:
    """Reads labels or variables through the transition file next to them."""
    transitions = path.with_suffix(".tra")
    transitions.write_bytes(valid.explicit())
    check_model(load_model(transitions))


def _guarded(path: Path) -> None:
    watch = load_watch(load_model(path), horizon_s=0.5, source=str(path))
    guard = Guard(watch, Policy(), clock=lambda: 0.0)
    for frame in valid.frames()[:4]:
        decision = guard.review(frame)
        if decision.kind == "proceed":
            assert decision.risk is not None
            assert 0 <= decision.risk.point < 0.3


def _record(path: Path) -> None:
    """Checks that a valid record has the original content."""
    found = [line.content for line in read_record(path)]
    assert found == [json.loads(line) for line in valid.record().splitlines()]


def resealed(data: bytes) -> bytes:
    """Recomputes the hashes of a changed record, as an attacker could."""
    head, out = "0" * 64, []
    for number, raw in enumerate(data.splitlines()):
        try:
            content = json.loads(raw)
            del content["hash"]
            if number:
                content["previous"] = head
            body = json.dumps(content, separators=(",", ":"))
            head = line_hash(head, body)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            out.append(raw)
            continue
        out.append(f'{body[:-1]},"hash":"{head}"}}'.encode())
    return b"\n".join(out) + b"\n"


def _replay(path: Path) -> None:
    alike, divergence = replay(path)
    assert alike >= 0 and (divergence is None or str(divergence))


def _replies(path: Path) -> None:
    replies = Replayed(path)
    try:
        reply = replies.reply([Message("user", "find Mug")])
    except ReplayMismatch as refusal:
        assert str(path) in str(refusal)
    else:
        assert reply.tokens_in >= 0 and reply.tokens_out >= 0


def _recordings(path: Path) -> None:
    for recording in read_recordings(path):
        assert isinstance(recording.scene, str)
        assert all(isinstance(done, bool) for _, done in recording.steps)


def _household(path: Path) -> None:
    """Checks that the robot can act in each accepted scene."""
    for name in load_scenes(path):
        controller = LocalController(name, scenes=load_scenes(path))
        told = controller.step("RotateRight").metadata
        json.dumps(told, allow_nan=False)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _expression(path: Path) -> None:
    _parsed(_text(path), parse_expression)


def _formula(path: Path) -> None:
    _parsed(_text(path), parse_formula)


def _parsed(text: str, parse: Callable[[str, Vocabulary | None], Expression]) -> None:
    """Parses a text with and without a vocabulary; fails only if both fail."""
    refusals = []
    for vocabulary in (DRIVING, None):
        try:
            node = parse(text, vocabulary)
        except ForewarnError as error:
            refusals.append(error)
        else:
            assert parse(repr(node), vocabulary) == node
    if len(refusals) == 2:
        raise refusals[0]


def _property(path: Path) -> None:
    chain = Chain.from_rows(["a", "b"], {}, labels={"unsafe": frozenset({1})})
    parse_property(_text(path), Labelling(chain))


def _many_names(key: bytes) -> bytes:
    names = b",".join(b'"s%d"' % i for i in range(MAX_STATES + 1))
    return b'{"format":"forewarn.model/1",' + key + b":[" + names + b"]}"


_EDGES: dict[str, tuple[bytes, ...]] = {
    "own model": (
        _many_names(b'"states"'),
        b'{"format":"forewarn.model/1","states":["a"],"alpha":"1",'
        b'"counts":{"a":{"a":%d}}}' % 10**30,
    ),
    "explicit": (b"10000000 1\n0 0 1", b"dtmc\n0 9999999 1", b"5 99999999\n0 0 1"),
}  # fmt: skip


def _laughs(seed: bytes, key: bytes) -> bytes:
    """Returns a YAML document whose aliases would expand to billions of items."""
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for i in range(1, 10):
        lines.append(b"a%d: &a%d [%s]" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 10)))
    return b"\n".join(lines) + b"\n" + seed.replace(key, b"*a9")


def _yaml_edges(seed: bytes) -> tuple[bytes, ...]:
    return (
        _laughs(seed, b"{}"),
        b"a: &a [*a]\n" + seed,
        b"a: &a {b: *a}\n" + seed.replace(b"{}", b"*a"),
        *(
            seed + b"\nextra: " + odd
            for odd in (
                b"!!timestamp x", b"!!bool x", b"!!int ''", b"!!set {a}", b"2001-99-99",
                b"!!binary '%'", b"? !!set {a}\n: 1", b"{[a]: 1}", b"{{a: 1}: 1}",
                b"&x 1", b"!!python/name:os.system", b"{<<: [1]}", b"{<<: {a: 1}}",
            )
        ),
    )  # fmt: skip


def _reader(
    name: str,
    suffix: str,
    read: Callable[[Path], None],
    prepare: Callable[[bytes], bytes] = bytes,
) -> Reader:
    edges = _EDGES.get(name, ())
    if suffix == ".yaml":
        edges += _yaml_edges(valid.seeds()[name][0])
    return Reader(name, suffix, read, edges, prepare)


READERS = [
    _reader("vocabulary", ".yaml", _vocabulary),
    _reader("abstraction", ".yaml", _abstraction),
    _reader("policy", ".yaml", _policy),
    _reader("laws", ".yaml", _laws),
    _reader("scenario", ".yaml", _scenario),
    _reader("trace", ".jsonl", _trace),
    _reader("table", ".csv", _table),
    _reader("lawbreaker", ".json", _table),
    _reader("states", ".states", _states),
    _reader("support", ".json", _support),
    _reader("own model", ".json", _model),
    _reader("guarded model", ".json", _guarded),
    _reader("explicit", ".tra", _model),
    _reader("labels", ".lab", _beside),
    _reader("variables", ".sta", _beside),
    _reader("probguard", ".json", _model),
    _reader("record", ".jsonl", _record),
    _reader("replay", ".jsonl", _replay, resealed),
    _reader("replies", ".jsonl", _replies),
    _reader("recordings", ".jsonl", _recordings),
    _reader("household", ".json", _household),
    _reader("expression", "", _expression),
    _reader("formula", "", _formula),
    _reader("property", "", _property),
]
