-- Rows as long as they show the picture that was noted.
SELECT {wanted} FROM ({pictures}) picture JOIN {table} source ON {source_same}
 WHERE (
{where}
) AND {unchanged}
