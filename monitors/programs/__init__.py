"""Guard programs: small, total programs that say whether an action may be done."""
