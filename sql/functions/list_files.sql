-- In pages, so that no value grows with the store.
CREATE OR REPLACE FUNCTION dbinfer.list_files(folder text)
RETURNS TABLE(reference text, bytes bigint, etag text, modified timestamptz)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10000 COST 1000000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  last text := '';
BEGIN
  LOOP
    FOR reference, bytes, etag, modified IN
      SELECT p.reference, p.bytes, p.etag, p.modified::timestamptz FROM dbinfer._files_page(folder, last, dbinfer._resolve('', folder IS NULL)) p LOOP
      RETURN NEXT;
      last := reference;
    END LOOP;
    EXIT WHEN NOT FOUND;
  END LOOP;
END $$;
COMMENT ON FUNCTION dbinfer.list_files(text) IS
  'the files of a store, or of a folder in it, with their versions: references for dbinfer.image, e.g. SELECT reference, etag FROM dbinfer.list_files(''photos/2024'')';
GRANT EXECUTE ON FUNCTION dbinfer.list_files(text) TO PUBLIC;
