"""Household tasks: how they begin, what they ask, and how they were done."""
