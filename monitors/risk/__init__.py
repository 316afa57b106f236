"""The risk of breaking a law, computed on the product of a chain and an automaton."""
