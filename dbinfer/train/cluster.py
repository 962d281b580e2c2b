"""A training with servers: who takes part, how they start here or over ssh, and how workers that die are replaced."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from dbinfer.base.apart import cores
from dbinfer.base.errors import TrainError
from dbinfer.train.data import held_for_ranks
from dbinfer.train.hosts import check_reachable, hosts_of, started_on
from dbinfer.train.options import TrainJob
from dbinfer.train.processes import (
    KEPT_LINES,
    WORKER,
    find,
    how_it_ended,
    how_to_go_on,
    inherited,
    last_lines,
    note,
    start,
    stop,
    to_error,
)
from dbinfer.train.report import OnEvent

DEATHS = 3  # of one worker: more are no accident


@dataclass
class Member:
    """A process of the cluster, and what is known of it.

    Attributes:
        role: chief, ps or worker; `index` counts within the role, `place` within its host, `number` all of them.
        address: where it listens, once it has reported that.
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
    """Return who takes part: the chief here, the workers as --hosts says, the servers on the same hosts in turn."""
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
    """Return the error for a process that ended without giving a reason."""
    names = {
        "chief": "the chief",
        "ps": f"parameter server {member.index}",
        "worker": f"worker {member.index}",
    }
    told = last_lines(list(member.last), 5)
    text = f"{names[member.role]} on {member.host} stopped with {how_it_ended(code)}.{told}"
    return TrainError(text, how_to_go_on(job))


class Crew:
    """All processes of a training.

    Args:
        job: what is trained.
        environment: variables that each of them gets.
        on_event: is told of the chief's progress, and where each process listens.
    """

    def __init__(self, job: TrainJob, environment: Mapping[str, str], on_event: OnEvent) -> None:
        self._job, self._environment, self._on_event = job, dict(environment), on_event
        self._members = members_of(job)
        self._told: queue.Queue[tuple[Member, Any, str | None]] = queue.Queue()
        self._deaths: Counter[int] = Counter()
        self._readers: list[threading.Thread] = []

    def work(self) -> None:
        """Return when the chief has ended well.

        Raises:
            DbinferError: the error that a process has sent; TrainError where one ended without giving a reason.
        """
        try:
            for member in self._members:
                self._start(member, self._job.port and self._job.port + member.number)
            while not self._follow(*self._told.get()):
                pass
        finally:
            for member in self._members:
                if member.process is not None:
                    # When their inputs end, all end at once, also where no signal reaches them over ssh
                    member.process.stdin.close()
            for member in self._members:
                if member.process is not None:
                    stop(member.process)
            for reader in self._readers:
                reader.join()

    def _start(self, member: Member, port: int) -> None:
        environment = inherited({})
        words = [sys.executable, *WORKER, member.role, str(member.index)]
        command = started_on(member.host, words, environment)
        member.process = start(command, environment, stdin=subprocess.PIPE)
        together = sum(one.role == "worker" and one.host == member.host for one in self._members)
        threads = self._job.threads or max(1, cores() // max(1, together))
        given = {"job": self._job.to_dict(), "port": port, "place": member.place, "threads": threads}
        self._tell(member, {**given, "environment": self._environment})
        self._readers.append(threading.Thread(target=self._read, args=(member, member.process), daemon=True))
        self._readers[-1].start()

    def _tell(self, member: Member, values: dict[str, Any]) -> None:
        try:
            member.process.stdin.write(json.dumps(values) + "\n")
            member.process.stdin.flush()
        except OSError:
            pass  # it has ended; the end of its output shows that

    def _read(self, member: Member, process: Any) -> None:
        with process.stdout as lines:
            for line in lines:
                self._told.put((member, process, line))
        process.wait()
        self._told.put((member, process, None))

    def _follow(self, member: Member, process: Any, line: str | None) -> bool:
        """Act on one line of a process, or on its end; return whether the training is over."""
        if line is None:
            return self._ended(member, process)
        event = find(line)
        if event is None:
            note(line, member.last)
        elif event["event"] == "error":
            raise to_error(event)
        elif event["event"] == "listening":
            self._listening(member, event)
        elif event["event"] != "serving":
            self._on_event(event)
        return False

    def _listening(self, member: Member, event: dict[str, Any]) -> None:
        new, member.address = not member.address, event["address"]
        self._on_event({**event, "role": member.role, "index": member.index, "host": member.host})
        cluster: dict[str, list[str]] = {"chief": [], "ps": [], "worker": []}
        for one in self._members:
            cluster[one.role].append(one.address)
        if all(one.address for one in self._members):
            # To all, once the last one has reported its address; later only to one that was started again
            for one in self._members if new else [member]:
                self._tell(one, cluster)

    def _ended(self, member: Member, process: Any) -> bool:
        if member.role == "chief" and process.returncode == 0:
            return True
        self._deaths[member.number] += 1
        if member.role != "worker" or not member.address or self._deaths[member.number] > DEATHS:
            raise stopped(self._job, member, process.returncode)
        print(
            f"dbinfer: worker {member.index} on {member.host} is started again", file=sys.stderr, flush=True
        )
        process.stdin.close()
        self._start(member, int(member.address.rpartition(":")[2]))
        return False


def train_together(job: TrainJob, on_event: OnEvent) -> None:
    """Train with a chief, servers and workers.

    Raises:
        DbinferError: a host cannot be reached, a port is in use, a process stopped, ...
    """
    check_reachable(hosts_of(job))
    # Only the chief reads rows, so hosts do not matter here
    with ExitStack() as stack:
        shared = stack.enter_context(held_for_ranks(replace(job, hosts="")))

        def told(event: dict[str, Any]) -> None:
            if event["event"] == "start":
                stack.close()  # the chief has read its rows
            on_event(event)

        Crew(job, shared, told).work()
