# `make demo` and `make test` are all a newcomer needs: each makes .venv if it is
# missing and installs what it needs, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS ?=
# A worker keeps to the files it began, so that shared fixtures are made once.
SIDE_BY_SIDE := --numprocesses auto --dist worksteal

# Without bytecode on disk, every process that a test starts compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

# A stamp says which set is installed; a newer pyproject.toml installs it again.
DEMO := $(VENV)/.installed-demo
TEST_CORE := $(VENV)/.installed-test-core
TEST := $(VENV)/.installed-test
DOCS := $(VENV)/.installed-docs

.DELETE_ON_ERROR:
.PHONY: help demo test soak test-core check docs mutants bench lighthouse pictures figures film protos trained

help:
	@echo 'make demo       collect, learn, warn, intervene, measure, report: some minutes'
	@echo 'make test       the tests, with everything they can use'
	@echo 'make soak       quick tests drawn many more times: an hour of two cores'
	@echo 'make test-core  the tests, with the core alone (others are skipped)'
	@echo 'make check      lint, format, types and import rules'
	@echo 'make docs       the pages as a site, in out/site'
	@echo 'make mutants    whether the tests notice faults in the guard and the monitors'
	@echo 'make bench      the benchmarks'
	@echo 'make lighthouse  the accessibility of the pages, by Lighthouse (npm)'
	@echo 'make figures    the tables of pages, from the stored results'
	@echo 'make pictures   the pictures of pages that tests compare with, taken anew'
	@echo 'make film       the moving picture of the README, recorded anew'
	@echo 'make protos     compiles the .proto files of Apollo again'
	@echo 'make trained    what ships with the scenarios, once more'
	@echo 'PYTHON=python3.12 chooses the Python; ARGS="-k chain" goes to pytest'

demo: $(DEMO)
	@$(BIN)/forewarn demo --out out/demo

test: $(TEST)
	@$(BIN)/python -m pytest -m 'not slow and not soak' $(SIDE_BY_SIDE) $(ARGS)

test-core: $(TEST_CORE)
	@$(BIN)/python -m pytest -m 'not slow and not soak' $(SIDE_BY_SIDE) $(ARGS)

# What is too long for each change: before a release.
soak: $(TEST)
	@$(BIN)/python -m pytest -m soak $(SIDE_BY_SIDE) $(ARGS)

check: $(TEST)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(DOCS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

mutants: $(TEST)
	@$(BIN)/python -m tests.mutation.runner $(ARGS)

protos: $(TEST)
	@cd apollo_bridge/protos && for edition in 8 9; do \
	  from="both edition$$edition"; \
	  $(abspath $(BIN))/python -m grpc_tools.protoc $$(printf -- '-I%s ' $$from) \
	    --include_imports --descriptor_set_out=edition$$edition.binpb \
	    $$(find $$from -name '*.proto' | sort) || exit 1; \
	done

# The pages' pictures that tests compare with, taken anew: look at them first.
pictures: $(TEST)
	@FOREWARN_PICTURES=1 $(BIN)/python -m pytest -q -n 0 -k looks_as_it_did \
	  tests/scenarios/report/test_browser.py tests/scenarios/live/test_live_page.py

# The pages' tables, from docs/figures; "python docs/tables.py NAME -- COMMAND" measures anew.
figures: $(TEST)
	@$(BIN)/python docs/tables.py

# The README's moving picture: the report of a demo, played in Chromium.
film: $(TEST)
	@$(BIN)/forewarn demo --out out/demo
	@$(BIN)/python -m tests.film out/demo/report.html docs/report.webp

# Lighthouse's word on the pages' accessibility; it wants npm.
lighthouse: $(TEST)
	@$(BIN)/python -m tests.lighthouse

bench: $(TEST)
	@$(BIN)/python benchmarks/run.py

# What ships, once more. Runs without a guard are kept in RUNS and not simulated again.
ROADS = env-highway env-merge env-roundabout env-intersection
DRIVING = $(notdir $(basename $(wildcard scenarios/driving/*.yaml)))
TRAINED = scenarios/trained
RUNS ?= out/trained
JOBS ?= 2

trained: $(TEST)
	@$(BIN)/forewarn train $(DRIVING) $(ROADS) virtualhome-chores --rerun \
	  --runs $(RUNS) --jobs $(JOBS) --out $(TRAINED) $(ARGS)
	@for known in s2:4000 green-start:1250 chain-braking:1250 highway-speed:1250; do \
	  set -- $$(echo "$$known" | tr : ' '); $(BIN)/forewarn train $$1 --ordinary \
	  --episodes $$2 --runs $(RUNS) --jobs $(JOBS) --out $(TRAINED) $(ARGS); done
	@for name in $(DRIVING); do $(BIN)/forewarn tune $$name --preset stop \
	  --episodes 100 --acting 50 --max-slowed 0.1 --jobs $(JOBS) \
	  --model $(TRAINED)/$$name.model.json.gz \
	  --policy $(TRAINED)/$$name.policy.yaml \
	  --out $(TRAINED)/$$name.stop.policy.yaml $(ARGS); done
	@for road in highway:3:0.1 merge:3:0.1 roundabout:2:0.1 intersection:2:0.2; do \
	  set -- $$(echo "env-$$road" | tr : ' '); name=$$1; \
	  $(BIN)/forewarn tune $$name --preset stop --seed 500000 --episodes 80 \
	  --acting 40 --violations 30 --release-after 0,0.5 --horizons $$2 --max-slowed $$3 \
	  --jobs $(JOBS) --model $(TRAINED)/$$name.model.json.gz \
	  --policy $(TRAINED)/$$name.policy.yaml \
	  --out $(TRAINED)/$$name.stop.policy.yaml $(ARGS); done
	@$(PIP_INSTALL) --editable '.[metadrive]'
	@$(BIN)/forewarn train metadrive-idm --rerun --runs $(RUNS) --jobs $(JOBS) \
	  --out $(TRAINED) $(ARGS)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "forewarn needs Python 3.11 or later: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo 'Making $(VENV)'
	@$(PYTHON) -m venv --clear $(VENV)

$(DEMO): pyproject.toml | $(BIN)/python
	@echo 'Installing forewarn and the traffic simulator SUMO (about 560 MB, once)'
	@$(PIP_INSTALL) --editable '.[sumo]' || { \
	  echo 'SUMO does not install here: the demo does without it' >&2; \
	  $(PIP_INSTALL) --editable .; }
	@touch $@

$(TEST_CORE): pyproject.toml | $(BIN)/python
	@echo 'Installing forewarn and its test runner (about 300 MB, once)'
	@$(PIP_INSTALL) --editable '.[test-core]'
	@touch $@

$(DOCS): pyproject.toml | $(BIN)/python
	@echo 'Installing forewarn and what makes the site (about 300 MB, once)'
	@$(PIP_INSTALL) --editable '.[docs]'
	@touch $@

$(TEST): pyproject.toml | $(BIN)/python
	@echo 'Installing forewarn and all that its tests use (about 1.5 GB, once)'
	@$(PIP_INSTALL) --editable '.[test]'
	@touch $@ $(TEST_CORE) $(DEMO)
