DELETE FROM {queue} waiting WHERE {listed}
