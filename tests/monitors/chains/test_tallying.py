"""What a guard counts while it runs: all that nobody stepped into, each thing once."""

from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.chains.learning import LiveTally, Tally

STATES = st.lists(st.integers(0, 4), max_size=30)


def name(bits: int) -> str:
    return format(bits, "03b")


def whole(states: list[int]) -> Tally:
    tally = Tally()
    tally.add_sequence([name(bits) for bits in states])
    return tally


@given(STATES, st.sets(st.integers(0, 30)))
def test_an_episode_counts_as_its_trace_whenever_it_is_written(
    states: list[int], written: set[int]
) -> None:
    live, total = LiveTally(), Tally()
    for i, bits in enumerate(states):
        live.observe(bits)
        if i in written:
            total.add(live.take(name, ended=False))
    total.add(live.take(name, ended=True))
    total.add(live.take(name, ended=True))
    assert total == whole(states)


@given(STATES.filter(bool), STATES)
def test_transitions_after_an_intervention_are_not_counted(
    before: list[int], after: list[int]
) -> None:
    live = LiveTally()
    for bits in before:
        live.observe(bits)
    live.stop()
    for bits in after:
        live.observe(bits)
    expected = whole(before)
    expected.ends.clear()
    assert live.take(name, ended=True) == expected
    live.begin()
    for bits in after:
        live.observe(bits)
    assert live.take(name, ended=True) == whole(after)


def test_holding_before_the_start_changes_nothing() -> None:
    live = LiveTally()
    live.stop()
    live.observe(1)
    live.observe(2)
    assert live.take(name, ended=True) == whole([1, 2])


def test_no_step_leads_over_time_that_passed_unseen() -> None:
    live = LiveTally()
    for bits in (1, 1, 2):
        live.observe(bits)
    live.skip()
    for bits in (3, 1):
        live.observe(bits)
    tally = live.take(name, ended=True)
    assert tally.seen[name(2)] == {}
    assert tally.seen[name(3)] == {name(1): 1}
    assert tally.starts == {name(1): 1}
    assert tally.ends == {name(1): 1}


@given(STATES.filter(bool), STATES, STATES)
def test_the_rest_of_an_episode_is_counted_in_another_tally(
    before: list[int], after: list[int], earlier: list[int]
) -> None:
    live, other = LiveTally(), LiveTally()
    for bits in earlier:
        other.observe(bits)
    other.take(name, ended=False)
    for bits in before:
        live.observe(bits)
    live.go_on(other)
    for bits in after:
        live.observe(bits)
        other.observe(bits)
    expected = whole(before)
    expected.ends.clear()
    assert live.take(name, ended=True) == expected
    assert other.take(name, ended=True) == whole([before[-1], *after])
    LiveTally().go_on(other)
    assert other.take(name, ended=True) == Tally()
