"""How far a chain may be trusted: PAC guarantees, fairness, memory, reliability."""
