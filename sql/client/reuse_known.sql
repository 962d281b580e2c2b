-- One answer to each picture, whichever is found first. A row without a result may be one whose image was bad for a while.
SELECT wanted.dbinfer_digest, {found_names}
  FROM (SELECT DISTINCT picture.dbinfer_digest FROM {pictures} picture) wanted
 CROSS JOIN LATERAL ({answers} LIMIT 1) found
