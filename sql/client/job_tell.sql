SELECT dbinfer._tell_job(%(job)s, %(done)s, %(total)s, %(errors)s, %(last_error)s, %(state)s, dbinfer._ask('dbinfer score'), %(reused)s)
