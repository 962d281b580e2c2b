-- As create_images.sql, with references in the place of images.
CREATE TABLE {table} (
    id bigserial /* postgresql: PRIMARY KEY */,
    {path} pg_catalog.text NOT NULL /* postgresql: UNIQUE */,
    etag pg_catalog.text,
    bytes pg_catalog.int8
    {label},
    file_modified pg_catalog.timestamptz,
    loaded_at pg_catalog.timestamptz DEFAULT pg_catalog.now()
)
/* postgresql: WITH (fillfactor = 10) */
/* greenplum: DISTRIBUTED BY (id) */
