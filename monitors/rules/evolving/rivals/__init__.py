"""Others that learn from the same bits, and how all fare on what was held out."""
