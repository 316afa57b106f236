"""What a reader sees first: the stage, the sentence below it, a campaign's gallery."""
