"""Running: episodes, campaigns of them, and what happened in each."""
