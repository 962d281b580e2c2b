-- Few rows a page (fillfactor), so that workers, who take pages, share them evenly; large images lie outside the pages.
CREATE TABLE {table} (
    id bigserial /* postgresql: PRIMARY KEY */,
    {path} text NOT NULL UNIQUE,
    {img} bytea NOT NULL
    {label}
)
/* postgresql: WITH (fillfactor = 10) */
/* greenplum: DISTRIBUTED BY ({path}) */;
ALTER TABLE {table} ALTER COLUMN {img} SET STORAGE EXTERNAL;
