"""The embedded server: a private PostgreSQL cluster of this project."""

from __future__ import annotations

from dbinfer.server.lifecycle import ServerReport, UpOptions, down, status, up

__all__ = ["ServerReport", "UpOptions", "down", "status", "up"]
