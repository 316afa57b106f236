"""Rules: when something is about to happen and conditions hold, step in."""
