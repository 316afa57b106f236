"""A guard for another program's loop: a server, and a single-file client."""
