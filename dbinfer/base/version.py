"""The version of this distribution, read by the build and by `dbinfer --version`."""

__version__ = "0.9.0"
