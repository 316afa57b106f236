"""A guard for someone else's loop: a server, and a client that is one file."""
