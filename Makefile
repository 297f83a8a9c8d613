# The two commands a newcomer needs are `make demo` and `make test`; everything lives in this clone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
SEEDS ?= 100000
ROUNDS ?= 3
# two more than cores, since many tests do little but wait for processes; Spark's have one process for themselves, since
# each that uses it starts a session of its own, which takes more than most of the tests
WORKERS ?= $(shell expr $$(nproc || echo 2) + 2)
SPARK_LOG := .venv/spark-tests.log

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-shuffled digests violations soak bench bench-against bench-matching bench-network bench-durable bench-ledgers bench-backlog bench-growth bench-colours bench-spark bench-traces lock clean

help: ## what can be made here
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Stentor needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(READY) ## fill .venv; then .venv/bin/stentor is the command

demo: $(READY) ## show the main job, end by itself
	@$(BIN)/stentor demo

test: $(READY) ## lint, types, layers, all tests
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy --no-error-summary & types=$$!; \
	$(BIN)/pytest tests/spark >$(SPARK_LOG) 2>&1 & spark=$$!; \
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --maxfail 40 --ignore tests/spark; tests=$$?; \
	wait $$spark || tests=1; cat $(SPARK_LOG); wait $$types && exit $$tests

test-shuffled: $(READY) ## all tests in a random order; pytest prints the seed, SEED=… repeats it
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -p randomly $(addprefix --randomly-seed=,$(SEED))

digests: $(READY) ## write tests/simulation/digests.json again, after a change of what nodes do
	$(BIN)/python -m tests.simulation.digests

violations: $(READY) ## write tests/house_violations.json again, after mending or renaming something; it may only shrink
	$(BIN)/python -m tests.house_rules

soak: $(READY) ## SEEDS=100000 simulated runs of every scenario, millions of odd messages among them, and slow tests
	$(BIN)/pytest -m slow
	$(BIN)/stentor simulate all --seeds $(SEEDS)

bench: $(READY) ## us beside nats-server, mosquitto and redis: table, JSON, plot
	$(BIN)/python -m benchmarks --rounds $(ROUNDS)

bench-against: $(READY) ## COMMIT=… beside this tree, in turns: ratios by row, JSON; fails if a row is slower. SUITE=durable …
	$(BIN)/python -m benchmarks.against $(COMMIT) $(addprefix --suite=,$(SUITE))

bench-matching: $(READY) ## the index beside a loop and the paper's tree, 100 to 1,000,000 filters: tables, JSON, plot
	$(BIN)/python -m benchmarks.matching --rounds $(ROUNDS)
	$(BIN)/python -m benchmarks.subscribing --rounds $(ROUNDS)

bench-network: $(READY) ## what a network of brokers costs: hops, links, profiles, joining, failing: tables, JSON, plot
	$(BIN)/python -m benchmarks.network --rounds $(ROUNDS)

bench-durable: $(READY) ## acknowledged durable publishing beside redis streams, JetStream and RabbitMQ: table, JSON, plot
	$(BIN)/python -m benchmarks.durable --rounds $(ROUNDS)

bench-ledgers: $(READY) ## events a second that become durable, by ledger and size of a group: table, JSON
	$(BIN)/python -m benchmarks.ledgers --rounds $(ROUNDS)

bench-backlog: $(READY) ## a repository with a million stored events: opening, catching up, memory: table, JSON
	$(BIN)/python -m benchmarks.backlog

bench-growth: $(READY) ## idle cost and memory by lives of publishers, topics, named subscribers; steady load: table, JSON, plot
	$(BIN)/python -m benchmarks.growth

bench-spark: $(READY) ## source, sink, matching and audit in Spark beside what only moves the bytes: table, JSON, plot
	$(BIN)/python -m benchmarks.spark --rounds $(ROUNDS)

bench-colours: $(READY) ## 22 brokers rebuilt by plans and at once, under load; many changes; healing: table, JSON, plot
	$(BIN)/python -m benchmarks.colours

bench-traces: $(READY) ## a fabric that tells traces beside one that does not, and what traces take on the disk: tables, JSON
	$(BIN)/python -m benchmarks.traces
	$(BIN)/python -m benchmarks.trace_bytes

lock: ## pin every dependency with its hashes (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --all-extras --no-header pyproject.toml -o requirements.lock

clean: ## forget everything that was built here
	rm -rf .venv .stentor .against .mypy_cache .ruff_cache .pytest_cache .hypothesis
	-git worktree prune
