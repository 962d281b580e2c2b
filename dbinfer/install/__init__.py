"""Puts dbinfer into a database, brings it up to date, and takes it out again: each in one transaction."""

from __future__ import annotations

from dbinfer.install.installer import (
    InstallOptions,
    InstallReport,
    UpgradeOptions,
    ensure,
    install,
    uninstall,
    upgrade,
)

__all__ = ["InstallOptions", "InstallReport", "UpgradeOptions", "ensure", "install", "uninstall", "upgrade"]
