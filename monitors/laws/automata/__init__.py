"""Laws compiled to automata, and automata drawn for people."""
