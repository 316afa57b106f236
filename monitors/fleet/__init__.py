"""Learning from many guards: their tallies, and merging these into one model."""
