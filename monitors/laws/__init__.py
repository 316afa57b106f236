"""Laws: temporal formulas, the law book, and the automata that monitor them."""
