INSERT INTO {errors} ({keys}, model, version, reason, at) VALUES ({values}, {model}, {version}, {reason}, pg_catalog.clock_timestamp()) {conflict}
