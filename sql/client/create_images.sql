-- On Greenplum rows lie by id, as results of `dbinfer score` do, so that both join where they are; a unique path would have to
-- be the distribution key there, so load itself keeps paths unique, under its lock. Few rows a page (fillfactor), so that workers, who take pages, share them evenly; large images lie outside the pages.
CREATE TABLE {table} (
    id bigserial /* postgresql: PRIMARY KEY */,
    {path} pg_catalog.text NOT NULL /* postgresql: UNIQUE */,
    {img} pg_catalog.bytea NOT NULL
    {label},
    file_modified pg_catalog.timestamptz,
    loaded_at pg_catalog.timestamptz DEFAULT pg_catalog.now()
)
/* postgresql: WITH (fillfactor = 10) */
/* greenplum: DISTRIBUTED BY (id) */;
ALTER TABLE {table} ALTER COLUMN {img} SET STORAGE EXTERNAL;
