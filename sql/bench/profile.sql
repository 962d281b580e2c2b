-- microseconds of each step, row by row
SELECT dbinfer.profile(img, %(model)s) FROM (SELECT img FROM {table} WHERE id <= %(rows)s) t
