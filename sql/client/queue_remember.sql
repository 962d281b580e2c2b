INSERT INTO {queue} (follower) VALUES ({follower})
