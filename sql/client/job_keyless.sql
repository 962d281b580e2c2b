SELECT pg_catalog.count(*) FROM {table} source WHERE (
{where}
) AND ({missing})
