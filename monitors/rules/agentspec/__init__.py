"""AgentSpec's rules: reading its text form as people write it."""
