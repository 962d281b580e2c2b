"""The bench of finding by words (tests/bench/words.py) in a small form: towers trained here find more than chance."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import words
from asking import ask
from psycopg2.extensions import connection as Connection

pytest.importorskip("openvino_tokenizers", reason="needs openvino-tokenizers: pip install dbinfer[text]")
pytest.importorskip("transformers", reason="needs transformers: pip install dbinfer[text]")
if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: pip install dbinfer[train]", allow_module_level=True)

pytestmark = pytest.mark.wide


def test_sentences_find_photographs(db: Connection, dsn: str, venv: Path, tmp_path: Path) -> None:
    if not list(venv.glob("lib/python3*/site-packages/openvino_tokenizers")):
        pytest.skip("needs openvino-tokenizers in the backends' environment")
    # a process of its own has TensorFlow, as a user's shell would
    program = f"import sys, pathlib; sys.path.insert(0, {str(Path(words.__file__).parent)!r})\nimport words\n"
    program += f"words.train(pathlib.Path({str(tmp_path)!r}), 3000, 6)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    words.deployed(tmp_path, dsn)
    found = words.recall(dsn)
    print(f"\nrecall at 10 of {found.photographs}: {found.found:.3f}, by chance {found.chance:.3f}")
    assert found.photographs == ask(db, "SELECT count(*) FROM seen") == 400
    assert found.found > 2 * found.chance
