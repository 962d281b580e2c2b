"""dbinfer: deep-learning image inference with plain SQL, inside Greenplum or PostgreSQL.

Each command of the shell is a function of the same name, `verb(inputs, options, dsn, progress) -> report`, with the
same options:

    import dbinfer

    dbinfer.deploy("digits.xml", dbinfer.DeployOptions(alias="candidate"))
    dbinfer.score("images", "predictions").images_per_second

Names are imported when they are first used, and heavy libraries when a function needs them. `dbinfer.score` is the
function; the package of the same name is still there for `from dbinfer.score import ...`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbinfer.base.lazy import offer_lazily
from dbinfer.base.version import __version__

if TYPE_CHECKING:
    from dbinfer.base.errors import DbinferError
    from dbinfer.base.progress import OnProgress, Progress, silent
    from dbinfer.base.report import Report
    from dbinfer.bench import BenchOptions, BenchReport, bench
    from dbinfer.convert import ConvertOptions, ConvertReport, convert
    from dbinfer.convert.quantize import QuantizeOptions, QuantizeReport, quantize
    from dbinfer.database.connection import connect
    from dbinfer.demo import DemoOptions, DemoReport, demo
    from dbinfer.images.load import LoadOptions, LoadReport, load
    from dbinfer.images.sample import SampleOptions, SampleReport, sample
    from dbinfer.images.stores import (
        StoreCheckReport,
        StoreOptions,
        StoreReport,
        StoresReport,
        add_store,
        check_store,
        drop_store,
        grant_store,
        revoke_store,
        store,
    )
    from dbinfer.install import InstallOptions, InstallReport, UpgradeOptions, install, uninstall, upgrade
    from dbinfer.install.doctor import DoctorOptions, DoctorReport, doctor
    from dbinfer.install.hosts import (
        CacheOptions,
        CacheReport,
        EngineOptions,
        EngineReport,
        ServiceOptions,
        cache,
        engine,
    )
    from dbinfer.install.metrics import MetricsOptions, MetricsReport, metrics
    from dbinfer.label import LabelOptions, LabelReport, label
    from dbinfer.models import (
        DeployOptions,
        DeployReport,
        ModelsReport,
        RegistryReport,
        UsageReport,
        activate,
        alias,
        default,
        deploy,
        drop,
        grant,
        models,
        revoke,
        usage,
    )
    from dbinfer.plan import PlanOptions, PlanReport, plan
    from dbinfer.report import PageReport, ReportOptions, report
    from dbinfer.report.choosing import NextOptions, NextReport, next
    from dbinfer.report.judge import JudgeReport, judge
    from dbinfer.report.proxy import ProxyOptions, ProxyReport, proxy
    from dbinfer.score import (
        CancelReport,
        ExportOptions,
        ExportReport,
        FollowOptions,
        FollowReport,
        JobsReport,
        PredictOptions,
        PredictReport,
        ScoreOptions,
        ScoreReport,
        Scoring,
        cancel_job,
        export,
        follow,
        jobs,
        predict,
        score,
    )
    from dbinfer.server import (
        HostVenvOptions,
        HostVenvReport,
        ServerReport,
        UpOptions,
        down,
        host_venv,
        status,
        up,
    )
    from dbinfer.train import TrainOptions, TrainReport, train
    from dbinfer.tune import TuneOptions, TuneReport, tune
    from dbinfer.worker import WorkerOptions, WorkerReport, worker

__all__ = [
    "BenchOptions",
    "BenchReport",
    "CacheOptions",
    "CacheReport",
    "CancelReport",
    "ConvertOptions",
    "ConvertReport",
    "DbinferError",
    "DemoOptions",
    "DemoReport",
    "DeployOptions",
    "DeployReport",
    "DoctorOptions",
    "DoctorReport",
    "EngineOptions",
    "EngineReport",
    "ExportOptions",
    "ExportReport",
    "FollowOptions",
    "FollowReport",
    "HostVenvOptions",
    "HostVenvReport",
    "InstallOptions",
    "InstallReport",
    "JobsReport",
    "JudgeReport",
    "LabelOptions",
    "LabelReport",
    "LoadOptions",
    "LoadReport",
    "MetricsOptions",
    "MetricsReport",
    "ModelsReport",
    "NextOptions",
    "NextReport",
    "OnProgress",
    "PageReport",
    "PlanOptions",
    "PlanReport",
    "PredictOptions",
    "PredictReport",
    "Progress",
    "ProxyOptions",
    "ProxyReport",
    "QuantizeOptions",
    "QuantizeReport",
    "RegistryReport",
    "Report",
    "ReportOptions",
    "SampleOptions",
    "SampleReport",
    "ScoreOptions",
    "ScoreReport",
    "Scoring",
    "ServerReport",
    "ServiceOptions",
    "StoreCheckReport",
    "StoreOptions",
    "StoreReport",
    "StoresReport",
    "TrainOptions",
    "TrainReport",
    "TuneOptions",
    "TuneReport",
    "UpOptions",
    "UpgradeOptions",
    "UsageReport",
    "WorkerOptions",
    "WorkerReport",
    "__version__",
    "activate",
    "add_store",
    "alias",
    "bench",
    "cache",
    "cancel_job",
    "check_store",
    "connect",
    "convert",
    "default",
    "demo",
    "deploy",
    "doctor",
    "down",
    "drop",
    "drop_store",
    "engine",
    "export",
    "follow",
    "grant",
    "grant_store",
    "host_venv",
    "install",
    "jobs",
    "judge",
    "label",
    "load",
    "metrics",
    "models",
    "next",
    "plan",
    "predict",
    "proxy",
    "quantize",
    "report",
    "revoke",
    "revoke_store",
    "sample",
    "score",
    "silent",
    "status",
    "store",
    "train",
    "tune",
    "uninstall",
    "up",
    "upgrade",
    "usage",
    "worker",
]

offer_lazily(__name__)
