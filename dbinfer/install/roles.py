"""The roles of dbinfer: one that may deploy and manage models, and 0.1.0's owner, which becomes its member."""

from __future__ import annotations

from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import one
from dbinfer.errors import InstallError

ADMIN = "dbinfer_admin"
ADMIN_COMMENT = "dbinfer: its members deploy and manage models, and may do nothing else"
OLD_OWNER = "dbinfer_owner"
OLD_OWNER_COMMENT = "owns the objects of dbinfer; its members deploy and manage models"

MEMBERS = """
SELECT r.rolname FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles r ON r.oid = m.member
 WHERE m.roleid = (SELECT o.oid FROM pg_catalog.pg_roles o WHERE o.rolname = %s) AND NOT r.rolsuper ORDER BY 1
"""


def comment(cur: Cursor, role: str) -> tuple[bool, str | None]:
    """Return whether a role exists, and its comment."""
    cur.execute(
        "SELECT pg_catalog.shobj_description(oid, 'pg_authid') FROM pg_catalog.pg_roles WHERE rolname = %s",
        (role,),
    )
    row = cur.fetchone()
    return row is not None, row[0] if row else None


def members(cur: Cursor, role: str = ADMIN) -> list[str]:
    """Return the direct members of a role."""
    cur.execute(MEMBERS, (role,))
    return [name for (name,) in cur.fetchall()]


def make_admin(cur: Cursor, adopt: bool) -> None:
    """Make the administrator's role, or see that the one which is there is ours.

    Raises:
        InstallError: a role of that name is not ours, was not adopted before, and `adopt` is False.
    """
    # Roles belong to the whole cluster and bear no mark but a comment that says who made them
    exists, said = comment(cur, ADMIN)
    if not exists:
        cur.execute(f"CREATE ROLE {ADMIN} NOLOGIN")
        cur.execute(f"COMMENT ON ROLE {ADMIN} IS %s", (ADMIN_COMMENT,))
    elif said != ADMIN_COMMENT and not adopt and lacks_rights(cur):
        raise _not_ours(cur, ADMIN)


def check_old_owner(cur: Cursor, adopt: bool) -> bool:
    """Return whether 0.1.0's owner role is there already: a fresh installation passes through it.

    Raises:
        InstallError: a role of that name is not ours, and `adopt` is False.
    """
    exists, said = comment(cur, OLD_OWNER)
    if exists and said != OLD_OWNER_COMMENT and not adopt:
        raise _not_ours(cur, OLD_OWNER)
    return exists


def _not_ours(cur: Cursor, role: str) -> InstallError:
    names = ", ".join(members(cur, role))
    who = f"its members ({names})" if names else "who gets its membership"
    return InstallError(
        f"a role {role} exists already and was not made by dbinfer: {who} could deploy models",
        f"Rename it, or use it as it is: dbinfer install --adopt-role ({role} keeps its members).",
    )


def keep_deployers(cur: Cursor) -> None:
    """Let the members of 0.1.0's owner role go on deploying."""
    if comment(cur, OLD_OWNER) == (True, OLD_OWNER_COMMENT):
        cur.execute(f"GRANT {ADMIN} TO {OLD_OWNER}")


def owned_by_old_owner(cur: Cursor) -> bool:
    """Return whether the schemas still belong to 0.1.0's owner role."""
    cur.execute(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner "
        "WHERE n.nspname = 'dbinfer_private' AND r.rolname = %s)",
        (OLD_OWNER,),
    )
    return bool(one(cur))


def lacks_rights(cur: Cursor) -> bool:
    """Return whether the administrator's role, or one of its rights here, is missing: after a restore, for example."""
    cur.execute(
        "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace, "
        "LATERAL pg_catalog.aclexplode(p.proacl) a JOIN pg_catalog.pg_roles r ON r.oid = a.grantee "
        "WHERE n.nspname = 'dbinfer' AND p.proname = 'activate' AND r.rolname = %s)",
        (ADMIN,),
    )
    return bool(one(cur))


def drop(cur: Cursor) -> list[str]:
    """Return the statements that drop those roles which we made."""
    ours = ((ADMIN, ADMIN_COMMENT), (OLD_OWNER, OLD_OWNER_COMMENT))
    return [f"DROP ROLE {role}" for role, said in ours if comment(cur, role) == (True, said)]
