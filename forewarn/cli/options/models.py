"""The options that name a model, and what it must be of."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import FILE

if TYPE_CHECKING:
    from forewarn.scenarios.schema import Scenario

model_option = partial(
    click.option, "--model", type=FILE, help="The model that the guard warns by."
)
accept_option = click.option(
    "--accept-model",
    "accept",
    is_flag=True,
    help="Take a model of another scenario, vocabulary or period all the same.",
)
of_option = click.option(
    "--of",
    metavar="LAW",
    help="Of a file with several models, each of its own laws: that of this law.",
)
tally_option = click.option(
    "--tally",
    type=FILE,
    help="Where the transitions are counted that are seen while nobody steps in, for"
    " `forewarn merge`; gzipped if it ends in .gz.",
)


def facts_of(scenario: Scenario) -> dict[str, Any]:
    """What a model must be of, to guard a scenario."""
    abstraction = scenario.abstraction
    return {
        "scenario": scenario.name,
        "vocabulary": abstraction.vocabulary and abstraction.vocabulary.name,
        "period_s": abstraction.period_s,
    }
