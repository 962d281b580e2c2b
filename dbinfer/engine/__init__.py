"""The engines of the database's hosts: what they hold, how to end them, and how to run one as a service."""

from __future__ import annotations

from dbinfer.engine.hosts import EngineOptions, EngineReport, HostEngine, check_engines, engine
from dbinfer.engine.service import ServiceOptions, serve

__all__ = [
    "EngineOptions",
    "EngineReport",
    "HostEngine",
    "ServiceOptions",
    "check_engines",
    "engine",
    "serve",
]
