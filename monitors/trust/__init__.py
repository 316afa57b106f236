"""How far a chain may be trusted: fairness, memory, reliability."""
