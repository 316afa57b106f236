"""How far a chain may be trusted: guarantees, fairness, memory, reliability."""
