"""Live views of a running guard: a web page, and Foxglove."""
