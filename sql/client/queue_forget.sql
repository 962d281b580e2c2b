DELETE FROM {queue} WHERE NOT (follower IS NULL)
