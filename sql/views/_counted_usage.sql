-- The counters as they are now, in the data directories. Functions in a view run with its reader's rights.
CREATE OR REPLACE VIEW dbinfer._counted_usage AS
SELECT e->>'source' AS source,
       (e->>'role')::oid AS role_oid,
       (e->>'version')::integer AS version_id,
       (e->>'rows')::bigint AS rows,
       (e->>'seconds')::double precision AS seconds,
       to_timestamp((e->>'last_used')::double precision) AS last_used,
       e->'times' AS times,
       e->'errors' AS errors
  FROM (
    SELECT jsonb_array_elements(t::jsonb) AS e
      FROM (SELECT t FROM dbinfer._usage() t UNION ALL SELECT dbinfer._coordinator_usage()) f
  ) s;
COMMENT ON VIEW dbinfer._counted_usage IS 'internal: one row per data directory, role and version; see dbinfer.usage';
GRANT SELECT ON dbinfer._counted_usage TO PUBLIC;
