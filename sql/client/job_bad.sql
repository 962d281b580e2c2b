INSERT INTO {errors} ({keys}, model, version, reason, at{mark_names}) VALUES ({values}, {model}, {version}, {reason}, pg_catalog.clock_timestamp(){marks}) {conflict}
