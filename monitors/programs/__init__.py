"""Guard programs: small, total programs that decide whether an action is allowed."""
