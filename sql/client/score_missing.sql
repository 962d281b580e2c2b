NOT EXISTS (SELECT FROM {into} done WHERE done.{key} = source.{key})
