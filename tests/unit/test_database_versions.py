"""Version strings of servers, as they were recorded in public projects' tests, logs and documents; builds shortened."""

from __future__ import annotations

import pytest

from dbinfer.database.platform import product

GCC = "compiled by gcc (GCC) 8.5.0 20210514 (Red Hat 8.5.0-18), 64-bit"
X86 = "on x86_64-pc-linux-gnu"
RECORDED = [
    # PostgreSQL and its packagers
    (
        f"PostgreSQL 15.20 (Debian 15.20-1.pgdg120+1) {X86}, compiled by gcc (Debian 12.2.0-14) 12.2.0",
        ("postgresql", "15.20", "Debian 15.20-1.pgdg120+1"),
    ),
    (
        f"PostgreSQL 16.2 (Ubuntu 16.2-1ubuntu4) {X86}, compiled by gcc (Ubuntu 13.2.0-23ubuntu4) 13.2.0",
        ("postgresql", "16.2", "Ubuntu 16.2-1ubuntu4"),
    ),
    ("PostgreSQL 18beta1 on aarch64-apple-darwin, compiled by Apple clang", ("postgresql", "18beta1", "")),
    # Greenplum (gpdb's gpstate)
    (
        f"PostgreSQL 9.4.26 (Greenplum Database 6.25.3 build commit:367edc6b Open Source) {X86}, {GCC}",
        ("greenplum", "6.25.3", ""),
    ),
    (
        f"PostgreSQL 12.12 (Greenplum Database 7.4.0 build commit:27de6dc6) {X86}, {GCC} Bhuvnesh C.",
        ("greenplum", "7.4.0", ""),
    ),
    (
        f"PostgreSQL 12.12 (Greenplum Database 7.2.0_arenadata5 build 103+git7888a88) {X86}, {GCC} Bhuvnesh C.",
        ("greenplum", "7.2.0_arenadata5", ""),
    ),
    (
        f"PostgreSQL 9.4.26 (Greenplum Database 6.22.2-mdb+dev.2.g7e0a4f3ab0 build dev-oss) {X86}, {GCC}",
        ("greenplum", "6.22.2-mdb+dev.2.g7e0a4f3ab0", ""),
    ),
    # the fork that these tests run on
    (
        f"PostgreSQL 12 (MatrixDB 5.0.0-community~alpha) (Greenplum Database 7.0.0 build dev) {X86}, {GCC}",
        ("greenplum", "7.0.0", "MatrixDB 5.0.0-community~alpha"),
    ),
    # gp-common-go-libs of HashData
    (
        f"PostgreSQL 9.4.26 (Greenplum Database 6.20.0 build 9999) (HashData Warehouse 3.13.8 build 27594) {X86}",
        ("greenplum", "6.20.0", "HashData Warehouse 3.13.8"),
    ),
    # warehouse-pg (its gp-common-go-libs)
    (
        f"PostgreSQL 9.4.26 (Greenplum Database 6.27.5-WHPG build dev) {X86}, {GCC} WarehousePG",
        ("warehousepg", "6.27.5-WHPG", ""),
    ),
    (
        f"PostgreSQL 12.12 (Greenplum Database 7.5.0-WHPG build dev) {X86}, {GCC} Bhuvnesh C. WarehousePG",
        ("warehousepg", "7.5.0-WHPG", ""),
    ),
    (
        f"PostgreSQL 19beta1 {X86}, {GCC} "
        "(Greenplum Database) 19.0.0 build dev compiled on Jul 20 2026 08:21:10 Bhuvnesh C. WarehousePG",
        ("warehousepg", "19.0.0", ""),
    ),
    # greengage (its gpbackup and exporter)
    (
        f"PostgreSQL 9.4.26 (Greengage Database 6.26.35_arenadata53 build 2625.gitac00af7.el7) {X86}",
        ("greengage", "6.26.35_arenadata53", ""),
    ),
    (
        f"PostgreSQL 12.12 (Greengage Database 7.4.0 build dev) {X86}, {GCC}",
        ("greengage", "7.4.0", ""),
    ),
    # cloudberry (its gpbackup and documentation)
    (
        f"PostgreSQL 14.4 (Cloudberry Database 1.6.0 build dev) {X86}, {GCC} compiled on Sep 13 2024 07:33:38",
        ("cloudberry", "1.6.0", ""),
    ),
    (
        f"PostgreSQL 14.4 (Apache Cloudberry 2.0.0-incubating build 1) {X86}, {GCC}",
        ("cloudberry", "2.0.0-incubating", ""),
    ),
    # others
    (
        "PostgreSQL 15.12-YB-2.25.2.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 19.1.0, 64-bit",
        ("yugabytedb", "2.25.2.0-b0", ""),
    ),
    (
        "CockroachDB CCL v23.2.4 (x86_64-pc-linux-gnu, built 2024/04/08 21:50:14, go1.21.5 X:nocoverageredesign)",
        ("cockroachdb", "23.2.4", ""),
    ),
    (
        f"PostgreSQL 8.0.2 {X86}, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), Redshift 1.0.77467",
        ("redshift", "1.0.77467", ""),
    ),
    # a relative of which nobody has told us
    (
        f"PostgreSQL 12.12 (Chestnut Warehouse 3.1 build 7) {X86}, {GCC}",
        ("postgresql", "12.12", "Chestnut Warehouse 3.1"),
    ),
]


def test_what_servers_say(subtests: pytest.Subtests) -> None:
    for text, wanted in RECORDED:
        with subtests.test(text=text, wanted=wanted):
            found = product(text)
            assert (found.name, found.version, found.brand) == wanted
