"""The tour's own embedded server: its databases are as the demo leaves them, and no other test has been there."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from common_folders import common_folder
from servers import GREENPLUM_DSN, backend_venv

from dbinfer import server as embedded


@pytest.fixture(scope="session")
def tour_server(session_env: pytest.MonkeyPatch) -> Iterator[embedded.ServerReport]:
    """An embedded server in a state folder that only who asks for it knows."""
    if os.environ.get(GREENPLUM_DSN):
        pytest.skip("needs the embedded server, but the tests run against Greenplum")
    with common_folder("tour") as folder:
        try:
            yield embedded.up(folder, embedded.UpOptions(backend_venv()))
        finally:
            embedded.down(folder)
