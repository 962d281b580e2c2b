"""This host and this process: memory, signals, libraries, the cache of models, and who used what."""
