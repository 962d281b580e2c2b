-- Objects that test_resolve_parallel.py queries.
CREATE VIEW public.labelled AS SELECT id, (dbinfer.classify(img, 'colours')).label FROM images;
CREATE FUNCTION public.looped() RETURNS TABLE (label text) LANGUAGE plpgsql AS $$
DECLARE
  r record;
  n bigint;
BEGIN
  EXECUTE 'SELECT count(dbinfer.classify(img, $1)) FROM images' INTO n USING 'colours';
  ASSERT n = 120;
  FOR r IN SELECT dbinfer.classify(img, 'colours') AS c FROM images ORDER BY id LOOP
    label := (r.c).label;
    RETURN NEXT;
  END LOOP;
END $$;
CREATE FUNCTION public.catching(b bytea) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
  RETURN (dbinfer.classify(b, 'colours')).label;
EXCEPTION WHEN data_exception OR invalid_binary_representation THEN
  RETURN 'bad';
END $$;
