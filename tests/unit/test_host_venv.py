"""A Python of its own and its venv: what it runs, and that nothing is imported from where others may write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbinfer_udf.errors import ModelError, UdfError
from dbinfer_udf.host import libraries, own_python
from dbinfer_udf.session import images

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
SITE = f"lib/python{VERSION}/site-packages"
NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A venv with a .pth, which leaves a trace where it runs."""
    made = tmp_path / "venv"
    (made / SITE / "numpy").mkdir(parents=True)
    (made / "bin").mkdir()
    (made / "pyvenv.cfg").touch()
    (made / SITE / "trace.pth").write_text(f"import os; open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    for path in [made, *made.rglob("*")]:
        path.chmod(0o755)
    return made


def found(folder: Path) -> str | None:
    return libraries.why_unsafe(str(folder), VERSION, os.geteuid(), os.getegid())


def test_a_venv_of_the_server_or_of_root_is_accepted(folder: Path) -> None:
    assert found(folder) is None


PARTS = ["", "bin", "lib", f"lib/python{VERSION}", SITE, f"{SITE}/numpy", f"{SITE}/trace.pth", "pyvenv.cfg"]


@pytest.mark.parametrize("part", PARTS)
def test_what_everybody_may_write_is_named(folder: Path, part: str) -> None:
    (folder / part).chmod(0o777)
    assert found(folder) == f"everybody may write {folder / part}"


@pytest.mark.parametrize("part", PARTS)
def test_what_another_group_may_write_is_named(folder: Path, part: str) -> None:
    (folder / part).chmod(0o775)
    assert found(folder) is None, "the server's own group is as good as the server"
    other = os.getegid() + 1
    assert libraries.why_unsafe(str(folder), VERSION, os.geteuid(), other) == (
        None if os.getegid() == 0 else f"group {os.getegid()} may write {folder / part}"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
@pytest.mark.parametrize("part", PARTS)
def test_what_belongs_to_somebody_else_is_named(folder: Path, part: str) -> None:
    os.chown(folder / part, NOBODY, -1)
    assert found(folder) == f"{folder / part} belongs to nobody"
    assert libraries.why_unsafe(str(folder), VERSION, NOBODY, NOBODY) is None, (
        "unless that is the server's user"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_an_owner_without_a_name_is_given_by_number(folder: Path) -> None:
    os.chown(folder, 54321, -1)
    assert found(folder) == f"{folder} belongs to user id 54321"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_group_that_is_another(folder: Path) -> None:
    os.chown(folder / SITE, -1, 54321)
    (folder / SITE).chmod(0o775)
    assert found(folder) == f"group 54321 may write {folder / SITE}"


def test_a_folder_above_that_others_may_write_is_named(tmp_path: Path, folder: Path) -> None:
    tmp_path.chmod(0o777)
    assert found(folder) == f"everybody may write {tmp_path}"
    tmp_path.chmod(0o1777)
    assert found(folder) is None, "with the sticky bit, as /tmp has it, others cannot replace the venv"


def test_a_link_is_followed(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert found(tmp_path / "link") is None
    (folder / SITE).chmod(0o777)
    assert found(tmp_path / "link") == f"everybody may write {folder / SITE}"


def test_a_dangling_link_inside_is_no_reason(folder: Path) -> None:
    (folder / "bin" / "python").symlink_to("/nowhere/python")
    (folder / SITE / "gone.pth").symlink_to("/nowhere/gone.pth")
    assert found(folder) is None


def test_a_backend_refuses_it_and_runs_nothing_in_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (folder / SITE).chmod(0o777)
    before = list(sys.path)
    with pytest.raises(ModelError) as caught:
        libraries.add_venv(str(folder))
    assert f"everybody may write {folder / SITE}" in caught.value.message
    assert "\n" not in caught.value.message
    assert "chmod" in caught.value.hint
    assert caught.value.sqlstate == "42501"
    assert (tmp_path / "ran").exists() is False
    assert sys.path == before
    (folder / SITE).chmod(0o755)
    libraries.add_venv(str(folder))
    assert (tmp_path / "ran").exists() is True


PYTHON = "/usr/bin/python3"


def test_it_runs_what_it_is_told_and_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    program = b"import os, sys; print(sys.argv, os.getcwd(), '/elsewhere' in sys.path)"
    process = own_python.start_python(PYTHON, program, "a title", stdout=subprocess.PIPE)
    with process.stdout as out:
        assert out.read() == b"['-', 'a title'] / False\n"
    process.wait()


def test_a_limit_to_some_instructions_holds_for_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the engine computed with all that the processor has, whatever the server was told."""
    monkeypatch.setenv("OV_CPU_MAX_ISA", "AVX2")
    process = own_python.start_python(
        PYTHON, b"import os; print(os.environ['OV_CPU_MAX_ISA'])", stdout=subprocess.PIPE
    )
    with process.stdout as out:
        assert out.read() == b"AVX2\n"
    process.wait()


def test_one_that_is_dead_before_it_has_read_its_program_is_no_error() -> None:
    process = own_python.start_python("/bin/true", b"x" * (1 << 20), stdout=subprocess.DEVNULL)
    assert process.wait() == 0


def test_drawing_without_a_python_says_so(tmp_path: Path) -> None:
    """Before, this was an `unexpected FileNotFoundError`."""
    settings = {"venv": str(tmp_path)}
    with pytest.raises(
        UdfError, match=r"the Python that decodes, .* cannot be started: No such file"
    ) as caught:
        images.drawn_apart(settings, b"img", (None, None))
    assert caught.value.for_everybody().message == "such images cannot be decoded here"


def test_rows_of_an_image_function_import_the_libraries_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import looks at the environment, and starts a thread that watches for signals."""
    asked: list[str] = []
    monkeypatch.setattr(images, "_imported", set())
    monkeypatch.setattr(libraries, "import_libraries", lambda venv, _: asked.append(venv))
    for venv in ("", "", "/srv/venv", "", "/srv/venv"):
        images._with_libraries({"venv": venv})
    assert asked == ["", "/srv/venv"]
