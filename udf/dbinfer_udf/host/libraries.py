"""Brings numpy, OpenCV and OpenVINO into a process from a venv that is safe to import from: no telemetry, and the
database's signals kept away from the threads that they start.
"""

from __future__ import annotations

import _thread
import contextlib
import importlib
import importlib.util
import os
import pwd
import signal
import site
import socket
import stat
import sys
import types
from typing import Any, Callable, Dict, Iterator, Optional

from ..errors import ModelError

WRITABLE_BY_ALL, WRITABLE_BY_GROUP = stat.S_IWOTH, stat.S_IWGRP

# No server uses it; the last two are none where qemu emulates another processor (a container of another architecture)
WAKE = signal.SIGRTMAX - 4
# as a backend's own handler of SIGQUIT exits: the server then ends all sessions and starts again
CRASH_EXIT = 2


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block all signals, so that threads which a library starts meanwhile never receive the database's signals.

    But a compilation or a first inference may take minutes, and an immediate stop must not wait for it: a thread of
    ours waits for SIGQUIT meanwhile. SIGTERM, cancel and timeouts take effect afterwards, as with any C function.
    """
    # a new thread inherits the mask of the thread that starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    stop = _watch_for_quit()
    try:
        yield
    finally:
        # first the watcher, which must not take a SIGQUIT once this thread can: without the GIL it could not act on it
        stop()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch_for_quit() -> Callable[[], None]:
    """Start a thread that ends the process when SIGQUIT comes; return what stops the thread and waits for its end."""
    # held until the watcher ends: a thread of _thread cannot be joined
    ended = _thread.allocate_lock()
    ended.acquire()

    # starts with all signals blocked, too, which sigwait needs
    def watch() -> None:
        try:
            if signal.sigwait({signal.SIGQUIT, WAKE}) == signal.SIGQUIT:
                # _exit: the server's own exit callbacks must not run in a thread, beside a compilation
                os._exit(CRASH_EXIT)
        finally:
            ended.release()

    watcher = _thread.start_new_thread(watch, ())

    def stop() -> None:
        signal.pthread_kill(watcher, WAKE)
        ended.acquire()

    return stop


@contextlib.contextmanager
def signals_open() -> Iterator[None]:
    """Let this thread hear all signals again, as the server wants it, while nothing but a wait is done."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def site_packages(venv: str, version: str) -> str:
    """Return the site-packages folder of a venv for a version of Python, for example 3.11."""
    return os.path.join(venv, "lib", "python" + version, "site-packages")


def why_unsafe(venv: str, version: str, uid: int, gid: int) -> Optional[str]:
    """Return what makes a venv unsafe, as a clause that names the path; None where it is safe.

    The folders above it count, because whoever may rename one of them may put another venv in its place. Within
    site-packages the packages' own folders and files are looked at, not what lies deeper: pip makes all of it alike.

    Args:
        uid, gid: of the server's user.
    """
    top = os.path.realpath(venv)
    for path in _above(top):
        wrong = _why_unsafe(path, uid, None)
        if wrong:
            return wrong
    for path in _inside(top, version):
        wrong = _why_unsafe(path, uid, gid)
        if wrong:
            return wrong
    return None


def _above(path: str) -> Iterator[str]:
    above = os.path.dirname(path)
    if above != path:
        yield from _above(above)
        yield above


def _inside(top: str, version: str) -> Iterator[str]:
    yield top
    yield from _entries(top)
    # the interpreter, or a link to it, which the trial starts
    yield os.path.join(top, "bin", "python")
    yield os.path.join(top, "lib", "python" + version)
    packages = site_packages(top, version)
    yield packages
    yield from _entries(packages)


def _entries(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        yield os.path.join(folder, name)


def _why_unsafe(path: str, uid: int, gid: Optional[int]) -> Optional[str]:
    """Return what makes a path unsafe; `gid` None: groups may write it (as those of /usr/local on Debian)."""
    try:
        status = os.stat(path)
    except OSError:  # nothing can be imported through a link to nowhere
        return None
    # in a sticky folder such as /tmp nobody can rename what belongs to another
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_uid not in (0, uid):
        return "%s belongs to %s" % (path, _user_name(status.st_uid))
    if status.st_mode & WRITABLE_BY_ALL and not (sticky and gid is None):
        return "everybody may write %s" % path
    if gid is not None and status.st_mode & WRITABLE_BY_GROUP and status.st_gid not in (0, gid):
        return "group %d may write %s" % (status.st_gid, path)
    return None


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "user id %d" % uid


def add_venv(venv: str) -> None:
    """Put a venv's packages first on sys.path.

    Raises:
        ModelError: it is not there, was made by another Python version, or others may write it.
    """
    version = "%d.%d" % sys.version_info[:2]
    # resolved, so that what is imported is what was checked
    folder = os.path.realpath(site_packages(venv, version))
    if folder in sys.path:
        return
    host = socket.gethostname()
    if not os.path.isdir(folder):
        raise ModelError(
            "the runtime's Python packages are not on host %s: there is no folder %s"
            % (host, site_packages(venv, version)),
            hint="On that host: python%s -m venv %s && "
            "%s/bin/pip install openvino numpy opencv-python-headless orjson; "
            "or choose another virtual environment: dbinfer install --venv PATH" % (version, venv, venv),
            sqlstate="58P01",
            public="the runtime's Python packages are not there",
        )
    unsafe = why_unsafe(venv, version, os.geteuid(), os.getegid())
    if unsafe:
        raise ModelError(
            "the runtime's Python packages on host %s are not safe to import: %s" % (host, unsafe),
            hint="On that host: chown -R root %s && chmod -R go-w %s (and the folder above, if it is named); "
            "or choose another virtual environment: dbinfer install --venv PATH" % (venv, venv),
            sqlstate="42501",
            public="the runtime's Python packages are not safe to import",
        )
    before = list(sys.path)
    site.addsitedir(folder)  # runs the .pth files there, so only after the check
    added = [path for path in sys.path if path not in before]
    # addsitedir appends, but the venv must come before the system's own numpy
    sys.path[:] = added + before


def import_libraries(venv: str, max_pixels: int) -> Dict[str, Any]:
    """Import the libraries once and return them by name: numpy, cv2, openvino (its extension module only).

    The whole openvino package costs more time, sends telemetry and starts a thread; the extension module alone does
    not. Where another function of the session imports openvino later, it gets the whole package.

    Args:
        max_pixels: of an image, which holds for OpenCV as long as the process lives.
    """
    if venv:
        add_venv(venv)
    # OpenCV's warnings would fill the server's log; callers get an ImageError
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
    # OpenCV reads it once, at its import, and else decodes 2^30 pixels of a file whose header we misread
    os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(max_pixels))
    # numpy would start a thread for each core, which nothing here uses
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        # threads that an import starts must not receive the database's signals
        with signals_blocked():
            libraries = {name: importlib.import_module(name) for name in ("numpy", "cv2", "orjson")}
            libraries["openvino"] = _openvino_extension()
            # backends are what runs in parallel here, not the pixels of one image
            libraries["cv2"].setNumThreads(1)
    except ImportError as err:
        raise _missing(venv, err) from err
    return libraries


def require_libraries(venv: str) -> None:
    """Check that the libraries are there, without importing any; ModelError where one is missing."""
    if venv:
        add_venv(venv)
    for name in ("numpy", "cv2", "orjson", "openvino"):
        if importlib.util.find_spec(name) is None:
            raise _missing(venv, ModuleNotFoundError("No module named %r" % name))


def _missing(venv: str, err: ImportError) -> ModelError:
    # numpy wraps the reason into a page of advice
    while isinstance(err.__cause__, ImportError):
        err = err.__cause__
    lacking = isinstance(err, ModuleNotFoundError)
    install = "%s/bin/pip install openvino numpy opencv-python-headless orjson" % venv
    return ModelError(
        "the runtime's Python packages cannot be imported on host %s: %s" % (socket.gethostname(), err),
        detail="The virtual environment is %s, with Python %s." % (venv or "none", sys.version.split()[0]),
        hint="Install them there: " + install
        if lacking
        else "Let the server's user load what lies there (is it mounted noexec, does SELinux deny it?), or install it "
        "anew: " + install,
        sqlstate="58P01",
        public="the runtime's Python packages cannot be imported",
    )


def _openvino_extension() -> Any:
    leave_out()
    # another function of this session has imported the whole package
    if "openvino" in sys.modules:
        return importlib.import_module("openvino._pyopenvino")
    spec = importlib.util.find_spec("openvino")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'openvino'")
    # a package with the right path and without its __init__, which imports all the rest
    package = types.ModuleType("openvino")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["openvino"] = package
    try:
        return importlib.import_module("openvino._pyopenvino")
    finally:
        del sys.modules["openvino"]


def leave_out() -> None:
    """Let this process import openvino without telemetry and its thread, and without the converter.

    The converter's import takes longer than all the rest.
    """
    # None makes an import fail, and openvino does without these
    for unwanted in ("openvino_telemetry", "openvino.tools.ovc"):
        sys.modules.setdefault(unwanted, None)  # type: ignore[arg-type]


def versions() -> Dict[str, str]:
    """Return the installed versions by name, from the packages' metadata."""
    from importlib import metadata

    found = {}
    for name, packages in (
        ("openvino", ("openvino",)),
        ("numpy", ("numpy",)),
        # either of them provides cv2
        ("opencv", ("opencv-python-headless", "opencv-python")),
        ("orjson", ("orjson",)),
    ):
        for package in packages:
            try:
                found[name] = metadata.version(package)
                break
            except metadata.PackageNotFoundError:
                continue
    return found
