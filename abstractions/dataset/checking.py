"""Values checked a column at a time, as `Signal.check` checks them one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.frame import Value
from forewarn.abstractions.trace import plain_values
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary

_Check = Callable[[object], Value]


def first_fault(
    columns: Mapping[str, NDArray[Any]],
    vocabulary: Vocabulary | None,
    distinct: Mapping[str, Iterable[Value]] | None = None,
) -> tuple[int, SignalFault] | None:
    """The first frame that holds what it cannot, and what is wrong there.

    Args:
        columns: The signals, as `Trace.columns` has them.
        vocabulary: What they are checked against.
        distinct: Of some columns, values among which are all of theirs.
    """
    found: tuple[int, SignalFault] | None = None
    for name, column in columns.items():
        check = vocabulary.checker(name) if vocabulary else plain_values(name)
        known = (distinct or {}).get(name)
        if known is not None and not any(_fault(check, value) for value in known):
            continue
        for at in _suspects(name, column, vocabulary):
            fault = _fault(check, _plain(column[at]))
            if fault is not None:
                if found is None or at < found[0]:
                    found = at, fault
                break
    return found


def _suspects(
    name: str, column: NDArray[Any], vocabulary: Vocabulary | None
) -> Iterable[int]:
    """The frames in which something may be wrong, in order."""
    if column.dtype.kind == "f":
        bad = np.isinf(column)
        signal = vocabulary.signals.get(name) if vocabulary else None
        if signal is not None:
            low = -np.inf if signal.low is None else signal.low
            high = np.inf if signal.high is None else signal.high
            bad |= (column < low) | (column > high)
            if not signal.may_be_none or signal.type != "number":
                bad |= np.isnan(column)
            if signal.type != "number":
                bad[:1] = True
        elif vocabulary is not None:
            bad[:1] = True
        return np.flatnonzero(bad).tolist()
    if column.dtype == bool:
        return range(min(len(column), 1))
    values = column.tolist()
    if len(set(map(type, values)) - {type(None)}) > 1:
        return range(len(values))
    # Of one kind: what is equal is the same.
    numbers = range(len(values))
    return dict(zip(reversed(values), reversed(numbers), strict=True)).values()


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return None if value != value else value


def _fault(check: _Check, value: object) -> SignalFault | None:
    try:
        check(value)
    except SignalFault as fault:
        return fault
    return None
