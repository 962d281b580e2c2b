BEGIN
  IF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
    INSERT INTO {queue} ({keys}) VALUES ({new});
  ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
    INSERT INTO {queue} ({keys}) VALUES ({old});
  ELSE
    INSERT INTO {queue} ({keys}) VALUES ({old}), ({new});
  END IF;
  RETURN NULL;
END
