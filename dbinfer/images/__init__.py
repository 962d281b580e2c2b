"""Images on their way into the database: files, archives, the tables that hold them, samples, and true boxes."""
