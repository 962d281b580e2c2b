"""The embedded server: a private PostgreSQL cluster of this project."""
