# One line each: a target sets up what it needs (scripts/bootstrap, quick the second time) and calls the real tool.
.PHONY: help bootstrap demo test test-all check bench papers soak verify test-trust test-greenplum test-docker test-matrix train-env docs dist clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || grep '## ' Makefile

bootstrap: ## install what is missing: PostgreSQL with PL/Python, .venv
	@bash scripts/bootstrap

demo: bootstrap ## train, deploy and score real images with SQL, in a few minutes
	@.venv/bin/dbinfer demo

test: bootstrap train-env ## each room's main ways, with real servers, engines and trainings: about 6 minutes on two cores
	@bash scripts/test "not wide"

test-all: bootstrap train-env ## all tests that this machine can run; LONG=1 for their long forms
	@bash scripts/test

check: bootstrap ## ruff, mypy and the layer test
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/pytest -q tests/unit/test_layers.py

bench: bootstrap ## images per second of SQL against a bare loop and other methods; rewrites docs/explanation/performance.md, under 40 minutes
	@.venv/bin/pip install --quiet -e '.[bench]'
	@.venv/bin/python tests/bench/publish.py bench scaling

papers: bootstrap train-env ## the experiments of the papers of this field beside ours; writes docs/explanation/papers.md, under 40 minutes; goes on where it was stopped
	@.venv/bin/python tests/bench/papers.py

test-trust: bootstrap ## the tests that the page on security names, with a table at the end; LONG=1 for all of it; on the cluster where one is named
	@.venv/bin/pytest $$(grep -oE 'tests/[a-z]+/test_[a-z0-9_*]+\.py' docs/explanation/security.md | sort -u)

soak: bootstrap ## hours of mixed load in which parts are ended, with a curve of memory in build/soak.svg; HOURS=8 says how many, else five minutes
	@SOAK_HOURS=$(or $(HOURS),0.0834) .venv/bin/pytest -s tests/trust/test_soak.py

verify: bootstrap ## all that the docs claim, at one commit, part by part; writes docs/verification.md; PART="soak trust" chooses, goes on where it was stopped
	@.venv/bin/python tests/verify.py $(PART)

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

docs: bootstrap ## write docs/reference and docs/verification.md anew, and the site of docs/ with search to build/site
	@.venv/bin/pip install --quiet -e '.[docs]'
	@.venv/bin/python scripts/reference.py
	@.venv/bin/python tests/verify.py --page
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet && echo "build/site/index.html"

dist: bootstrap ## wheel, source, list of all that an installation brings with its licences, and digests, to dist/
	@bash scripts/dist

clean: ## remove build products and caches; .venv and the embedded server stay
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache && find . -path ./.venv -prune -o -name __pycache__ -print0 | xargs -0 rm -rf
