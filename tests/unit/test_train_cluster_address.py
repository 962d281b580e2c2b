"""Where servers may listen: on loopback or in a named private network, at ports that are free; nowhere else."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from train_runs import needs_horovod

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.train import TrainJob, processes, run
from dbinfer.train.cluster import members_of
from dbinfer.train.hosts import check_network, hold_port, own_address
from dbinfer.train.listening import check_listening
from dbinfer.train.processes import launcher_command
from dbinfer.train.ranks import Horovod

STRATEGIES = ("downpour", "sandblaster")
JOB = TrainJob("digits", "digits", strategy="downpour", ranks=2)


def test_a_network_that_strangers_reach_is_refused(subtests: pytest.Subtests) -> None:
    for network in ["0.0.0.0", "0.0.0.0/0", "8.8.8.0/24", "10.0.0.0/7", "192.0.2.0/24", "255.255.255.255"]:
        with (
            subtests.test(network=network),
            pytest.raises(UsageError, match=f"private_network is '{network}', but .* has no authentication"),
        ):
            check_network(replace(JOB, private_network=network))


@pytest.mark.parametrize("network", ["here", "10.1.2.3/24", "fd00::/8"])
def test_what_is_no_network_is_refused(network: str) -> None:
    with pytest.raises(UsageError, match=f"private_network is '{network}', but must be an IPv4 network"):
        check_network(replace(JOB, private_network=network))


def test_private_networks_and_loopback_are_taken(subtests: pytest.Subtests) -> None:
    for network in ["", "10.1.2.0/24", "172.16.0.0/12", "192.168.1.7", "127.0.0.0/8"]:
        with subtests.test(network=network):
            check_network(replace(JOB, private_network=network))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_several_hosts_need_a_named_network(strategy: str) -> None:
    job = replace(JOB, strategy=strategy, hosts="a:1,b:1")
    with pytest.raises(UsageError, match="needs a private network to listen on where hosts is 'a:1,b:1'"):
        run(job)
    check_network(replace(job, private_network="10.0.0.0/8"))


def test_a_host_without_an_address_in_the_network_is_named() -> None:
    assert own_address("") == "127.0.0.1"
    assert own_address("127.0.0.0/8").startswith("127.")
    with pytest.raises(TrainError, match=r"has no address in the network 10\.255\.254\.252/30"):
        own_address("10.255.254.252/30")


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        other.listen()
        with pytest.raises(TrainError, match=rf"port {port} of 127\.0\.0\.1 cannot be used: Address already"):
            hold_port("127.0.0.1", port)
    with hold_port("127.0.0.1", 0) as held:
        assert held.getsockname()[1] > 0


def test_a_port_in_use_ends_a_run_with_that_sentence(tmp_path: Path) -> None:
    """The chief has the first port, the server and the workers the next ones."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(TrainError, match=f"port {port} of 127.0.0.1 cannot be used: Address already"):
            run(replace(JOB, port=port - 1, out=str(tmp_path)))


def test_a_port_beyond_the_last_is_refused() -> None:
    with pytest.raises(
        UsageError, match="port is 65533, but 4 processes need one each, and 65535 is the last"
    ):
        run(replace(JOB, port=65533))


def test_what_listens_elsewhere_is_seen() -> None:
    with socket.socket() as good, socket.socket() as bad:
        good.bind(("127.0.0.1", 0))
        good.listen()
        check_listening("127.0.0.1")
        bad.bind(("0.0.0.0", 0))
        bad.listen()
        with pytest.raises(
            TrainError, match=r"listens on 0\.0\.0\.0, not only on 127\.0\.0\.1, and it authenticates"
        ):
            check_listening("127.0.0.1")


def test_who_takes_part() -> None:
    job = replace(JOB, ranks=3, servers=2, hosts="a:2,b:1")
    found = [(one.role, one.index, one.host, one.place) for one in members_of(job)]
    assert found == [
        ("chief", 0, "localhost", 0),
        ("ps", 0, "a", 0),
        ("ps", 1, "b", 0),
        ("worker", 0, "a", 0),
        ("worker", 1, "a", 1),
        ("worker", 2, "b", 0),
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_shards_are_refused(strategy: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="hands every batch to one worker, but sharding is 'all'"):
        run(replace(JOB, strategy=strategy, out=str(tmp_path), sharding="all"))


def test_sandblaster_refuses_changing_images() -> None:
    with pytest.raises(
        UsageError, match="needs the same images in every evaluation, but augment changes them"
    ):
        run(replace(JOB, strategy="sandblaster", augment=True))


LISTENS = """
import os
port = "%04X" % int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
found = [line.split()[1] for name in ("tcp", "tcp6") for line in list(open(f"/proc/net/{name}"))[1:]]
print("at", [at.partition(":")[0] for at in found if at.endswith(":" + port)][:1])
"""


@pytest.mark.wide
@needs_horovod
def test_ranks_of_one_host_find_each_other_on_loopback() -> None:
    """Horovod's server for that listened on every address, and takes from anybody where a rank is."""
    job = TrainJob("digits", "digits", ranks=2)
    words = launcher_command(job, {"localhost": 1}, {})
    words[words.index("-np") + 1] = "1"
    done = subprocess.run([*words, sys.executable, "-c", LISTENS], capture_output=True, text=True, check=True)
    assert "at ['0100007F']" in done.stdout
    elsewhere = launcher_command(job, {"a": 1, "b": 1}, {})
    assert elsewhere[0].endswith("horovodrun")


def test_ranks_of_one_host_that_mpi_starts_have_no_network() -> None:
    job = TrainJob("digits", "digits", ranks=2, launcher="mpi")
    assert "self,vader" in launcher_command(job, {"localhost": 2}, {})
    assert "^openib" in launcher_command(job, {"a": 1, "b": 1}, {})


class Pickled:
    """What a stranger sends in place of a rank's value: whoever unpickles it runs it."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    def __reduce__(self) -> Any:
        return self._act, ()


RAN: list[str] = []


def planted() -> None:
    RAN.append("it ran")


class Reached:
    """Horovod, or JAX's broadcast, in a group that a stranger has reached; `_object` is as Horovod does it."""

    def __init__(self, sent: bytes) -> None:
        self._sent = np.frombuffer(sent, np.uint8)

    def broadcast(self, value: Any, *_: Any, **more: Any) -> Any:
        return np.array([len(self._sent)]) if np.asarray(value).dtype != np.uint8 else self._sent

    allgather = broadcast

    def broadcast_one_to_all(self, value: Any) -> Any:
        return self._sent if np.asarray(value).dtype == np.uint8 else np.int32(len(self._sent))

    def broadcast_object(self, value: Any, **more: Any) -> Any:
        return pickle.loads(self._sent.tobytes())

    def allgather_object(self, value: Any) -> Any:
        return [pickle.loads(self._sent.tobytes())]


def test_what_a_stranger_sends_to_a_rank_is_not_run(subtests: pytest.Subtests) -> None:
    for sent in [pickle.dumps(Pickled(planted)), b"[" * 100_000, b"\xff\xfe", b""]:
        with subtests.test(sent=sent):
            rank = Horovod.__new__(Horovod)
            rank._hvd, rank.rank = Reached(sent), 1
            for act in (rank.share, rank.gather):
                with pytest.raises(TrainError, match="a rank has sent what no rank of this training sends"):
                    act(1)
            assert RAN == []


def test_what_a_stranger_sends_to_a_part_of_a_split_network_is_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("jax")
    from dbinfer.train import parts

    monkeypatch.setattr(parts, "multihost_utils", Reached(pickle.dumps(Pickled(planted))))
    monkeypatch.setattr(parts.jax, "process_count", lambda: 2)
    monkeypatch.setattr(parts.jax, "process_index", lambda: 1)
    with pytest.raises(TrainError, match="a rank has sent what no rank of this training sends"):
        parts.share(1)
    assert RAN == []


def test_an_error_that_no_rank_sends_is_an_error_of_the_training() -> None:
    for kind in ("harmless", "os", 5, None, "__name__"):
        found = processes.to_error({"event": "error", "kind": kind})
        assert type(found) is TrainError
