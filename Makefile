# One line each: a target sets up what it needs (scripts/bootstrap, quick the second time) and calls the real tool.
.PHONY: help bootstrap demo test test-all check bench test-trust test-greenplum test-docker test-matrix train-env clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || grep '## ' Makefile

bootstrap: ## install what is missing: PostgreSQL with PL/Python, .venv
	@bash scripts/bootstrap

demo: bootstrap ## train, deploy and score real images with SQL, in a few minutes
	@.venv/bin/dbinfer demo

test: bootstrap train-env ## the main ways of everything, with real servers, engines and trainings: 6 to 7 minutes on two cores
	@bash scripts/test "not wide"

test-all: bootstrap train-env ## all tests that this machine can run; LONG=1 for their long forms
	@bash scripts/test

check: bootstrap ## ruff, mypy and the layer test
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/pytest -q tests/unit/test_layers.py

bench: bootstrap ## images per second of SQL against a bare loop and other methods; rewrites docs/performance.md, under 30 minutes
	@.venv/bin/pip install --quiet -e '.[bench]'
	@mkdir -p build && .venv/bin/dbinfer bench --json build/bench.json --plot docs/performance.png --markdown docs/performance.md
	@.venv/bin/dbinfer bench scaling --json build/scaling.json --plot docs/scaling.png --markdown docs/performance.md

test-trust: bootstrap ## hostile files, faults and load, with a table at the end; LONG=1 for all of it; on the cluster where one is named
	@.venv/bin/pytest tests/trust tests/db/test_trust_*.py tests/db/test_engine_*.py tests/db/test_registry_trial.py tests/unit/test_engine_*.py tests/unit/test_udf_trial.py tests/unit/test_udf_venv.py tests/unit/test_trust_*.py tests/unit/test_load_hostile_archives.py tests/unit/test_server_folders.py tests/unit/test_train_cluster_address.py tests/greenplum/test_trust_*.py

test-greenplum: ## the database tests on the cluster that DBINFER_TEST_GREENPLUM_DSN names
	@test -n "$$DBINFER_TEST_GREENPLUM_DSN" || { echo "set DBINFER_TEST_GREENPLUM_DSN to a superuser's dsn"; exit 2; }
	@test -n "$$DBINFER_TEST_GREENPLUM_VENV" || { echo "set DBINFER_TEST_GREENPLUM_VENV to the venv on the cluster's hosts"; exit 2; }
	@$(MAKE) --no-print-directory bootstrap train-env
	@.venv/bin/pytest tests/db tests/greenplum

test-docker: bootstrap ## the container images and compose files (needs a container engine)
	@.venv/bin/pytest tests/docker

test-matrix: bootstrap ## the database tests on PostgreSQL 13 to 18 in containers, with a table at the end; ENGINES="14 17" and PART=core choose, RESUME=1 goes on
	@.venv/bin/python tests/matrix $(if $(RESUME),--resume) $(if $(PART),--part $(PART)) $(if $(ONLY),--only "$(ONLY)") $(ENGINES)

train-env: bootstrap ## Horovod for training with several processes (compiles for some minutes)
	@bash scripts/train-env

clean: ## remove build products and caches; .venv and the embedded server stay
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache && find . -path ./.venv -prune -o -name __pycache__ -print0 | xargs -0 rm -rf
