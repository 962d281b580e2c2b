"""The model registry: deploy, list, activate, drop, grant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbinfer.base.lazy import offer_lazily

if TYPE_CHECKING:
    from dbinfer.models.deployment import DeployOptions, DeployReport, deploy
    from dbinfer.models.registry import (
        ModelsReport,
        RegistryReport,
        UsageReport,
        activate,
        alias,
        default,
        drop,
        grant,
        models,
        revoke,
        usage,
    )

__all__ = [
    "DeployOptions",
    "DeployReport",
    "ModelsReport",
    "RegistryReport",
    "UsageReport",
    "activate",
    "alias",
    "default",
    "deploy",
    "drop",
    "grant",
    "models",
    "revoke",
    "usage",
]

offer_lazily(__name__)
