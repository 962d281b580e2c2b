"""Images that lie outside the database: which stores there are, and who fetches."""
