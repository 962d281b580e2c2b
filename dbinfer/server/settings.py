"""The settings of the embedded server, sized for the machine; postgresql.conf includes them."""

from __future__ import annotations

from dataclasses import dataclass

from dbinfer import machine
from dbinfer.state.home import Home
from dbinfer.state.record import State

TEMPLATE = """\
# Written by 'dbinfer up' at each start; use ALTER SYSTEM for settings of your own.
cluster_name = '{mark}'
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '"{socket_dir}"'  # one folder, even with a comma in its name
password_encryption = 'scram-sha-256'
# One image is scored by one process: the leader and {gather} workers make {cores} processes on {cores} cores.
# The leader keeps its loaded model between statements; workers are new processes in each query.
max_worker_processes = {worker_processes}
max_parallel_workers = {cores}
max_parallel_workers_per_gather = {gather}
parallel_leader_participation = on
shared_buffers = {shared_buffers}MB
huge_pages = try
max_wal_size = 4GB
# Compiling expressions costs time in each worker and brings nothing to inference.
jit = off
logging_collector = off
log_line_prefix = '%m [%p] %q%u@%d '
"""


@dataclass(frozen=True)
class Size:
    """What the machine offers: cores, and memory in MB."""

    cores: int
    memory_mb: int


def this_machine() -> Size:
    """Return the size of this machine, within container limits."""
    return Size(machine.cores(), machine.memory_mb())


def render(home: Home, state: State, size: Size) -> str:
    """Return the settings file for this port, socket and machine."""
    return TEMPLATE.format(
        mark=home.mark,
        port=state.port,
        # Quoted twice: as a string of the file, and as one element of a list
        socket_dir=state.socket_dir.replace("'", "''").replace('"', '""'),
        cores=size.cores,
        gather=max(1, size.cores - 1),
        worker_processes=max(16, size.cores + 8),
        # what backends need for models and images comes first, in a small container above all
        shared_buffers=min(2048, max(32, size.memory_mb // 8)),
    )
