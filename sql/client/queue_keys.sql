SELECT DISTINCT {texts} FROM {queue} WHERE follower IS NULL LIMIT {most}
