"""Learning from many guards: tallies, and merging tallies into one model."""
