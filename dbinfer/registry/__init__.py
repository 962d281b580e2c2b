"""The model registry: deploy, list, activate, drop, grant."""

from __future__ import annotations

from dbinfer.registry.deploy import DeployOptions, deploy
from dbinfer.registry.versions import activate, drop, grant, models, revoke, set_alias, set_default

__all__ = [
    "DeployOptions",
    "activate",
    "deploy",
    "drop",
    "grant",
    "models",
    "revoke",
    "set_alias",
    "set_default",
]
