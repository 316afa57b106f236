"""Guard programs: small programs that always terminate and allow or deny an action."""
