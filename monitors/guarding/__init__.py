"""The guard: gate, policy, decisions, and the record from which they come out again."""
