"""Options from files, the command line and Python, and what is wrong with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dbinfer.base.errors import DbinferError, UsageError
from dbinfer.cli.app import app
from dbinfer.train import TrainJob, make_job, read_options
from dbinfer.train.hosts import check_reachable, hosts_of
from dbinfer.train.processes import decode, encode, launcher_command, stopped

GOOD: dict[str, Any] = {"network": "digits", "data": "digits", "out": "run"}


def test_a_toml_file_sets_options(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('network = "unet"\ndata = "strokes"\nout = "x"\nlr = 1\n[options]\nsize = 128\n')
    job = make_job(read_options(path))
    assert (job.network, job.lr, job.network_options) == ("unet", 1.0, {"size": 128})


def test_a_json_file_sets_options(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"network": "digits", "data": "digits", "out": "x", "epochs": 3}')
    assert make_job(read_options(path)).epochs == 3


def test_a_wrong_value_is_named(subtests: pytest.Subtests) -> None:
    for values, message in [
        ({"epoch": 3}, "unknown option 'epoch'"),
        ({"epochs": "3"}, "epochs is '3', but must have type int"),
        ({"epochs": True}, "epochs is True, but must have type int"),
        ({"epochs": 0}, "epochs is 0, but must be at least 1"),
        ({"ranks": 0}, "ranks is 0, but must be at least 1"),
        ({"lr": -0.1}, "lr is -0.1, but must be above 0"),
        ({"bind": "core"}, "bind is 'core', but the launcher gloo binds no ranks"),
        (
            {"bind": "moon", "launcher": "mpi"},
            "bind is 'moon', but must be one of core, l3cache, numa, socket, node",
        ),
        ({"launcher": "slurm"}, "launcher is 'slurm', but must be one of gloo, mpi"),
        ({"strategy": "magic"}, "strategy is 'magic', but must be one of horovod"),
        ({"device": "tpu"}, "device is 'tpu', but must be one of auto, cpu, gpu"),
        ({"val_fraction": 1}, "val_fraction is 1.0, but must be at least 0 and below 1"),
        ({"resume": "best"}, "resume is 'best', but must be 'last' or the number of an epoch"),
        ({"data": ""}, "the option data is missing"),
    ]:
        with subtests.test(values=values, message=message), pytest.raises(UsageError, match=message):
            make_job({**GOOD, **values})


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("epochs =")
    with pytest.raises(UsageError, match=r"cannot parse the configuration .*run\.toml"):
        read_options(tmp_path / "run.toml")
    with pytest.raises(UsageError, match=r"other\.toml cannot be read: No such file"):
        read_options(tmp_path / "other.toml")


def test_the_options_reach_the_ranks_without_the_dsn() -> None:
    job = make_job({**GOOD, "network_options": {"classes": 3}, "data": "SELECT a, b FROM t WHERE c = '%\"'"})
    assert decode(encode(job)) == job
    assert decode(encode(replace(job, dsn="password=x"))).dsn == ""


def test_hosts() -> None:
    job = TrainJob("digits", "digits", out="run", ranks=4)
    assert hosts_of(job) == {"localhost": 4}
    assert hosts_of(replace(job, hosts="a:3,b:1")) == {"a": 3, "b": 1}
    with pytest.raises(UsageError, match="the hosts have 3 slots, but 4 ranks were requested"):
        hosts_of(replace(job, hosts="a:3"))
    for wrong in ("a", "a:x", "a:0,b:4", ":4", "-oProxyCommand=x:4", "a:2,a:2"):
        with pytest.raises(UsageError, match=r"must be HOST:RANKS"):
            hosts_of(replace(job, hosts=wrong))


def test_a_host_that_cannot_be_reached() -> None:
    with pytest.raises(DbinferError, match=r"the host nowhere\.invalid cannot be reached"):
        check_reachable({"localhost": 1, "nowhere.invalid": 1})


@pytest.mark.parametrize("words", [["--set", "size"], ["--lr", "0"], ["--resume", "--launcher", "x"]])
def test_the_command_refuses_wrong_options(words: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["train", "digits", "--data", "digits", "--out", str(tmp_path / "run"), *words]
    )
    assert isinstance(result.exception, UsageError)
    assert not (tmp_path / "run").exists()


def test_resume_without_an_epoch_is_the_last(tmp_path: Path) -> None:
    words = ["train", "digits", "--data", "digits", "--out", str(tmp_path)]
    for more, message in (
        (["--resume"], "there is no checkpoint in"),
        (["--resume", "3"], "there is no checkpoint in"),
    ):
        result = CliRunner().invoke(app, [*words, *more])
        assert message in str(result.exception)


def test_what_tunes_a_rank_reaches_the_other_hosts(subtests: pytest.Subtests) -> None:
    for name in [
        *(
            "HOROVOD_FUSION_THRESHOLD",
            "HOROVOD_CYCLE_TIME",
            "KMP_BLOCKTIME",
            "KMP_AFFINITY",
            "OMP_NUM_THREADS",
        ),
        *("MKL_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS", "ONEDNN_VERBOSE", "XLA_FLAGS", "NCCL_DEBUG", "LANG"),
        *("DBINFER_DSN", "PGPASSFILE", "PYTHONPATH"),
    ]:
        with subtests.test(name=name):
            job = TrainJob("digits", "digits", out="run", ranks=2, hosts="a:1,b:1", launcher="mpi")
            words = launcher_command(job, hosts_of(job), {name: "1"})
            assert words[words.index("-x") + 1] == name


@pytest.mark.parametrize(
    ("bind", "wanted"),
    [
        ("", "-bind-to none --oversubscribe -map-by slot"),
        ("core", "-map-by core -bind-to core --report-bindings"),
        ("socket:pe=10", "-map-by socket:pe=10 -bind-to core --report-bindings"),
    ],
)
def test_what_ranks_are_bound_to_is_mpiruns_to_say(bind: str, wanted: str) -> None:
    job = TrainJob("digits", "digits", out="run", ranks=2, launcher="mpi", bind=bind)
    assert f" {wanted} " in " ".join(launcher_command(job, hosts_of(job), {}))


def test_what_belongs_to_this_host_or_is_no_ones_business_stays_here(subtests: pytest.Subtests) -> None:
    for name in ["HOME", "HOSTNAME", "SSH_AUTH_SOCK", "TMPDIR", "AWS_SECRET_ACCESS_KEY"]:
        with subtests.test(name=name):
            job = TrainJob("digits", "digits", out="run", ranks=2, launcher="mpi")
            assert "-x" not in launcher_command(job, hosts_of(job), {name: "1"})


@pytest.mark.parametrize("name", ["0", "[[14634,1],0]"])  # as horovodrun and as mpirun write it
def test_a_rank_that_ended_in_a_traceback_is_quoted(name: str) -> None:
    lines = ["Traceback (most recent call last):", "ValueError: no such layer"]
    lines += [f"Process name: {name}", "Exit code:    1"]
    text = str(stopped(TrainJob("digits", "digits", out="nowhere"), 1, lines))
    assert text.startswith("rank 0 stopped with exit status 1, and the other ranks were ended.\n  ValueError")


def test_options_files_of_the_first_version_are_understood() -> None:
    job = make_job({**GOOD, "options": {"classes": 3}, "workers": 3})
    assert (job.network_options, job.decode_threads) == ({"classes": 3}, 3)
