SELECT {done_names} FROM {stored} done
 WHERE {of_picture} AND ({versions}) AND NOT (done.{first} IS NULL)
