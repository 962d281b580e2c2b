"""The setting `device`: where it agrees its answers are those of the processor, and where it does not, too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2.extensions import connection as Connection

from dbinfer.database.backends import COORDINATOR, Check
from dbinfer.install import InstallOptions, install
from dbinfer.install.doctor import doctor
from dbinfer.models import deploy

pytestmark = pytest.mark.in_backends("each test says itself where its models are computed")
IMAGES = [tiny_models.file(tiny_models.picture(*rgb)) for rgb in ((200, 9, 9), (9, 200, 9), (9, 9, 200))]
MODELS = ("colours", "redness", "conv")
CALLS = (
    "dbinfer.predict(img, 'conv')::text",
    "dbinfer.classify(img, 'colours')",
    "encode(dbinfer.segment(img, 'redness'), 'hex')",
)
TABLE = "SELECT id, label FROM dbinfer.classify_table('many', 'colours') ORDER BY id"
# no machine has so many
NOWHERE = "GPU.99"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for make in (tiny_models.colour_classifier, tiny_models.red_mask, tiny_models.convolution):
        deploy(make(folder), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        make_images(db, "many", IMAGES, 40)


@pytest.fixture(autouse=True)
def processor_afterwards(dsn: str) -> Iterator[None]:
    yield
    install(InstallOptions(device="CPU"), dsn)


def answers(dsn: str, isolation: str) -> list[list[tuple[object, ...]]]:
    """Return what a fresh session answers."""
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        for name in MODELS:
            rows(db, "SELECT dbinfer.set_isolation(%s, %s)", name, isolation)
        return [rows(db, f"SELECT id, {call} FROM many ORDER BY id") for call in CALLS] + [rows(db, TABLE)]


def devices(db: Connection, isolation: str) -> list[dict[str, object]]:
    """Return what each process that scores says of its device."""
    found = dict(rows(db, "SELECT content, devices FROM dbinfer.segments"))
    tried = {content: said["tried"] for content, said in found.items() if content != COORDINATOR}
    if isolation == "always" and None not in tried:
        # in the engine of a cluster's host one of its segments tries a model for all
        assert sum(tried.values()) >= len(MODELS)
    else:
        assert set(tried.values()) == {len(MODELS)}
    return [said for said in found.values() if said is not None]


def device_checks(dsn: str) -> list[Check]:
    """Return what doctor says of the processes that have tried models."""
    checks = [check for check in doctor(dsn=dsn).checks if check.name.endswith(" device")]
    busy = [check for check in checks if "0 of 0 models" not in check.detail]
    assert busy
    return busy


def how_many(check: Check, isolation: str) -> str:
    """Return a pattern of how many models a process has tried; a coordinator scores no rows of tables."""
    some = ("coordinator", "segment") if isolation == "always" else "coordinator"
    return "[1-3]" if check.name.startswith(some) else "3"


@pytest.mark.parametrize("isolation", ["never", "always"])
@pytest.mark.parametrize("device", ["AUTO:CPU", "HETERO:CPU"])
def test_a_device_that_agrees_computes(db: Connection, dsn: str, device: str, isolation: str) -> None:
    expected = answers(dsn, isolation)
    install(InstallOptions(device=device), dsn)
    assert answers(dsn, isolation) == expected
    assert ask(db, "SELECT dbinfer.profile(img, 'conv') ->> 'device' FROM many LIMIT 1") == device
    found = devices(db, isolation)
    assert {said["wanted"] for said in found} == {device}
    assert all((said["models"], said["reasons"]) == (said["tried"], []) for said in found)
    checks = device_checks(dsn)
    assert all(check.ok for check in checks)
    for check in checks:
        assert re.fullmatch(rf"{device} computes ({how_many(check, isolation)}) of \1 models", check.detail)


@pytest.mark.parametrize("isolation", ["never", "always"])
def test_the_processor_computes_where_the_device_does_not(db: Connection, dsn: str, isolation: str) -> None:
    expected = answers(dsn, isolation)
    install(InstallOptions(device=NOWHERE), dsn)
    assert answers(dsn, isolation) == expected
    assert ask(db, "SELECT dbinfer.profile(img, 'conv') ->> 'device' FROM many LIMIT 1") == "CPU"
    assert {(said["wanted"], said["models"]) for said in devices(db, isolation)} == {(NOWHERE, 0)}
    checks = device_checks(dsn)
    for check in checks:
        assert not check.ok
        assert re.match(
            rf"{NOWHERE} computes 0 of {how_many(check, isolation)} models: OpenVINO cannot run it",
            check.detail,
        )
        assert "dbinfer install --device CPU" in check.hint


def test_others_than_administrators_see_no_reasons(db: Connection, dsn: str) -> None:
    """OpenVINO's words name folders of the host."""
    install(InstallOptions(device=NOWHERE), dsn)
    answers(dsn, "never")
    assert "devices" not in json.loads(ask(db, "SELECT dbinfer._status()"))
