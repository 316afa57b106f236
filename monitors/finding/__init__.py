"""Finding predicates: which conditions tell a violation that is coming, from runs."""
