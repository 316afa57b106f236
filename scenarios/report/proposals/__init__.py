"""A proposed change of rules as a page, for whoever accepts or refuses it."""
