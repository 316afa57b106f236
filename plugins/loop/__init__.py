"""The guarded loop: what is done about a decision, and whether it was obeyed."""
