"""The engine as a service: in the foreground, bound to no server, and gone after SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path

import engine_models
import pytest
import tiny_models
from engine_models import processes, wait_until

from dbinfer_udf.engine import client
from dbinfer_udf.errors import EngineError
from dbinfer_udf.session.upkeep import engine_facts

SERVICE = """
import sys
sys.path[:0] = {paths!r}
import engine_models
from pathlib import Path
from dbinfer_udf.engine.client import run_service
engine = engine_models.engine(Path({folder!r}), engine_idle_seconds="0")
sys.exit(run_service(engine.settings, engine.digest, engine.modules()))
"""


def test_a_service_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    folder.mkdir(mode=0o700)
    code = SERVICE.format(paths=sys.path, folder=str(folder))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == "ready\n"
        engine = engine_models.engine(folder)
        (facts,) = client.status(engine.settings)
        assert (facts["pid"], facts["service"], facts["servers"]) == (service.pid, True, [])
        spec, entry = engine_models.ticket(tiny_models.constant(tmp_path, 4), tmp_path / "cache")
        model = engine.open(spec, entry.folder, 1)
        img = tiny_models.file(tiny_models.picture(1, 2, 3))
        assert model.ask("predict", img, None) == "{4.0,4.0,4.0}"
        (whole,) = engine_facts(engine.settings, engine.digest, engine.modules, "look")
        (held,) = whole["models"]
        # the processes that no model has are counted, too
        assert whole["bytes"] == held["bytes"] + whole["own_bytes"]
        assert min(held["bytes"], whole["own_bytes"]) > 1 << 20
        second = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
        assert (second.returncode, "another engine runs already" in second.stdout) == (1, True)
        left = processes(engine)
        service.send_signal(signal.SIGTERM)
        assert service.wait(120) == 0
    wait_until(lambda: not engine_models.alive(chain(*left.values())), "the end of all processes")
    assert not list(folder.glob("*.sock"))


def test_another_python_is_refused_and_not_taken_for_a_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "engine"
    folder.mkdir(mode=0o700)
    engine = engine_models.engine(folder)
    engine.attach()
    spec, entry = engine_models.ticket(tiny_models.constant(tmp_path, 4), tmp_path / "cache")
    with monkeypatch.context() as patched:
        patched.setattr(client.sys, "version_info", (3, 7, 0))
        with pytest.raises(EngineError, match=r"the engine runs Python 3\.\d+, this server 3\.7"):
            engine.open(spec, entry.folder, 1)
    client.stop(engine.settings)
