-- one client process's share of the rows
SELECT img FROM {table} WHERE id %% %(shares)s = %(share)s
