"""docker/greenplum: a cluster of separate hosts scores where the rows are, and what happens when a host is away."""

from __future__ import annotations

import pytest
import tiny_models
from containers import Project, docker
from outside import write_colours

IMAGES = 20  # of each colour: enough that no segment gets none
HOSTS = ["segment1", "segment2"]


def ask(cluster: Project, *statements: str) -> list[str]:
    """Run statements in one session as gpadmin and return the lines of their results."""
    script = 'source /usr/local/greenplum-db/greenplum_path.sh && psql -XAtqd dbinfer -v ON_ERROR_STOP=1 "$@"'
    words = [word for statement in statements for word in ("-c", statement)]
    command = ("gosu", "gpadmin", "bash", "-c", script, "psql", *words)
    return str(cluster.execute("coordinator", *command, timeout=120).stdout).splitlines()


@pytest.fixture(scope="module")
def loaded(greenplum: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The cluster with a model and a table of images, both brought by the client."""
    folder = tmp_path_factory.mktemp("greenplum")
    write_colours(folder / "images", IMAGES)
    model = tiny_models.colour_classifier(folder)
    folder.chmod(0o755)
    for path in (model, model.with_suffix(".bin"), folder / "images"):
        docker("cp", str(path), f"{greenplum.container('client')}:/tmp/{path.name}")
    greenplum.ask("client", "dbinfer", "deploy", f"/tmp/{model.name}")
    words = ("dbinfer", "load", "/tmp/images", "--table", "colours", "--label-from", "folder")
    assert greenplum.ask("client", *words)["loaded"] == 3 * IMAGES
    return greenplum


def test_doctor_finds_two_segments_on_each_host(greenplum: Project) -> None:
    report = greenplum.ask("client", "dbinfer", "doctor")
    assert report["ok"]
    found = {check["name"]: check["detail"] for check in report["checks"]}
    assert found["segments"] == "4 of 4 answer"
    assert ask(greenplum, "SELECT host, count(*) FROM dbinfer.segments GROUP BY 1 ORDER BY 1") == [
        f"{host}|2" for host in HOSTS
    ]


def test_both_hosts_score_their_own_rows(loaded: Project) -> None:
    """After the scoring of all rows, each segment's process holds the model: it has scored."""
    scored, *places = ask(
        loaded,
        "SELECT count(*) FROM (SELECT dbinfer.predict(img, 'colours') p FROM colours OFFSET 0) s WHERE p IS NOT NULL",
        # no GROUP BY here: it would ask another process of each segment
        "SELECT host || ' ' || models FROM dbinfer.segments",
    )
    assert scored == str(3 * IMAGES)
    assert sorted(places) == [f'{host} ["colours@1"]' for host in HOSTS for _ in range(2)]


def test_score_from_the_client_gives_every_row_its_label(loaded: Project) -> None:
    words = (
        "dbinfer",
        "score",
        "--table",
        "colours",
        "--predictions",
        "answers",
        "--model",
        "colours",
        "--replace",
    )
    assert loaded.ask("client", *words)["rows"] == 3 * IMAGES
    wrong = "SELECT count(*) FROM answers a JOIN colours c USING (id) WHERE a.label IS DISTINCT FROM c.label"
    assert ask(loaded, wrong) == ["0"]


def test_the_superuser_needs_the_password_outside_the_cluster(loaded: Project) -> None:
    done = loaded.execute("client", "env", "PGPASSFILE=/dev/null", "dbinfer", "doctor", check=False)
    assert done.returncode == 1
    assert "no password supplied" in done.stderr


def test_no_key_is_in_the_image(loaded: Project) -> None:
    """The key of the cluster was made at its start: it is in the volume, and no file of the image has it."""
    image = loaded.values["DBINFER_GREENPLUM_IMAGE"]
    key = loaded.execute("segment1", "cat", "/keys/id_rsa.pub").stdout.split()[1]
    find = f"grep -rlF {key} /home /root /etc /opt/dbinfer /keys 2>/dev/null; true"
    assert docker("run", "--rm", "--entrypoint", "bash", image, "-c", find).split() == []


def test_a_lost_host_is_named_and_comes_back(loaded: Project) -> None:
    """Without a segment host statements fail, with its name or address; after its return nothing is lost."""
    docker("stop", "-t", "5", loaded.container("segment2"))
    try:
        seen = _failure(loaded)
    finally:
        docker("start", loaded.container("segment2"))
    assert "segment2" in seen or ".12" in seen, seen
    loaded.wait("segment2")
    # the segments of a returned host are started by the coordinator, together with the cluster
    docker("restart", "-t", "120", loaded.container("coordinator"))
    loaded.wait("coordinator")
    assert loaded.ask("client", "dbinfer", "doctor")["ok"]
    test_score_from_the_client_gives_every_row_its_label(loaded)


def _failure(cluster: Project) -> str:
    words = ("dbinfer", "score", "--table", "colours", "--predictions", "lost", "--model", "colours")
    done = cluster.execute("client", *words, check=False, timeout=120)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert cluster.execute("client", "dbinfer", "doctor", check=False, timeout=120).returncode == 1
    return str(done.stderr)
