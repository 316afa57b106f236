"""The expression language of predicates."""

from forewarn.abstractions.expression.parser import (
    parse_expression,
    parse_quantity,
    parse_score,
)
from forewarn.abstractions.expression.tree import Expression

__all__ = ["Expression", "parse_expression", "parse_quantity", "parse_score"]
