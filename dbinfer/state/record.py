"""What the embedded server remembers between commands, and the files that libpq reads."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from psycopg2.extensions import make_dsn

from dbinfer.errors import ServerError
from dbinfer.state.home import Home

USER = DATABASE = "dbinfer"


@dataclass
class State:
    """The content of server.json; `own_venv` is false when the user named the venv."""

    port: int = 0
    version: str = ""
    bindir: str = ""
    socket_dir: str = ""
    venv: str = ""
    own_venv: bool = True
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


def load(home: Home) -> State | None:
    """Return what is recorded; None when no server was ever set up here.

    Raises:
        ServerError: the file belongs to another user, or is damaged.
    """
    try:
        return State(**json.loads(home.state.read_text()))
    except FileNotFoundError:
        return None
    except PermissionError as err:
        raise ServerError(
            f"the embedded server in {home.path} belongs to another user",
            "Run dbinfer as that user, or choose a folder of your own with DBINFER_HOME.",
        ) from err
    except (ValueError, TypeError) as err:
        raise ServerError(
            f"{home.state} is damaged: {err}",
            f"Restore it, or move the folder {home.path} away and start over.",
        ) from err


def save(home: Home, state: State) -> None:
    """Write server.json, the passfile and the service file, each readable by its owner only."""
    _write(home.state, json.dumps(asdict(state), indent=1) + "\n")
    # For every host and port: either may change at the next start
    _write(home.passfile, f"*:*:*:{USER}:{state.password}\n")
    service = {"host": state.socket_dir, "port": state.port, "dbname": DATABASE, "user": USER}
    lines = [f"{key}={value}" for key, value in {**service, "passfile": home.passfile}.items()]
    _write(home.servicefile, "\n".join(["[dbinfer]", *lines, ""]))


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    # Made with its mode: a chmod afterwards would leave a moment in which others can read the password
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        handle.write(text)
    temporary.replace(path)


def dsn(home: Home, state: State, database: str = DATABASE) -> str:
    """Return the connection string over the unix socket; the password stays in the passfile."""
    return make_dsn(
        host=state.socket_dir, port=state.port, dbname=database, user=USER, passfile=str(home.passfile)
    )
