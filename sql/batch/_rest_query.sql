-- Its rows: dbinfer._results of each process that took part in the scan, with what it has left. On a cluster each segment scores
-- its own; gpname is a column of the segment, so that nothing is folded.
CREATE OR REPLACE FUNCTION dbinfer._rest_query(scan text, function text, model text, on_error text)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT pg_catalog.format($q$
  SELECT (r.b).ids, (r.b).texts, (r.b).files, (r.b).handed
    FROM (SELECT dbinfer._rest(%1$L, %2$L, dbinfer._resolve(%3$L, false), %4$L) AS b) r
  /* greenplum: UNION ALL
  SELECT (r.b).ids, (r.b).texts, (r.b).files, (r.b).handed
    FROM (SELECT dbinfer._rest(%1$L, %2$L, dbinfer._resolve(%3$L, gpname IS NULL), %4$L) AS b FROM gp_dist_random('gp_id')) r */
  $q$, function, scan, model, on_error)
$$;
COMMENT ON FUNCTION dbinfer._rest_query(text, text, text, text) IS 'internal: the statement that scores what a scan has left';
GRANT EXECUTE ON FUNCTION dbinfer._rest_query(text, text, text, text) TO PUBLIC;
