"""Commands that guard a run, and look at its record again."""
