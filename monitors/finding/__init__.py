"""Finding predicates: learning from runs which conditions announce a violation."""
