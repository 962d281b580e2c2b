SELECT EXISTS (SELECT FROM {queue} WHERE follower OPERATOR(pg_catalog.=) {follower})
