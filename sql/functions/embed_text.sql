-- The text goes as its bytes, the way of an image.
CREATE OR REPLACE FUNCTION dbinfer.embed_text(text text, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS real[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('embed_text', pg_catalog.convert_to(text, 'UTF8'),
                     dbinfer._resolve(coalesce(model, '') OPERATOR(pg_catalog.||) '#text', false /* greenplum: OR text IS NULL */), on_error, 0)::real[]
$$;
COMMENT ON FUNCTION dbinfer.embed_text(text, text, text) IS
  'embedding of a text, to compare with those that dbinfer.embed gives of images by the same model, e.g. SELECT dbinfer.embed_text(''a red car'', ''clip'')';
GRANT EXECUTE ON FUNCTION dbinfer.embed_text(text, text, text) TO PUBLIC;
