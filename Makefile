# A newcomer needs only `make demo` and `make test`: each creates .venv if it is missing,
# and installs the required packages once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS ?=
# worksteal gives each worker consecutive tests, so that each shared fixture is created on
# few workers.
SIDE_BY_SIDE := --numprocesses auto --dist worksteal

# Without bytecode files, every process that a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

# A stamp file marks a set of packages as installed; after a change of pyproject.toml, the
# set is installed again.
DEMO := $(VENV)/.installed-demo
TEST_CORE := $(VENV)/.installed-test-core
TEST := $(VENV)/.installed-test
DOCS := $(VENV)/.installed-docs

.DELETE_ON_ERROR:
.PHONY: help demo test soak test-core check docs mutants bench lighthouse pictures figures film protos trained trained-models rates

help:
	@echo 'make demo       collect, learn, warn, intervene, measure, report: a few minutes'
	@echo 'make test       run the fast tests, with all optional packages'
	@echo 'make soak       run the longest tests: an hour on two cores'
	@echo 'make test-core  run the fast tests that need no optional packages'
	@echo 'make check      check lint, format, types and import rules'
	@echo 'make docs       build the pages as a website, in out/site'
	@echo 'make mutants    run mutation tests of the guard and the monitors'
	@echo 'make bench      run the benchmarks'
	@echo 'make lighthouse check the accessibility of the reports with Lighthouse (needs npm)'
	@echo 'make figures    render the tables on the pages from the stored results'
	@echo 'make pictures   replace the reference screenshots of the browser tests'
	@echo 'make film       record the animation in the README again'
	@echo 'make protos     compile the .proto files of Apollo'
	@echo 'make trained    retrain the shipped models and policies'
	@echo 'make rates      measure violation rates from more runs: an hour'
	@echo 'PYTHON=python3.12 chooses the Python; ARGS="-k chain" goes to pytest'

demo: $(DEMO)
	@$(BIN)/forewarn demo --out out/demo

test: $(TEST)
	@$(BIN)/python -m pytest -m 'not slow and not soak' $(SIDE_BY_SIDE) $(ARGS)

test-core: $(TEST_CORE)
	@$(BIN)/python -m pytest -m 'not slow and not soak' $(SIDE_BY_SIDE) $(ARGS)

# These tests take too long for every change; run them before a release.
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

# Replaces the reference screenshots of the browser tests; check the new ones by eye before
# committing them.
pictures: $(TEST)
	@FOREWARN_PICTURES=1 $(BIN)/python -m pytest -q -n 0 -k looks_as_it_did \
	  tests/scenarios/report/test_browser.py tests/scenarios/live/test_live_page.py

# Renders the tables on the pages from docs/figures; to measure a table again, run
# "python docs/tables.py NAME -- COMMAND".
figures: $(TEST)
	@$(BIN)/python docs/tables.py

# Records the animation in the README: the report of a demo, played in Chromium.
film: $(TEST)
	@$(BIN)/forewarn demo --out out/demo
	@$(BIN)/python -m tests.film out/demo/report.html docs/report.webp

# Checks the accessibility of the reports with Lighthouse; needs npm.
lighthouse: $(TEST)
	@$(BIN)/python -m tests.lighthouse

bench: $(TEST)
	@$(BIN)/python benchmarks/run.py

# Retrains everything that ships, and prints the time that this takes. RUNS is a folder in
# which runs without a guard are kept and reused; remove it after a change of a world.
ROADS = env-highway env-merge env-roundabout env-intersection
DRIVING = $(notdir $(basename $(wildcard scenarios/driving/*.yaml)))
STOPPED = $(filter-out green-start,$(DRIVING))
TRAINED = scenarios/trained
RUNS ?=
JOBS ?= 2
KEPT = $(if $(RUNS),--runs $(RUNS))

trained: $(TEST)
	@bash -c 'TIMEFORMAT="Trained in %lR; processor time: %lU + %lS."; \
	  time $(MAKE) --no-print-directory trained-models'

trained-models:
	@$(BIN)/forewarn train $(DRIVING) $(ROADS) virtualhome-chores --rerun \
	  $(KEPT) --jobs $(JOBS) --out $(TRAINED) $(ARGS)
	@runs=$$(mktemp -d) && $(BIN)/forewarn collect fork-in-microwave --episodes 30 \
	  --format jsonl --out $$runs && $(BIN)/forewarn learn $$runs \
	  --scenario fork-in-microwave \
	  --out $(TRAINED)/fork-in-microwave.model.json.gz && rm -r $$runs
	@rm -f $(TRAINED)/*.stop.policy.yaml # those of other models
	@for name in $(STOPPED); do \
	  case $$name in roundabout|s4) slowed=0.2;; *) slowed=0.1;; esac; \
	  $(BIN)/forewarn tune $$name --preset stop \
	  --episodes 100 --acting 50 --max-slowed $$slowed --jobs $(JOBS) \
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
	@$(BIN)/forewarn train metadrive-idm --rerun $(KEPT) --jobs $(JOBS) \
	  --out $(TRAINED) $(ARGS)

# Estimates the violation rates that drift detection uses from more runs.
rates: $(TEST)
	@for known in s2:12000 s6:12000 green-start:12000 highway-lanes:12000 \
	  highway-speed:12000 s7:4000 merge:4000 chain-braking:4000 \
	  fork-in-microwave:1000; do \
	  set -- $$(echo "$$known" | tr : ' '); $(BIN)/forewarn train $$1 --ordinary \
	  --episodes $$2 $(KEPT) --jobs $(JOBS) --out $(TRAINED) $(ARGS); done

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "forewarn needs Python 3.11 or later: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo 'Creating $(VENV)'
	@$(PYTHON) -m venv --clear $(VENV)

$(DEMO): pyproject.toml | $(BIN)/python
	@echo 'Installing forewarn and the traffic simulator SUMO (about 560 MB, once)'
	@$(PIP_INSTALL) --editable '.[sumo]' || { \
	  echo 'SUMO cannot be installed here; the demo runs without it' >&2; \
	  $(PIP_INSTALL) --editable .; }
	@touch $@

$(TEST_CORE): pyproject.toml | $(BIN)/python
	@echo 'Installing forewarn and its test runner (about 300 MB, once)'
	@$(PIP_INSTALL) --editable '.[test-core]'
	@touch $@

$(DOCS): pyproject.toml | $(BIN)/python
	@echo 'Installing forewarn and the packages that build the site (about 300 MB, once)'
	@$(PIP_INSTALL) --editable '.[docs]'
	@touch $@

$(TEST): pyproject.toml | $(BIN)/python
	@echo 'Installing forewarn and all packages for its tests (about 1.5 GB, once)'
	@$(PIP_INSTALL) --editable '.[test]'
	@touch $@ $(TEST_CORE) $(DEMO)
