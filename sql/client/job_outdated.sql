-- What was stored of another image than the row has now, or of one that is not known.
DELETE FROM {stored} done
 WHERE done.model OPERATOR(pg_catalog.=) {model} AND done.version OPERATOR(pg_catalog.=) {version} AND {done_above}
   AND EXISTS (SELECT FROM (SELECT {keys}, {mark} AS dbinfer_mark, {img} AS dbinfer_img FROM {table} source WHERE (
{where}
) AND {above} AND {upto}) source
                WHERE {done_same}
                  AND CASE WHEN {trusted} THEN false ELSE coalesce(done.image_digest OPERATOR(pg_catalog.<>) {digest}, true) END)
