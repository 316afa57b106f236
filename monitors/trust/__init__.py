"""How far a chain can be trusted: fairness, memory, reliability."""
