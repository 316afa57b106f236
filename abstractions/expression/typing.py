"""Units of numeric expressions, and where they do not go together."""

from __future__ import annotations

from forewarn.abstractions.errors import InvalidExpression
from forewarn.abstractions.expression.tree import (
    Arithmetic,
    Call,
    Choice,
    Compare,
    Curve,
    Expression,
    Name,
    Negative,
    Number,
    Past,
)
from forewarn.abstractions.vocabularies.units import PLAIN, Unit, unit


def unit_of(node: Expression) -> Unit | None:
    """The unit of a number; None for one that takes on what it is compared with."""
    match node:
        case Number(unit=name):
            return unit(name) if name else None
        case Name(unit=name):
            return unit(name)
        case Negative(operand=operand):
            return unit_of(operand)
        case Past(operand=operand):
            return unit_of(operand)
        case Curve() | Choice():
            return None
        case Arithmetic(operator="*", left=left, right=right):
            return _product(left, right, 1)
        case Arithmetic(operator="/", left=left, right=right):
            return _product(left, right, -1)
        case _:
            return common_unit(node)


def _product(left: Expression, right: Expression, sign: int) -> Unit | None:
    one, other = unit_of(left), unit_of(right)
    if one is None and other is None:
        return None
    return (one or PLAIN).times(other or PLAIN, sign)


def common_unit(node: Expression) -> Unit | None:
    """The unit in which the operands of a comparison, sum or call are taken.

    Raises:
        InvalidExpression: When they are of different kinds.
    """
    if isinstance(node, Arithmetic) and node.operator in "*/":
        return unit_of(node)
    if not isinstance(node, Arithmetic | Compare | Call):
        return unit_of(node)
    chosen: Unit | None = None
    first: Expression | None = None
    for operand in node.children:
        found = unit_of(operand)
        if found is None:
            continue
        if chosen is None:
            chosen, first = found, operand
        elif not chosen.same_kind(found):
            raise InvalidExpression(
                f"{first!r} and {operand!r} are not of the same unit",
                mend="compare quantities of one kind",
            )
    return chosen
