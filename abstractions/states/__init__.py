"""From frames to abstract states: predicates, what is possible, latching."""
