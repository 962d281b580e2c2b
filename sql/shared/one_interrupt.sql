except KeyboardInterrupt:
  # Greenplum queues two for one cancel, and the second would end the next statement of the session. A call looks for it.
  try:
    int()
  except KeyboardInterrupt:
    pass
  raise
