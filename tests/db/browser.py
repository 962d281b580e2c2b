"""A headless Chromium: opens a page in a frame of some width, asks it questions in JavaScript, takes its picture."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
SCREEN_HEIGHT = 900
# The page itself runs no script, so the frame around it asks
FRAME = """<!DOCTYPE html><body style="margin:0">
<iframe id="frame" src="{page}" width="{width}" height="{height}" style="border:0"></iframe><pre id="said"></pre>
<script>
onload = async () => {{
  const page = frame.contentDocument, view = frame.contentWindow;
  const style = (what) => view.getComputedStyle(page.querySelector(what));
  const wait = () => new Promise((done) => setTimeout(done, 50));
  let found;
  try {{ found = await (async () => {{ {script} }})(); }} catch (error) {{ found = {{error: String(error)}}; }}
  said.textContent = JSON.stringify(found);
}};
</script>"""


def find() -> str | None:
    """Return the path of Chromium; None where it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def ask(page: Path, script: str, width: int = 1280, dark: bool = False) -> Any:
    """Return what a script says of the page: it may use page, view, style(selector) and wait()."""
    frame = page.with_name(f"frame-{width}.html")
    frame.write_text(FRAME.format(page=page.name, width=width, height=SCREEN_HEIGHT, script=script))
    dom = _run(page.parent, dark, "--virtual-time-budget=4000", "--dump-dom", frame.as_uri())
    said = re.search(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL)
    assert said, dom[-2000:]
    assert said[1], "the page has not loaded"
    return json.loads(html.unescape(said[1]))


def shoot(
    page: Path, picture: Path, width: int = 1280, height: int = SCREEN_HEIGHT, dark: bool = False
) -> Path:
    """Write a PNG of the page's upper part."""
    size = f"--window-size={width},{height}"
    _run(page.parent, dark, "--hide-scrollbars", size, f"--screenshot={picture}", page.as_uri())
    return picture


def _run(folder: Path, dark: bool, *words: str) -> str:
    path = find()
    assert path
    fixed = ["--headless", "--disable-gpu", "--no-first-run", "--allow-file-access-from-files"]
    # Nor does the browser load anything for itself
    fixed += [
        "--disable-quic",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    fixed += [f"--user-data-dir={folder / 'profile'}", "--disable-dev-shm-usage"]
    # Chromium's sandbox refuses to be root's
    fixed += ["--no-sandbox"] if os.geteuid() == 0 else []
    # 0 dark, 1 light: what the page's prefers-color-scheme sees
    fixed += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    done = subprocess.run([path, *fixed, *words], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout
