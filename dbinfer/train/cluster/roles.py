"""Who takes part in a training with servers: roles, hosts, how they are started, and what is said when one stops."""

from __future__ import annotations

import os
import shlex
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dbinfer.errors import TrainError
from dbinfer.train import events
from dbinfer.train.hosts import SSH, hosts_of
from dbinfer.train.options import TrainJob
from dbinfer.train.processes import KEPT_LINES


@dataclass
class Member:
    """A process of the cluster, and what it has told.

    Attributes:
        role: chief, ps or worker; `index` counts within the role, `place` within its host, `number` all of them.
        address: where it listens, once it has told.
    """

    role: str
    index: int
    host: str
    place: int
    number: int
    address: str = ""
    process: Any = None
    last: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))


def members_of(job: TrainJob) -> list[Member]:
    """Return who takes part: the chief here, the workers as --hosts says, the servers in turn on the same hosts."""
    workers = [host for host, count in hosts_of(job).items() for _ in range(count)]
    hosts = list(dict.fromkeys(workers))
    servers = [hosts[index % len(hosts)] for index in range(job.servers)]
    roles = [("chief", 0, "localhost"), *(("ps", *one) for one in enumerate(servers))]
    roles += [("worker", *one) for one in enumerate(workers)]
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for number, (role, index, host) in enumerate(roles):
        found.append(Member(role, index, host, seen[role, host], number))
        seen[role, host] += 1
    return found


def stopped(job: TrainJob, member: Member, code: int) -> TrainError:
    """Return the error for a process that ended without saying why."""
    names = {
        "chief": "the chief",
        "ps": f"parameter server {member.index}",
        "worker": f"worker {member.index}",
    }
    how = f"signal {-code}" if code < 0 else f"exit status {code}"
    told = "".join(f"\n  {line}" for line in [line for line in member.last if line.strip()][-5:])
    text = f"{names[member.role]} on {member.host} stopped with {how}.{told}"
    return TrainError(text, events.how_to_go_on(job))


def over_ssh(host: str, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command that runs this one in the same folder of another host."""
    passed = ("PYTHONPATH", "TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND", "PYTHONUNBUFFERED")
    words = [f"{name}={environment[name]}" for name in passed if name in environment]
    return [*SSH, host, f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(['env', *words, *command])}"]
