"""Learning from many: tallies that guards keep, and how they come into one model."""
