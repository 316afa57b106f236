"""Finding predicates: learning from runs which conditions predict a violation."""
