"""Running: episodes, campaigns of episodes, and their events."""
