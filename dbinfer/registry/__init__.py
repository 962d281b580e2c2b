"""The model registry: deploy, list, activate, drop, grant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbinfer._lazy import offer_lazily

if TYPE_CHECKING:
    from dbinfer.registry.deployment import DeployOptions, DeployReport, deploy
    from dbinfer.registry.usage import UsageReport, usage
    from dbinfer.registry.versions import (
        ModelsReport,
        RegistryReport,
        activate,
        alias,
        default,
        drop,
        grant,
        models,
        revoke,
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
