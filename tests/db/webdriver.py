"""A browser that is driven by keys: chromedriver's protocol (W3C WebDriver), spoken with urllib alone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import browser

KEYS = {
    "Backspace": "\ue003", "Tab": "\ue004", "Enter": "\ue007", "Shift": "\ue008", "Control": "\ue009",
    "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015",
    "Delete": "\ue017",
}  # fmt: skip
PATIENCE = 60.0
OPENER = build_opener(ProxyHandler({}))


def find() -> str | None:
    """Return the path of chromedriver; None where it or Chromium is not installed."""
    return shutil.which("chromedriver") if browser.find() else None


@dataclass
class Driver:
    """One window of a browser."""

    session: str

    def go(self, url: str) -> None:
        _call(f"{self.session}/url", {"url": url})

    def press(self, *keys: str) -> None:
        """Press keys one after the other; "Shift+Tab" holds the first while the others are pressed."""
        actions = []
        for key in keys:
            parts = [KEYS.get(part, part) for part in (key.split("+") if len(key) > 1 else [key])]
            actions += [{"type": "keyDown", "value": part} for part in parts]
            actions += [{"type": "keyUp", "value": part} for part in reversed(parts)]
        _call(f"{self.session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Press the mouse at a point of the window, and let it go at another."""
        x, y = start
        actions: list[dict[str, Any]] = [
            {"type": "pointerMove", "x": x, "y": y},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerMove", "x": end[0], "y": end[1], "duration": 50},
            {"type": "pointerUp", "button": 0},
        ]
        _call(
            f"{self.session}/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]}
        )

    def run(self, script: str) -> Any:
        """Return what a function's body returns in the page."""
        return _call(f"{self.session}/execute/sync", {"script": script, "args": []})

    def wait(self, script: str, expected: Any = True) -> None:
        """Wait until the page says what is expected."""
        end = time.monotonic() + PATIENCE
        while (said := self.run(script)) != expected:
            assert time.monotonic() < end, f"{script} says {said!r}, not {expected!r}"
            time.sleep(0.02)

    def log(self) -> list[str]:
        """Return what the browser has complained of."""
        return [entry["message"] for entry in _call(f"{self.session}/se/log", {"type": "browser"})]

    def shoot(self, picture: Path) -> Path:
        picture.write_bytes(base64.b64decode(_call(f"{self.session}/screenshot")))
        return picture


@contextmanager
def driven(folder: Path, width: int = 1280, height: int = 800, dark: bool = False) -> Iterator[Driver]:
    """Yield a window of that size; folder: for the browser's files."""
    path = find()
    assert path
    words = ["--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars"]
    words += [
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-proxy-server",
    ]
    words += [f"--window-size={width},{height}", f"--user-data-dir={folder / 'profile'}"]
    # Chromium's sandbox refuses to be root's
    words += ["--no-sandbox"] if os.geteuid() == 0 else []
    words += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    wanted = {
        "goog:chromeOptions": {"binary": browser.find(), "args": words},
        "goog:loggingPrefs": {"browser": "ALL"},
    }
    log = folder / "chromedriver.log"
    with log.open("w") as said:
        process = subprocess.Popen([path, "--port=0"], stdout=said, stderr=subprocess.STDOUT)
    try:
        base = f"http://127.0.0.1:{_port(log, lambda: process.poll() is None)}"
        made = _call(f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})
        session = f"{base}/session/{made['sessionId']}"
        yield Driver(session)
        _call(session, method="DELETE")
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _port(log: Path, runs: Callable[[], bool]) -> int:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and runs():
        said = log.read_text()
        if "started successfully on port" in said:
            return int(said.rpartition("on port ")[2].split(".")[0])
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def _call(url: str, body: Any = None, method: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with OPENER.open(request, timeout=PATIENCE) as answer:
            return json.load(answer)["value"]
    except HTTPError as err:
        with err:
            raise AssertionError(err.read().decode()) from err
