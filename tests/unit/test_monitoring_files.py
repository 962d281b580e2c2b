"""docker/monitoring: rules and dashboard ask for metrics that there are, and each rule tells what it is for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dbinfer.install.metrics import OWN, READ, VIEWS

yaml = pytest.importorskip("yaml")
FOLDER = Path(__file__).parents[2] / "docker" / "monitoring"
# Labels by metric; Prometheus adds instance
LABELS = {figure.metric: view.labels for view in (OWN, READ, *VIEWS.values()) for figure in view.figures}
LABELS |= {
    f"{figure.metric}_{part}": (*view.labels, *(["le"] if part == "bucket" else []))
    for view in VIEWS.values()
    if view.places
    for figure in view.figures
    for part in ("bucket", "count", "sum")
}
# What makes each rule fire: a series, and its values, one a minute
FIRES = {
    "DbinferDown": ("dbinfer_up", "0x200"),
    "DbinferViewUnreadable": ('dbinfer_view_up{view="jobs"}', "0x200"),
    "DbinferCannotScore": ('dbinfer_segments_faulty{host="a"}', "1x200"),
    "DbinferSegmentDown": ('dbinfer_segments_down{role="primary"}', "1x200"),
    "DbinferEngineFaulty": ('dbinfer_engines_faulty{host="a"}', "1x200"),
    "DbinferEngineWorkersRestart": ('dbinfer_engine_worker_restarts_total{host="a"}', "0+1x200"),
    "DbinferJobFailed": ('dbinfer_jobs{state="failed"}', "0x170 1x30"),
    "DbinferJobSilent": ('dbinfer_running_job_silent_seconds{source="a",target="b"}', "0+60x200"),
    "DbinferBadRows": ('dbinfer_job_bad_rows_total{model="m"}', "0+5x200"),
    "DbinferQueueGrows": ('dbinfer_follow_queue_rows{queue="q"}', "0+200x200"),
    "DbinferCacheDiskFull": ('dbinfer_cache_free_bytes{host="a"}', "500000000x200"),
}
SOUND = {
    "dbinfer_up": "1x200",
    'dbinfer_view_up{view="jobs"}': "1x200",
    'dbinfer_segments_faulty{host="a"}': "0x200",
    'dbinfer_segments_down{role="primary"}': "0x200",
    'dbinfer_engines_faulty{host="a"}': "0x200",
    'dbinfer_engine_worker_restarts_total{host="a"}': "5x200",
    'dbinfer_jobs{state="failed"}': "3x200",
    'dbinfer_running_job_silent_seconds{source="a",target="b"}': "2x200",
    'dbinfer_job_bad_rows_total{model="m"}': "0x200",
    'dbinfer_job_rows_total{model="m"}': "0+100x200",
    'dbinfer_follow_queue_rows{queue="q"}': "20000-50x200",
    'dbinfer_cache_free_bytes{host="a"}': "5000000000x200",
}


def rules() -> dict[str, str]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def queries() -> list[str]:
    """Return the queries of the dashboard as Prometheus gets them from Grafana."""
    board = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [query.replace("$__rate_interval", "5m").replace("$instance", ".*") for query in found]


@pytest.mark.parametrize("kind", ["rules", "queries"])
def test_they_ask_for_metrics_that_there_are(kind: str) -> None:
    for query in rules().values() if kind == "rules" else queries():
        asked = re.findall(r"\b(dbinfer_\w+)(?:\{([^}]*)\})?", query)
        assert asked, query
        for metric, selected in asked:
            assert metric in LABELS, query
            assert set(re.findall(r"(\w+)\s*=", selected)) <= {*LABELS[metric], "instance"}, query


def test_the_page_has_each_rule() -> None:
    page = (FOLDER.parents[1] / "docs" / "how-to" / "monitor.md").read_text("utf-8")
    assert set(re.findall(r"`(Dbinfer\w+)`", page)) == set(rules())


def promtool(*words: str) -> str:
    tool = os.environ.get("DBINFER_TEST_PROMTOOL") or shutil.which("promtool")
    if not tool:
        pytest.skip(
            "needs promtool, which Debian's package prometheus has: DBINFER_TEST_PROMTOOL may name it"
        )
    done = subprocess.run([tool, *words], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_them(tmp_path: Path) -> None:
    promtool("check", "config", str(FOLDER / "prometheus.yml"))
    made = [{"record": f"q{number}", "expr": query} for number, query in enumerate(queries())]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": made}]}))
    promtool("check", "rules", str(tmp_path / "queries.yml"))


def test_each_rule_tells_what_it_is_for_and_none_where_all_is_well(tmp_path: Path) -> None:
    assert set(FIRES) == set(rules())
    cases = [
        # one more of the series that are well is another than that which is not
        {"series": {**SOUND, series: values}, "fires": name}
        for name, (series, values) in FIRES.items()
    ]
    cases.append({"series": SOUND, "fires": None})
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": key, "values": value} for key, value in case["series"].items()],
            "promql_expr_test": [
                {
                    "expr": "count by (alertname) (ALERTS{alertstate='firing'})",
                    "eval_time": "195m",
                    "exp_samples": (
                        [{"labels": f'{{alertname="{case["fires"]}"}}', "value": 1}] if case["fires"] else []
                    ),
                }
            ],
        }
        for case in cases
    ]
    (tmp_path / "tests.yml").write_text(
        yaml.safe_dump(
            {"rule_files": [str(FOLDER / "alerts.yml")], "evaluation_interval": "1m", "tests": tests}
        )
    )
    promtool("test", "rules", str(tmp_path / "tests.yml"))
