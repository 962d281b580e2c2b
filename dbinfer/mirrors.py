"""Says which segments of a Greenplum cluster score on their mirrors, and what brings the cluster back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from psycopg2.extensions import connection as Connection

from dbinfer.backends import Check
from dbinfer.platform import Platform

PRIMARY, MIRROR, DOWN, IN_SYNC = "p", "m", "d", "s"
# Every role may read it; content -1 is the coordinator
QUERY = (
    "SELECT content, role, preferred_role, mode, status, hostname FROM pg_catalog.gp_segment_configuration "
    "WHERE content OPERATOR(pg_catalog.>=) 0 ORDER BY content, dbid"
)
RECOVER = "gprecoverseg, and when gpstate -e names nothing any more: gprecoverseg -r"
WAIT = "gpstate -e names those that catch up; when it names none: dbinfer doctor"
SWAP = "gprecoverseg -r lets them change back"


@dataclass(frozen=True)
class Instance:
    """A primary or a mirror: what the cluster's catalog says of it."""

    content: int
    role: str
    preferred: str
    mode: str
    status: str
    host: str


def check_mirrors(conn: Connection, platform: Platform) -> list[Check]:
    """Return what the catalog says of mirrors; nothing where the cluster has none."""
    if not platform.segments:
        return []
    with conn.cursor() as cur:
        cur.execute(QUERY)
        found = [Instance(*row) for row in cur.fetchall()]
    return judge(found)


def judge(found: list[Instance]) -> list[Check]:
    """Return the check of these primaries and mirrors; none where there are no mirrors."""
    mirrors = {one.content: one for one in found if one.role == MIRROR}
    if not mirrors:
        return []
    primaries = [one for one in found if one.role == PRIMARY and one.content in mirrors]
    said = [_pair(one, mirrors[one.content]) for one in primaries]
    wrong = [pair for pair in said if pair]
    if not wrong:
        return [Check("mirrors", True, f"{len(mirrors)} in sync")]
    hint = next(cure for cure in (RECOVER, WAIT, SWAP) if any(cure == pair[1] for pair in wrong))
    return [Check("mirrors", False, "; ".join(text for text, _ in wrong), hint)]


def _pair(acting: Instance, other: Instance) -> tuple[str, str] | None:
    """Return what is wrong with the two of a segment and its cure; None where all is as it should be."""
    swapped = acting.preferred == MIRROR
    words = list(_words(acting, other, swapped))
    if not words:
        return None
    cure = RECOVER if other.status == DOWN else WAIT if other.mode != IN_SYNC else SWAP
    return f"segment {acting.content}: " + ", ".join(words), cure


def _words(acting: Instance, other: Instance, swapped: bool) -> Iterator[str]:
    if swapped:
        yield f"its mirror on {acting.host} scores"
    if other.status == DOWN:
        yield f"its {'primary' if swapped else 'mirror'} on {other.host} is down"
    elif other.mode != IN_SYNC:
        yield f"{other.host} is not in sync yet"
