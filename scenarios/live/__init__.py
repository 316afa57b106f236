"""Live views of a running guard: in a web page, in Foxglove, or on the terminal."""
