"""The engine: one set of processes per host and user that holds compiled models and scores for all backends."""
