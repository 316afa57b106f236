"""How likely a law is to be broken: chain and automaton in step, solved once."""
