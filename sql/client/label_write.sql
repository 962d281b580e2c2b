INSERT INTO {labels} ({keys}, {value}, proposal, who, at)
VALUES ({key}, {given}, {proposal}, {who}, pg_catalog.clock_timestamp())
RETURNING at::pg_catalog.text
