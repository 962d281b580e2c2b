INSERT INTO {labels} ({keys}, label, proposal, who, at)
VALUES ({key}, {label}, {proposal}, {who}, pg_catalog.clock_timestamp())
RETURNING at::pg_catalog.text
