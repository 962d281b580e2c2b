"""The server: which one, what it is and can, connections to it, names in it, and what its backends have."""
