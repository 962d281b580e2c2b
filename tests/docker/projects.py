"""The compose projects as the tests run them: images of their own tag, free ports, no settings of this shell."""

from __future__ import annotations

import random
from dataclasses import dataclass

from containers import Project, free_port

TAG = "test"
CLEAN = {"DBINFER_PASSWORD": "", "COMPOSE_PROJECT_NAME": "", "COMPOSE_FILE": ""}
DATABASE_IMAGE, CLIENT_IMAGE = f"dbinfer-database:{TAG}", f"dbinfer-client:{TAG}"


@dataclass(frozen=True)
class Database:
    """The running project of docker/database, and how it is reached from outside."""

    project: Project
    dsn: str


def database_project(**values: str) -> Project:
    """Return a project of docker/database, with other values than its file's where they are named."""
    own = {"DBINFER_DATABASE_IMAGE": DATABASE_IMAGE, "DBINFER_PORT": str(free_port()), **values}
    return Project("database", CLEAN | own)


def worker_project(dsn: str) -> Project:
    """Return a project of docker/worker for this database."""
    return Project("worker", CLEAN | {"DBINFER_CLIENT_IMAGE": CLIENT_IMAGE, "DBINFER_DSN": dsn})


def training_project() -> Project:
    """Return a project of docker/training."""
    return Project("training", CLEAN | {"DBINFER_TRAINING_IMAGE": f"dbinfer-training:{TAG}"})


def greenplum_project(base: str) -> Project:
    """Return a project of docker/greenplum on this base image, in a private network that hardly anybody has."""
    own = {
        "GREENPLUM_IMAGE": base,
        "DBINFER_GREENPLUM_IMAGE": f"dbinfer-greenplum:{TAG}",
        "DBINFER_CLIENT_IMAGE": CLIENT_IMAGE,
        "DBINFER_PORT": str(free_port()),
        "DBINFER_SUBNET": f"172.30.{random.randrange(256)}",
    }
    return Project("greenplum", CLEAN | own)
