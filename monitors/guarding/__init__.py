"""The guard: gate, policy, decisions, and the record that reproduces them."""
