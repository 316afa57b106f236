"""Rules that intervene when an action is proposed under given conditions."""
