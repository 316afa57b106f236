"""The risk of a law: the product of chain and automaton, solved once."""
