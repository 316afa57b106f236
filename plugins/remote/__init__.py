"""Guards control loops of other programs, with a server and a single-file client."""
