"""The language of properties: its words, its parser, its formulas."""
