-- Rows that were written while their image stayed the same: what is stored of them goes on with their new mark.
UPDATE {stored} done SET {changes}
  FROM (SELECT {keys}, {mark} AS dbinfer_mark, {img} AS dbinfer_img FROM {table} source WHERE (
{where}
) AND {above} AND {upto}) source
 WHERE {done_same} AND done.model OPERATOR(pg_catalog.=) {model} AND done.version OPERATOR(pg_catalog.=) {version} AND {done_above}
   -- in this order: a digest reads the whole image
   AND CASE WHEN done.image_mark OPERATOR(pg_catalog.=) source.dbinfer_mark THEN false ELSE done.image_digest OPERATOR(pg_catalog.=) {digest} END
