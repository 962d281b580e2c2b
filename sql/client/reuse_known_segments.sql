-- Greenplum: digests and answers move between segments, images do not.
SELECT DISTINCT ON (found.image_digest) found.image_digest AS dbinfer_digest, {found_names}
  FROM ({answers}) found ORDER BY found.image_digest
