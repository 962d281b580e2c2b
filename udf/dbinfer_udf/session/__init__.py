"""The session of a backend: which model a statement may use, by whose right, and for how long."""
