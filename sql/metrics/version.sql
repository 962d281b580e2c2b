SELECT release, 1 FROM dbinfer.version
