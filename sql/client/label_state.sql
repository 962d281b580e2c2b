-- The answer of one row, who gave it and when.
SELECT l.{value}::pg_catalog.text, l.who, l.at::pg_catalog.text FROM {labels} l WHERE {this}
