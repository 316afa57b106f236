"""Roads: lanes and the links between them, and the ways that lead over them."""
