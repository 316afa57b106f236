"""Every plugin that is registered keeps its contract, ours or anyone's."""

from forewarn.plugins.testing import suites

globals().update(suites())
