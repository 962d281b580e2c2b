SELECT reference, etag, bytes, modified::pg_catalog.timestamptz FROM dbinfer._files_page(%(folder)s, %(last)s, dbinfer._resolve('', false))
