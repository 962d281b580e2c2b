-- The image of one row, if it is not too large for a page, and its bytes. OFFSET 0: an image of a store is fetched once.
SELECT pg_catalog.octet_length(x.img), CASE WHEN pg_catalog.octet_length(x.img) OPERATOR(pg_catalog.<=) {limit} THEN x.img END
  FROM (SELECT {img} AS img FROM {table} i WHERE {this} OFFSET 0) x
