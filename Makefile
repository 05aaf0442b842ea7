# Everything happens in .venv; the first target that needs it makes it, later ones find it ready.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CLUSTER_ARGS := -n 2 --dist worksteal

.PHONY: help demo test testbed test-cluster test-cluster-twice check format bench bench-cluster league docs site dist sbom wheel lock clean

help:
	@echo "make demo    place a production GPU cluster's pods under Kubernetes' rules and under a policy, side by side"
	@echo "make test    run the tests (and policies/ with 'wharf test')"
	@echo "make testbed build etcd, the API server and what else tests/cluster runs against (Go; minutes, once per machine)"
	@echo "make test-cluster run the tests that need a real API server"
	@echo "make test-cluster-twice the same; what fails is tried once more by itself, and named at the end"
	@echo "make check   format, lint, types, import contracts"
	@echo "make format  rewrite sources the way 'make check' wants them"
	@echo "make bench   measure; the figures of docs/performance.md"
	@echo "make bench-cluster measure the live scheduler beside kube-scheduler (ARGS='--only basic-1000 --rounds 3')"
	@echo "make league  how many GPUs policies leave unallocated on a real trace, beside the published table (ARGS='--seeds 42 --traces default')"
	@echo "make docs    write the generated pages (docs/errors, tables of grammar/LANGUAGE.md and docs/operating/metrics-and-logs.md, dashboard, alerts, known fields, colours of editors)"
	@echo "make site    build the documentation as a site, into dist/site"
	@echo "make dist    build what users are handed into dist/: the wheel, the chart, the krew plugin with its manifest"
	@echo "make sbom    write the parts list (CycloneDX) of the wheel and the image, and their licences, into dist/"
	@echo "make wheel   build the wheel into dist/"
	@echo "make lock    resolve requirements.txt anew"

# requirements.txt is complete, so pip resolves nothing (--no-deps): some of its versions look for a requirement with an extra (coverage[toml])
# anew where a newer version than the locked one was released. `pip check` finds what is missing. The sources are compiled to bytecode, as pip
# does for a wheel: with PYTHONDONTWRITEBYTECODE, each `wharf` would compile 200 modules again.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Wharfinger needs Python 3.11 or newer; set PYTHON=/path/to/python3")'
	@echo 'The first time, this takes a minute or two: the parts in requirements.txt are installed in $(VENV).'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip --disable-pip-version-check check
	@$(BIN)/python -m compileall -q engine
	@touch $@

demo: $(READY)
	@$(BIN)/wharf demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)
	$(BIN)/python -m pytest tests/browser $(PYTEST_ARGS)
	$(BIN)/wharf test policies

testbed: $(READY)
	$(BIN)/python -m tests.testbed.build

test-cluster: $(READY)
	$(BIN)/python -m pytest tests/cluster $(CLUSTER_ARGS) $(PYTEST_ARGS)

test-cluster-twice: $(READY)
	$(BIN)/python -m tests.cluster.second_try tests/cluster $(CLUSTER_ARGS) $(PYTEST_ARGS)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/python -m tests.bench.figures $(PARTS)

bench-cluster: $(READY)
	$(BIN)/python -m tests.bench_cluster $(ARGS)

league: $(READY)
	$(BIN)/python -m tests.league --picture docs/pictures/league.svg $(ARGS)

docs: $(READY)
	$(BIN)/python -m tests.generate_docs

site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

dist: $(READY)
	$(BIN)/python deploy/dist.py dist

sbom: $(READY)
	$(BIN)/python deploy/sbom.py dist

wheel: $(READY)
	$(BIN)/python -m build --wheel --no-isolation

lock:
	$(PYTHON) -m venv .lock-venv
	.lock-venv/bin/python -m pip install --quiet pip-tools
	.lock-venv/bin/pip-compile --quiet --extra dev --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--no-emit-options --strip-extras --no-header --output-file requirements.txt pyproject.toml
	rm -rf .lock-venv

clean:
	rm -rf $(VENV) dist build
