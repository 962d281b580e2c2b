-- For text of one user that others read, also on terminals: no control characters (C0, C1), nothing that changes the direction
-- of writing or has no width, and a limited length.
CREATE OR REPLACE FUNCTION dbinfer_private.plain(said text, most integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT left(regexp_replace(said, '[\u0001-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]', '?', 'g'), most)
$$;
COMMENT ON FUNCTION dbinfer_private.plain(text, integer) IS 'a text of at most so many characters, without those that control a terminal';
REVOKE ALL ON FUNCTION dbinfer_private.plain(text, integer) FROM PUBLIC;
