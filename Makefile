# `make` lists what there is to do. Everything runs in .venv, which `make setup` builds and keeps up to date.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# What Python and pytest compiled is kept: half of the time that a start, and the collection of the tests, takes.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# What a broker needs, and what the demo, the tests and the benchmarks need beside it: Spark alone is most of it.
BROKER_INSTALLED := .venv/.installed-broker
INSTALLED := .venv/.installed
COMPILED := .venv/.compiled

PACKAGES := $(wildcard amqp_front benchmarks broker exchanges log_backend management mirror_cluster spark_bridge vhosts)
# The list of modules that setup.py compiles, as paths without an ending.
HOT_SOURCES := $(shell sed -nE 's/^    "routelog\.([a-z_.]+)",$$/\1/p' pyproject.toml | tr . /)
KERNEL := $(wildcard $(HOT_SOURCES:=.py) $(HOT_SOURCES:=.pxd))

# Three tests at a time, as one often waits; file by file: the tests of one share brokers, Spark or an ageing
# directory. In the order of the folders, as the long ones come first.
TESTS := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Tests would wait for the disk as long as they work: their files are in memory where there are 4 GiB for them.
# Tests of the disk have them on one all the same: tests/crash/disks/disk_directories.py.
IN_MEMORY := $(shell \
	free=$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1); \
	if [ "$${free:-0}" -gt 4194304 ]; then echo TMPDIR=/dev/shm; fi)

SHARES := $(shell seq "$$(nproc)")

N := 2000
STEPS := 1000000
SEEDS := 10000
ROUNDS := 60
EXAMPLES := 200
BROKER := routelog
PICTURES :=
LOCK :=
# Versions and hashes for all systems and for every Python from 3.11 on.
UV := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet $(LOCK)

.PHONY: help setup java demo demo-cluster serve test test-long test-spark-all crash model simulate faults api interop check lint coverage lock wheel release-check format bench site screenshots clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done

setup: $(INSTALLED) $(COMPILED) ## install everything into .venv and compile the kernel
	@:

demo: setup java ## an audit stream, a crash at full speed, and Spark over the log
	@$(BIN)/python docs/demo/run.py

demo-cluster: setup ## three nodes: a leader killed, one cut off, a disk wiped, under load; a minute
	@PYTHONPATH=tests $(BIN)/python -m cluster.demo

serve: $(COMPILED) ## run a broker on 127.0.0.1:5672 with its data in ./data
	@exec $(BIN)/routelog serve --host 127.0.0.1 --port 5672 --data-dir ./data

test: setup java ## tests of every kind, and samples of the long ones: 25 minutes on two slow cores
	@$(IN_MEMORY) $(TESTS) -m "not long"

test-long: setup java ## every test, with larger samples of crashes, histories and requests: 75 minutes
	@.ci/system-packages long
	@ROUTELOG_TEST_KILLS=100 ROUTELOG_TEST_READER_KILLS=5 ROUTELOG_TEST_CUTS=24 ROUTELOG_TEST_FAULTS=10 \
		ROUTELOG_TEST_POWER_CUTS=40 ROUTELOG_TEST_EXT4_CUTS=3 ROUTELOG_TEST_DAMAGES=120 ROUTELOG_TEST_SEEDS=200 \
		ROUTELOG_TEST_API_EXAMPLES=10 ROUTELOG_TEST_FUZZ_ROUNDS=10 ROUTELOG_TEST_FAULT_SECONDS=60 \
		ROUTELOG_TEST_EXECUTED=1 $(TESTS) \
		-o faulthandler_timeout=0

test-spark-all: setup java ## the tests of Spark with 4.0, 4.1 and 4.2, too; an hour and 5 GB the first time
	@.ci/spark-matrix
	@$(TESTS) -m spark

crash: setup ## N=2000: kill -9, power cuts and disk faults, all of them; hours
	@.ci/system-packages crash
	@ROUTELOG_TEST_KILLS=$(N) ROUTELOG_TEST_CUTS=all ROUTELOG_TEST_CUT_OUTCOMES=2 ROUTELOG_TEST_FAULTS=all \
		ROUTELOG_TEST_POWER_CUTS=400 ROUTELOG_TEST_EXT4_CUTS=50 ROUTELOG_TEST_DAMAGES=2500 \
		ROUTELOG_TEST_READER_KILLS=100 ROUTELOG_TEST_EVERY_BYTE=1 $(TESTS) \
		-o faulthandler_timeout=0 -m crash tests/crash/kills tests/crash/damage tests/crash/disks

model: setup ## STEPS=1000000: random clients against a model of queues and settlement; an hour
	@ROUTELOG_TEST_MODEL_STEPS=$(STEPS) $(BIN)/python -m pytest -s -o faulthandler_timeout=0 tests/model

simulate: setup ## SEEDS=10000: histories of a cluster with every fault, from seeds; ten minutes, with brokers and with clients an hour each
	@PYTHONPATH=tests $(BIN)/python -m simulation --seeds $(SEEDS) --processes "$$(nproc)"
	@PYTHONPATH=tests $(BIN)/python -m simulation --seeds $(SEEDS) --processes "$$(nproc)" --brokers
	@PYTHONPATH=tests $(BIN)/python -m simulation --seeds $(SEEDS) --processes "$$(nproc)" --fronts

faults: setup ## ROUNDS=60: three nodes, their disks, clocks, network and etcd, hurt from seeds; 2 minutes each
	@failed=; for seed in $$(seq $(ROUNDS)); do \
		PYTHONPATH=tests $(BIN)/python -m cluster.broker_runs --seconds 60 --seed "$$seed" || failed+=" $$seed"; \
	done; if [ -n "$$failed" ]; then echo "failed, by seed:$$failed" >&2; exit 1; fi

api: setup ## EXAMPLES=200: requests of each operation of the HTTP API, against its OpenAPI document; half an hour
	@ROUTELOG_TEST_API_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -q -o faulthandler_timeout=0 \
		--hypothesis-profile default tests/scenarios/management/test_openapi.py

interop: setup ## BROKER=routelog (or -follower, -processes): the integration suites of py-amqp, kombu and celery; an hour
	@.ci/system-packages interop
	@PYTHONPATH=tests:. $(BIN)/python -m interop_suites --broker $(BROKER)

check: setup ## what `make lint` does, and the unit tests
	@$(MAKE) --jobs --output-sync=target lint $(SHARES:%=unit-%)

# A share of the files for each processor. Workers of pytest-xdist would each collect all tests, and take longer to
# tell of a unit test than it takes.
unit-%: setup
	@$(IN_MEMORY) ROUTELOG_TEST_EXAMPLE_EVERY=4 $(BIN)/python -m pytest -q -p no:schemathesis -p no:xdist \
		$$(find tests/unit -name 'test_*.py' | LC_ALL=C sort | awk 'NR % $(words $(SHARES)) == $* - 1')

lint: setup ## format, lint, strict types, architecture, links of the documentation
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy setup.py src tests
	@$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_links.py

coverage: setup ## which lines the unit tests reach, in build/coverage; the kernel uncompiled
	@ROUTELOG_PURE=1 $(IN_MEMORY) $(TESTS) -q --cov=src/routelog --cov-report=html:build/coverage --cov-report=term:skip-covered tests/unit

lock: setup ## write the locks anew for pyproject.toml; LOCK=--upgrade: with the newest versions that it allows
	@$(UV) --extra build -o requirements.lock
	@$(UV) --all-extras -c requirements.lock -o requirements-dev.lock

wheel: setup ## the source distribution, and the wheel for this Python, in dist
	@.ci/build-wheel dist
	@echo dist/*

release-check: setup ## sdist and wheel, and the wheel in an empty environment: a broker and a client
	@.ci/release-check

format: setup ## rewrite the sources in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup ## compare with RabbitMQ, side by side: docs/performance.md
	@.ci/system-packages bench
	@$(BIN)/python -m routelog.benchmarks --peer rabbitmq --page docs/performance.md

site: setup ## the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "build/site/index.html"

screenshots: setup ## PICTURES="--page queues --size 390": the web page, in build/screenshots; each page in 3 widths, light and dark
	@PYTHONPATH=tests $(BIN)/python -m screenshots $(PICTURES)

clean: ## remove what was compiled and cached (keeps .venv and ./data)
	@rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis $(COMPILED)
	@rm -f $(HOT_SOURCES:=.*.so)
	@find $(PACKAGES) tests -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@.ci/system-packages

# Not isolated, so that the pinned tools of .venv build; uncompiled, as the last rule compiles in place. What is
# downloaded has one of the hashes of the lock. The distribution of the other name is what .venv may have of before.
$(BROKER_INSTALLED): pyproject.toml requirements.lock
	@.ci/system-packages build
	@test -x $(BIN)/python || "$$(.ci/find-python)" -m venv .venv
	@echo "installing a broker into .venv"
	@$(PIP) install --no-deps --require-hashes -r requirements.lock
	@$(PIP) --quiet uninstall --yes routelog
	@ROUTELOG_PURE=1 $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(INSTALLED): $(BROKER_INSTALLED) requirements-dev.lock
	@echo "installing what the demo and the tests need into .venv (minutes the first time)"
	@$(PIP) install --no-deps --require-hashes -r requirements-dev.lock
	@touch $@

$(COMPILED): $(BROKER_INSTALLED) setup.py pyproject.toml $(KERNEL)
	@echo "compiling the kernel"
	@ROUTELOG_PURE= $(BIN)/python setup.py --quiet build_ext --inplace --parallel "$$(nproc)"
	@touch $@
