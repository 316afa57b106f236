"""Markov chains in the PRISM language: one `dtmc` module, read and written exactly.

A module with a single variable has one state for each value of its range, also
for values that cannot be reached, and the state's name is the value. With several
variables the states are those that the initial state can reach.
"""

from forewarn.abstractions.errors import InvalidModel
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.prism.exploration import Exploration
from forewarn.monitors.chains.formats.prism.parser import Parser, is_prism
from forewarn.monitors.chains.formats.prism.writing import identifiers, write_prism

__all__ = ["identifiers", "is_prism", "read_prism", "write_prism"]


def read_prism(text: str, source: str = "") -> Chain:
    """The chain that a PRISM-language text describes."""
    parser = Parser(text, source)
    model = parser.parse()
    if not model.variables:
        raise InvalidModel("the module has no variable", source=source)
    try:
        return Exploration(model, parser.read).build()
    except InvalidModel as error:
        raise error.within(source) from None
    except RecursionError:
        raise InvalidModel("a formula depends on itself", source=source) from None
