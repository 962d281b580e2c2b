"""Which PostgreSQL of which distribution the matrix runs, and which tests say nothing about a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """One row of the matrix.

    Attributes:
        major: PostgreSQL's major version, of the distribution's own package.
        base: the public image.
        client_python: the Python of the tests and of the client, 3.10 or newer.
    """

    major: int
    base: str
    client_python: str = "python3"

    @property
    def image(self) -> str:
        """The tag of the image that the matrix builds."""
        return f"dbinfer-matrix:{self.major}"

    @property
    def build_arguments(self) -> dict[str, str]:
        """The arguments of tests/matrix/Dockerfile."""
        return {
            "BASE_IMAGE": self.base,
            "POSTGRES_VERSION": str(self.major),
            "CLIENT_PYTHON": self.client_python,
        }


ENGINES = {
    engine.major: engine
    for engine in (
        # bullseye's PL/Python runs Python 3.9, for which there is no client: that runs Python 3.11 in /usr/local
        Engine(13, "python:3.11-slim-bullseye", "/usr/local/bin/python3"),
        Engine(14, "ubuntu:jammy"),
        Engine(15, "debian:bookworm-slim"),
        Engine(16, "ubuntu:noble"),
        Engine(17, "debian:trixie-slim"),
        Engine(18, "debian:sid-slim"),
    )
}

# Files of tests/db that are left out on all engines, and why; the table says so, too
LEFT_OUT = {
    "test_train_*.py": "training runs on the client, with TensorFlow",
    "test_tune_*.py": "the search trains on the client, with TensorFlow",
    "test_report_browser.py": "the browser is the client's",
}

# PART=core: what speaks most of a server's own ways (catalogue, planner, PL/Python); a quarter of the time
CORE = (
    "test_engine_results",
    "test_install_doctor",
    "test_install_twice",
    "test_install_uninstall",
    "test_install_upgrade",
    "test_install_upgrade_from_0_1_0",
    "test_jobs_batches",
    "test_jobs_plan",
    "test_jobs_roles",
    "test_models_deploy",
    "test_privileges_golden",
    "test_resolve_parallel",
    "test_resolve_rights",
    "test_resolve_statements",
    "test_result_sisters",
    "test_result_tables",
    "test_result_values",
    "test_server_lifecycle",
    "test_session_process",
    "test_trust_definer",
    "test_trust_roles",
)
PARTS = {"all": ("tests/db",), "core": tuple(f"tests/db/{name}.py" for name in CORE)}


def select(words: list[str]) -> list[Engine]:
    """Return the engines of these major versions, all of them where none is named.

    Raises:
        ValueError: a word is none of them.
    """
    unknown = [word for word in words if not word.isdigit() or int(word) not in ENGINES]
    if unknown:
        known = " ".join(map(str, ENGINES))
        raise ValueError(f"no engine {unknown[0]!r} in the matrix; there are {known}")
    return [ENGINES[int(word)] for word in words] or list(ENGINES.values())
