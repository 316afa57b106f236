"""Regular expressions without backtracking, which match in linear time.

The patterns are those of Rust's regex crate, which pydantic contains. Features that
finite automata do not support, such as backreferences and lookahead, are rejected.
"""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

from forewarn.abstractions.errors import InvalidExpression


class Pattern:
    """A compiled regular expression.

    Args:
        text: The pattern; a leading `(?i)` makes it case-insensitive.

    Raises:
        InvalidExpression: The pattern is malformed, too large, or needs backtracking.
    """

    def __init__(self, text: str) -> None:
        schema = core_schema.str_schema(pattern=text, regex_engine="rust-regex")
        try:
            self._validator = SchemaValidator(schema)
        except SchemaError as error:
            problem = str(error).splitlines()[-1].rpartition("rror: ")[2]
            mend = "write \\ before a special character that is meant literally"
            if text.startswith("*"):
                mend = "a pattern is a regular expression: write .* for any text"
            if "not supported" in problem:
                mend = (
                    "remove backreferences and lookaround, which cannot be matched in "
                    "linear time"
                )
            if "size limit" in problem:
                mend = "use fewer repetitions, or write [A-Za-z0-9_] in place of \\w"
            raise InvalidExpression(
                problem[0].lower() + problem[1:],
                place=f"the pattern {text!r:.60}",
                mend=mend,
            ) from None

    def found_in(self, text: str) -> bool:
        """Whether any part of the text matches the pattern."""
        # The validator would reject text that cannot be encoded.
        text = text.encode(errors="replace").decode()
        return self._validator.isinstance_python(text)


@lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    """Compiles a pattern; results are cached."""
    return Pattern(text)
