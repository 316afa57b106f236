"""Watching a guard while it guards: a page, and Foxglove."""
