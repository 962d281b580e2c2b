CREATE OR REPLACE VIEW dbinfer.model_versions AS
SELECT v.model AS name,
       v.version,
       coalesce(m.active = v.version, false) AS active,
       v.manifest->>'task' AS task,
       CASE WHEN s.shown THEN ARRAY(SELECT a.alias FROM dbinfer_private.alias a WHERE a.model = v.model AND a.version = v.version ORDER BY 1) END AS aliases,
       CASE WHEN s.shown THEN v.size END AS size,
       CASE WHEN s.shown THEN v.source_digest END AS digest,
       CASE WHEN s.shown THEN v.created_at END AS created_at,
       CASE WHEN s.shown THEN v.created_by END AS created_by,
       CASE WHEN s.shown THEN v.manifest END AS manifest,
       CASE WHEN s.shown THEN v.trial END AS trial,
       CASE WHEN s.shown THEN (SELECT sum(octet_length(d.data)) FROM dbinfer_private.model_part p
         JOIN dbinfer_private.part d ON d.digest = p.digest WHERE p.version_id = v.id AND p.kind = 'keras') END AS source_size,
       CASE WHEN s.shown THEN v.xml_digest || ' ' || v.bin_digest END AS files
  FROM dbinfer_private.model_version v
  JOIN dbinfer_private.model m ON m.name = v.model
  JOIN dbinfer._shown_models s ON s.model = v.model
 WHERE v.tower IS NULL;
COMMENT ON VIEW dbinfer.model_versions IS
  'one row per version of every model; only those who may use or administer a model see more than its name, versions, task and which is active, e.g. SELECT name, version, active, trial FROM dbinfer.model_versions';
COMMENT ON COLUMN dbinfer.model_versions.name IS 'name of the model';
COMMENT ON COLUMN dbinfer.model_versions.version IS 'number of the version; never used twice';
COMMENT ON COLUMN dbinfer.model_versions.active IS 'whether the plain name means this version';
COMMENT ON COLUMN dbinfer.model_versions.task IS 'classification, segmentation, detection, embedding or tensor';
COMMENT ON COLUMN dbinfer.model_versions.aliases IS 'its aliases';
COMMENT ON COLUMN dbinfer.model_versions.size IS 'bytes of its files';
COMMENT ON COLUMN dbinfer.model_versions.digest IS 'SHA-256 of the deployed files';
COMMENT ON COLUMN dbinfer.model_versions.created_at IS 'when it was deployed';
COMMENT ON COLUMN dbinfer.model_versions.created_by IS 'who deployed it';
COMMENT ON COLUMN dbinfer.model_versions.manifest IS 'how images become its input, and what its output means';
COMMENT ON COLUMN dbinfer.model_versions.trial IS 'what dbinfer deploy measured: milliseconds by number of threads, batches, precision';
COMMENT ON COLUMN dbinfer.model_versions.source_size IS 'bytes of its Keras file, with which dbinfer train --from begins; NULL without one';
COMMENT ON COLUMN dbinfer.model_versions.files IS 'SHA-256 of the network and of its weights as they are stored; two versions with the same files and manifest answer alike';
GRANT SELECT ON dbinfer.model_versions TO PUBLIC;
