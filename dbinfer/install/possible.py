"""Whether a server can have dbinfer at all: its kind, the role that asks, PL/Python; one sentence where it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import InstallError
from dbinfer.database.connection import one
from dbinfer.database.platform import STRANGERS, Platform

# The role in which each service keeps what it leaves of a superuser, and its name
SERVICES = {
    "rds_superuser": "Amazon RDS or Aurora",
    "alloydbsuperuser": "Google AlloyDB",
    "cloudsqlsuperuser": "Google Cloud SQL",
    "azure_pg_admin": "Azure Database for PostgreSQL",
    "supabase_admin": "Supabase",
    "neon_superuser": "Neon",
    "avnadmin": "Aiven",
    "doadmin": "DigitalOcean",
    "tsdbadmin": "Timescale",
}
# The upgrades and the functions name what came with it; Greenplum 6 gets texts of its own
OLDEST = 120000
BESIDE = (
    "Run a PostgreSQL of your own beside it, which reads the images there: docs/platforms.md#managed-services"
)
ROLE_QUERY = "SELECT rolname, rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user"
LANGUAGE_QUERY = (
    "SELECT (SELECT count(*) FROM pg_catalog.pg_language WHERE lanname = 'plpython3u')"
    " + (SELECT count(*) FROM pg_catalog.pg_available_extensions WHERE name = 'plpython3u')"
)
SERVICE_QUERY = "SELECT rolname FROM pg_catalog.pg_roles WHERE rolname = ANY (%s)"


@dataclass(frozen=True)
class Offer:
    """What a server offers to the role that asks.

    Attributes:
        role: its name; superuser: whether it is one.
        python: whether PL/Python 3 is there, or can be made.
        service: the managed service that the roles of the server point to; "" without one.
        sign: the role that points to it.
    """

    role: str
    superuser: bool
    python: bool
    service: str = ""
    sign: str = ""


def check_server(platform: Platform) -> None:
    """Refuse servers on which nothing of dbinfer could run, and sessions that see one node of a cluster alone.

    Raises:
        InstallError: another kind of server, one that is too old, a relative of Greenplum that lacks something, or
            utility mode.
    """
    if platform.name in STRANGERS:
        raise InstallError(f"{STRANGERS[platform.name]} {platform.version} has no PL/Python 3", BESIDE)
    if not platform.mpp:
        if platform.kernel < OLDEST:
            raise InstallError(
                f"{platform} is too old: dbinfer needs a server that is PostgreSQL 12 or newer inside",
                "Upgrade the server; docs/platforms.md says on which ones dbinfer was run.",
            )
        return
    if platform.features.lacking:
        missing = ", ".join(platform.features.lacking)
        raise InstallError(
            f"{platform.name} {platform.version} lacks what dbinfer needs on a cluster: {missing}",
            "Use a newer release; docs/platforms.md says which servers have it.",
        )
    if platform.features.role == "utility":
        raise InstallError(
            "this session is in utility mode (gp_role), which reaches one node of the cluster alone",
            "Connect to the coordinator without gp_role=utility in $PGOPTIONS and in the connection string.",
        )


def note(platform: Platform) -> str:
    """Return what is unusual about the server, as a sentence that follows another; "" for most."""
    return f" Note: {platform.warning}." if platform.warning else ""


def check_offer(cur: Cursor, platform: Platform) -> None:
    """Refuse a role and a server with which no function in PL/Python can be made.

    Raises:
        InstallError: no superuser, or no PL/Python.
    """
    found = offer(cur)
    if not (found.superuser and found.python):
        raise refusal(found, platform)


def offer(cur: Cursor) -> Offer:
    """Ask the catalog; nothing is tried, because a refused statement would abort the transaction."""
    cur.execute(ROLE_QUERY)
    role, superuser = cur.fetchone() or ("", False)
    cur.execute(LANGUAGE_QUERY)
    python = bool(one(cur))
    cur.execute(SERVICE_QUERY, (list(SERVICES),))
    signs = {row[0] for row in cur.fetchall()}
    sign = next((name for name in SERVICES if name in signs), "")
    return Offer(role, superuser, python, SERVICES.get(sign, ""), sign)


def refusal(found: Offer, platform: Platform) -> InstallError:
    """Return the sentence for an offer that is not enough."""
    if found.service and not found.superuser:
        service = f"{found.service} (its role {found.sign!r} is here)"
        if found.python:
            message = f"role {found.role!r} is not a superuser, and {service} makes nobody one"
        else:
            message = f"{service} does not offer PL/Python (language plpython3u), in which dbinfer runs"
        return InstallError(message, BESIDE)
    if found.superuser:
        return InstallError("the server does not have PL/Python (language plpython3u)", _cure(platform))
    if found.python:
        return InstallError(
            f"role {found.role!r} is not a superuser, and creating functions in PL/Python takes one",
            "Connect as a superuser.",
        )
    return InstallError(
        f"role {found.role!r} is not a superuser, and the server does not have PL/Python (language plpython3u)",
        f"Where you can have both: {_cure(platform)} Else: {BESIDE}",
    )


def _cure(platform: Platform) -> str:
    if platform.features.family:
        return "Install the PL/Python 3 of that server on all of its hosts; docs/platforms.md says where it comes from."
    return f"Install it on the server's host: apt-get install postgresql-plpython3-{platform.kernel // 10000}"
