"""Runs episodes and campaigns of episodes."""
