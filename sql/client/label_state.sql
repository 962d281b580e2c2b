-- The label of one row, who gave it and when.
SELECT l.label, l.who, l.at::pg_catalog.text FROM {labels} l WHERE {this}
