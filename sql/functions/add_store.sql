-- Superusers only, by their EXECUTE: a store reads files and reaches hosts with the server's rights.
CREATE OR REPLACE FUNCTION dbinfer.add_store(name text, url text, endpoint text DEFAULT NULL, region text DEFAULT NULL,
                                             secret text DEFAULT NULL, private boolean DEFAULT false, seconds integer DEFAULT 30)
RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  scheme text := split_part(url, '://', 1);
  rest text := regexp_replace(substr(url, strpos(url, '://') + 3), '/+$', '');
BEGIN
  PERFORM dbinfer_private.lock_registry();
  IF (name ~ '^[A-Za-z_][A-Za-z0-9_-]{0,62}$') IS NOT TRUE THEN
    RAISE invalid_name USING MESSAGE = format('%L is not a valid name for a store', name),
      HINT = 'A name starts with a letter and has only letters, digits, _ and -.';
  ELSIF (strpos(url, '://') > 0 AND scheme IN ('s3', 'gs', 'az', 'https', 'http', 'file')) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not the address of a store', url),
      HINT = 'Use s3://bucket/folder, gs://bucket/folder, az://container/folder, https://host/folder or file:///folder.';
  ELSIF rest = '' OR rest ~ '[[:cntrl:][:space:]?#@%\\]' OR regexp_replace('/' || rest || '/', '^//', '/') ~ '/[.]{0,2}/'
        OR (scheme = 'file') <> (rest ~ '^/') THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L names no folder', url),
      HINT = 'Write it without empty names, . and .., user names, spaces and any of ? # % \; a folder of the hosts has three slashes: file:///srv/photos.';
  ELSIF scheme = 'http' AND private IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not encrypted', url), HINT = 'Use https, or, on a network of your own, private => true.';
  ELSIF endpoint IS NOT NULL AND (endpoint !~ '^https?://[A-Za-z0-9.:\[\]-]+$' OR scheme NOT IN ('s3', 'gs', 'az')) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not the endpoint of such a store', endpoint),
      HINT = 'An endpoint is scheme, host and port of an object store, e.g. https://minio.example.com:9000.';
  ELSIF endpoint ~ '^http:' AND private IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not encrypted', endpoint), HINT = 'Use https, or, on a network of your own, private => true.';
  ELSIF scheme = 'az' AND endpoint IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a store of Azure needs its endpoint', HINT = 'Name it: endpoint => ''https://ACCOUNT.blob.core.windows.net''.';
  ELSIF secret IS NOT NULL AND (secret !~ '^/' OR scheme NOT IN ('s3', 'gs', 'az')) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not the secret of such a store', secret),
      HINT = 'A secret is the absolute path of a JSON file on the database hosts that only the server''s user can read.';
  ELSIF (seconds BETWEEN 1 AND 3600) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%s seconds is no limit for an image', coalesce(seconds::text, 'NULL')), HINT = 'Use 1 to 3600.';
  END IF;
  DELETE FROM dbinfer_private.store s WHERE s.name = add_store.name;
  INSERT INTO dbinfer_private.store VALUES (add_store.name, scheme || '://' || rest, add_store.endpoint, add_store.region, add_store.secret,
                                            coalesce(add_store.private, false), add_store.seconds);
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.add_store(text, text, text, text, text, boolean, integer) IS
  'declares where images lie outside the database, or changes it; only superusers, and at first only they may read there, e.g. SELECT dbinfer.add_store(''photos'', ''s3://bucket/photos'', region => ''eu-central-1'', secret => ''/etc/dbinfer/photos.json'')';
REVOKE ALL ON FUNCTION dbinfer.add_store(text, text, text, text, text, boolean, integer) FROM PUBLIC;
