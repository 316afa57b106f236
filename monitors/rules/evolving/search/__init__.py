"""The search for better rules: edits, steps, and how cautious they are."""
