"""File formats of chains and models: each module reads one, most write it too."""
