-- The last key of the next batch, and its number of rows. The index gives the keys in their order, from the last batch's end on.
SELECT pg_catalog.count(*) OVER (), {texts} FROM ({rows} ORDER BY {source_keys} LIMIT {size}) batch ORDER BY {descending} LIMIT 1
