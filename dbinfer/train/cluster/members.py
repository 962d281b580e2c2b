"""Who takes part in a training with servers, how they are started here or over ssh, and how workers that die are
replaced.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from dbinfer.base.apart import cores
from dbinfer.base.errors import TrainError, harmless
from dbinfer.train import processes
from dbinfer.train.data import held_for_ranks
from dbinfer.train.hosts import SSH, check_reachable, hosts_of, is_here
from dbinfer.train.options import TrainJob
from dbinfer.train.processes import KEPT_LINES, WARNING, inherited, start, stop


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
    return TrainError(text, processes.how_to_go_on(job))


def over_ssh(host: str, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command that runs this one in the same folder of another host."""
    passed = ("PYTHONPATH", "TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND", "PYTHONUNBUFFERED")
    words = [f"{name}={environment[name]}" for name in passed if name in environment]
    return [*SSH, host, f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(['env', *words, *command])}"]


MODULE = "dbinfer.train.cluster.member"
DEATHS = 3  # of one worker: then it is no accident
Report = Callable[[dict[str, Any]], None]


class Crew:
    """All processes of a training.

    Args:
        job: what is trained.
        environment: variables that each of them gets.
        report: is told of the chief's progress, and where each process listens.
    """

    def __init__(self, job: TrainJob, environment: Mapping[str, str], report: Report) -> None:
        self._job, self._environment, self._report = job, dict(environment), report
        self._members = members_of(job)
        self._told: queue.Queue[tuple[Member, Any, str | None]] = queue.Queue()
        self._deaths: Counter[int] = Counter()
        self._readers: list[threading.Thread] = []

    def work(self) -> None:
        """Return when the chief has ended well.

        Raises:
            DbinferError: what a process has sent; TrainError where one ended without a word.
        """
        try:
            for member in self._members:
                self._start(member, self._job.port and self._job.port + member.number)
            while not self._follow(*self._told.get()):
                pass
        finally:
            for member in self._members:
                if member.process is not None:
                    # Their inputs end, so all end at once, also where a signal does not reach them over ssh
                    member.process.stdin.close()
            for member in self._members:
                if member.process is not None:
                    stop(member.process)
            for reader in self._readers:
                reader.join()

    def _start(self, member: Member, port: int) -> None:
        command = [sys.executable, "-m", MODULE, member.role, str(member.index)]
        environment = inherited({})
        if not is_here(member.host):
            command = over_ssh(member.host, command, environment)
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
            pass  # it has ended, which its output will tell

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
        event = processes.find(line)
        if event is None:
            member.last.append(line.rstrip())
            if WARNING in line:
                print(harmless(line[line.index(WARNING) :].rstrip()), file=sys.stderr, flush=True)
        elif event["event"] == "error":
            raise processes.to_error(event)
        elif event["event"] == "listening":
            self._listening(member, event)
        elif event["event"] != "serving":
            self._report(event)
        return False

    def _listening(self, member: Member, event: dict[str, Any]) -> None:
        new, member.address = not member.address, event["address"]
        self._report({**event, "role": member.role, "index": member.index, "host": member.host})
        cluster: dict[str, list[str]] = {"chief": [], "ps": [], "worker": []}
        for one in self._members:
            cluster[one.role].append(one.address)
        if all(one.address for one in self._members):
            # All of them, when the last has told its address; later only one that was started anew
            for one in self._members if new else [member]:
                self._tell(one, cluster)

    def _ended(self, member: Member, process: Any) -> bool:
        if member.role == "chief" and process.returncode == 0:
            return True
        self._deaths[member.number] += 1
        if member.role != "worker" or not member.address or self._deaths[member.number] > DEATHS:
            raise stopped(self._job, member, process.returncode)
        print(f"dbinfer: worker {member.index} on {member.host} is started anew", file=sys.stderr, flush=True)
        process.stdin.close()
        self._start(member, int(member.address.rpartition(":")[2]))
        return False


def train_together(job: TrainJob, report: Report) -> None:
    """Train with a chief, servers and workers.

    Raises:
        DbinferError: a host cannot be reached, a port is in use, a process stopped, ...
    """
    check_reachable(hosts_of(job))
    # Only the chief reads rows, whatever hosts there are
    with ExitStack() as stack:
        shared = stack.enter_context(held_for_ranks(replace(job, hosts="")))

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "start":
                stack.close()  # the chief has read its rows
            report(event)

        Crew(job, shared, on_event).work()
