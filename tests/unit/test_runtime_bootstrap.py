"""The runtime starts from a dict of sources, replaces an older one, and shows source lines in tracebacks."""

from __future__ import annotations

import importlib
import json
import marshal
import signal
import sys
import textwrap
import traceback
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from dbinfer.database.sql import read
from dbinfer.install.content import Content
from dbinfer_udf import bootstrap
from dbinfer_udf.host.interrupts import look_for_interrupts

SESSION = """
from ..value import VALUE

class Session:
    def __init__(self, gd, digest):
        self.digest, self.closed, self.value = digest, False, VALUE

    def gate(self, model):
        raise RuntimeError("marked line")

    def close(self):
        self.closed = True
"""


def sources(value: int) -> dict[str, str]:
    names = ("__init__", "session.__init__")
    return dict.fromkeys(names, "") | {"session.backend": SESSION, "value": f"VALUE = {value}\n"}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    sys.meta_path[:] = [f for f in sys.meta_path if not getattr(f, "dbinfer_finder", False)]
    for name in [name for name in sys.modules if name.startswith(bootstrap.PREFIX)]:
        del sys.modules[name]


def test_start_puts_the_session_into_gd() -> None:
    gd: dict[str, Any] = {}
    bootstrap.start(sources(1), "a" * 64, gd)
    assert (gd["dbinfer"].digest, gd["dbinfer"].value) == ("a" * 64, 1)
    assert gd["dbinfer.gate"] == gd["dbinfer"].gate


def test_a_newer_runtime_replaces_the_older_one() -> None:
    gd: dict[str, Any] = {}
    bootstrap.start(sources(1), "a" * 64, gd)
    old = gd["dbinfer"]
    bootstrap.start(sources(2), "b" * 64, gd)
    assert (old.closed, gd["dbinfer"].value) == (True, 2)
    assert sum(getattr(f, "dbinfer_finder", False) for f in sys.meta_path) == 1
    assert {name.split(".")[0] for name in sys.modules if name.startswith(bootstrap.PREFIX)} == {
        bootstrap.PREFIX + "b" * 12
    }


@pytest.mark.parametrize("compiled", [False, True])
def test_tracebacks_show_the_source(compiled: bool) -> None:
    gd: dict[str, Any] = {}
    if compiled:
        bootstrap.start({}, "c" * 64, gd, packed(sources(1), "c" * 64))
    else:
        bootstrap.start(sources(1), "c" * 64, gd)
    with pytest.raises(RuntimeError) as caught:
        gd["dbinfer.gate"]("x")
    text = "".join(traceback.format_exception(caught.value))
    assert f"dbinfer-{'c' * 12}/session/backend.py" in text
    assert 'raise RuntimeError("marked line")' in text


def test_packages_in_the_package() -> None:
    inner = {
        "engine.__init__": "",
        "engine.client": "from ..value import VALUE\n\ndef fail():\n    raise RuntimeError('inner line')\n",
        "session.backend": SESSION.replace("from ..value", "from ..engine.client"),
    }
    gd: dict[str, Any] = {}
    bootstrap.start(sources(1) | inner, "a" * 64, gd)
    client = sys.modules[bootstrap.PREFIX + "a" * 12 + ".engine.client"]
    assert gd["dbinfer"].value == client.VALUE == 1
    with pytest.raises(RuntimeError) as caught:
        client.fail()
    text = "".join(traceback.format_exception(caught.value))
    assert f"dbinfer-{'a' * 12}/engine/client.py" in text
    assert "raise RuntimeError('inner line')" in text


def packed(modules: dict[str, str], digest: str) -> dict[str, Any]:
    return marshal.loads(bootstrap.packed(json.dumps(modules), digest))


def test_compiled_modules_start_as_their_sources_do() -> None:
    gd: dict[str, Any] = {}
    bootstrap.start({}, "a" * 64, gd, packed(sources(3), "a" * 64))
    assert (gd["dbinfer"].digest, gd["dbinfer"].value) == ("a" * 64, 3)
    (finder,) = [f for f in sys.meta_path if getattr(f, "dbinfer_finder", False)]
    assert finder.compiled
    assert finder.modules == sources(3)
    assert finder.find_spec(bootstrap.PREFIX + "a" * 12 + ".nothing") is None


def test_compiled_code_replaces_sources_and_the_other_way_round() -> None:
    gd: dict[str, Any] = {}
    bootstrap.start(sources(1), "a" * 64, gd)
    bootstrap.start({}, "b" * 64, gd, packed(sources(2), "b" * 64))
    assert gd["dbinfer"].value == 2
    bootstrap.start(sources(3), "c" * 64, gd)
    assert gd["dbinfer"].value == 3


def test_what_is_installed_starts() -> None:
    modules = Content().modules
    assert {"__init__", "session.backend", "engine.__init__", "engine.client"} <= set(modules)
    # the real session wants a server
    bootstrap.start(modules | sources(1), "a" * 64, {})
    client = importlib.import_module(bootstrap.PREFIX + "a" * 12 + ".engine.client")
    assert client.Engine({}, "a" * 64, lambda: modules)


def test_other_imports_are_left_alone() -> None:
    bootstrap.start(sources(1), "d" * 64, {})
    (finder,) = [f for f in sys.meta_path if getattr(f, "dbinfer_finder", False)]
    assert finder.find_spec("json") is None
    assert finder.find_spec(bootstrap.PREFIX + "d" * 12 + ".nothing") is None
    with pytest.raises(ImportError):
        __import__(bootstrap.PREFIX + "d" * 12 + ".nothing")


def test_a_broken_runtime_leaves_the_old_session_out_of_gd_or_whole() -> None:
    gd: dict[str, Any] = {}
    bootstrap.start(sources(1), "e" * 64, gd)
    with pytest.raises(SyntaxError):
        bootstrap.start({"__init__": "", "session.__init__": "", "session.backend": "def"}, "f" * 64, gd)
    assert gd["dbinfer"].digest == "e" * 64


# As Greenplum does for one cancel: two interrupts are queued before Python looks for the first. Two signals, because
# Python remembers each signal once, and map, because Python looks after each call of its own.
CANCELLED = """
import ctypes, signal

def start(*_):
    list(map(ctypes.pythonapi.PyErr_SetInterruptEx, (signal.SIGINT, signal.SIGUSR1)))
"""


@pytest.fixture
def signals() -> Iterator[None]:
    before = {s: signal.signal(s, signal.default_int_handler) for s in (signal.SIGINT, signal.SIGUSR1)}
    yield
    for sent, handler in before.items():
        signal.signal(sent, handler)


@pytest.mark.parametrize("name", ["start_code", "start_runtime"])
def test_a_cancelled_start_leaves_no_interrupt(name: str, signals: None) -> None:
    body = read(f"runtime/{name}.sql").split("$$")[1]
    compiled = zlib.compress(marshal.dumps(compile(CANCELLED, "bootstrap", "exec")))
    scope = {
        "digest": "a" * 64,
        "code": marshal.dumps({"code": {"bootstrap": compiled}}),
        "GD": {"dbinfer.modules": {"bootstrap": CANCELLED}},
    }
    # as PL/Python makes a function of it
    exec("def function():\n" + textwrap.indent(body, "  "), scope)
    with pytest.raises(KeyboardInterrupt):
        scope["function"]()  # type: ignore[operator]
    for _ in range(100):
        look_for_interrupts()
