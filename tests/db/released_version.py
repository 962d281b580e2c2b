"""A released version of dbinfer, installed as it was: its SQL, its runtime and its way to deploy, frozen in one file.

`released/VERSION.json.gz` holds upgrades, re-runnable SQL and runtime modules of that release, and three models as it
prepared them: m@1 and m@2 answer their number whatever the image, secret answers 5.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
from asking import rows
from psycopg2.extensions import connection as Connection

from dbinfer.database.platform import detect


class Release:
    """What a released version would install.

    Args:
        version: its number.
    """

    def __init__(self, version: str) -> None:
        packed = (Path(__file__).parent / "released" / f"{version}.json.gz").read_bytes()
        self.content: dict[str, Any] = json.loads(gzip.decompress(packed))

    def install(self, dsn: str, settings: dict[str, str]) -> None:
        """Do what its `dbinfer install` did."""
        with closing(psycopg2.connect(dsn)) as connection, connection:
            platform = detect(connection)
            rows(connection, "CREATE EXTENSION IF NOT EXISTS plpython3u")
            for _name, _digest, sql in self.content["upgrades"]:
                rows(connection, platform.adapt(sql))
            for name, digest, _sql in self.content["upgrades"]:
                rows(connection, "INSERT INTO dbinfer_private.upgrade SELECT %s, %s, now()", name, digest)
            for sql in self.content["rerun"]:
                rows(connection, platform.adapt(sql))
            for module in self.content["modules"].items():
                rows(connection, "INSERT INTO dbinfer_private.runtime_module VALUES (%s, %s)", *module)
            kept = ("version", "runtime_digest", "sql_digest")
            values = {name: self.content[name] for name in kept} | {"made_extension": "True"} | settings
            with connection.cursor() as cursor:
                values |= platform.host_settings(cursor)
            for setting in values.items():
                rows(connection, "SELECT dbinfer_private.set_setting(%s, %s)", *setting)

    def deploy(self, dsn: str) -> None:
        """Deploy its models as its `dbinfer deploy` did: m@1, m@2 (active), and secret, granted to nobody."""
        with closing(psycopg2.connect(dsn)) as connection, connection:
            for model in self.content["models"]:
                _deploy(connection, model)
            rows(connection, "SELECT dbinfer.grant_model('m', 'public')")
            rows(connection, "SELECT dbinfer.set_alias('m', 'first', 1)")


def _deploy(connection: Connection, model: dict[str, Any]) -> None:
    files = {"xml": model["xml"].encode(), "bin": base64.b64decode(model["bin"])}
    digests = {kind: hashlib.sha256(data).hexdigest() for kind, data in files.items()}
    facts: dict[str, Any] = {"source_digest": model["digest"], "manifest": model["manifest"]}
    for kind, data in files.items():
        facts |= {f"{kind}_digest": digests[kind], f"{kind}_parts": [digests[kind]] if data else []}
        if data and rows(connection, "SELECT dbinfer_private.missing_parts(%s)", [digests[kind]])[0][0]:
            rows(connection, "SELECT dbinfer_private.add_part(%s, %s)", digests[kind], psycopg2.Binary(data))
    facts["size"] = sum(len(data) for data in files.values())
    rows(connection, "SELECT dbinfer_private.add_version(%s, %s, true)", model["name"], json.dumps(facts))
