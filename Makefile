# Each target sets up what it needs in .venv, once; after that everything works offline.
#   make demo                     train the digits on a cluster of real processes: a chief, 1 ps, 3 workers
#   make demo CHAOS=1             the same while a worker is killed, and comes back
#   make test ARGS='-k queue'     the tests, two at a time
#   make test-versions            the tests on every Python from 3.11 on that is installed, with the newest numpy
#   make site                     the pages and the API reference as HTML, in site/
#   make study                    how fast and how well policies train, on simulated clusters
#   make live-backup              backup workers over real processes, beside the simulator: five minutes
#   make soak MINUTES=30          the laws share half an hour, on fresh examples
#   make kill SEEDS=5             processes of real clusters are killed and stopped, at drawn moments
#   make fuzz CASES=1000000       damaged bytes against the codec and links
#   make oracle-optim             our optimizers against torch's
#   make oracle-torch             our ops against torch's, on torch's own samples
#   make record-tf                asks TensorFlow again what our programs beside its own are held to

PYTHON  ?= python3
MINUTES ?= 5
SEEDS   ?= 1
CASES   ?= 50000
ARGS    ?=
CHAOS   ?=
BIN     := .venv/bin
SOURCES := $(wildcard actorflow tests examples benchmarks studies docs/site)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-versions lint docs site bench study live-backup soak kill fuzz oracle-optim oracle-torch oracle-onnx record-tf

help:
	@echo 'make setup | demo | test | test-versions | lint | docs | site | bench | study | live-backup | soak MINUTES=n | kill SEEDS=n | fuzz CASES=n | oracle-{optim,torch,onnx} | record-tf'

setup: .venv/dev.stamp

# Of three gradients the first two make an update, so nobody waits for the slowest, or for one that is dead. As many
# updates as 15 epochs have in one process; which are 45 epochs here, since of three batches two are used.
demo: .venv/demo.stamp
	@$(BIN)/actorflow launch examples/digits.py --ps 1 --workers 3 --policy backup:2/3 --steps 675 \
		$(if $(filter-out 0 no false,$(CHAOS)),--chaos) $(ARGS)

test: .venv/dev.stamp
	@$(BIN)/python -m pytest -n 2 $(ARGS)

test-versions: .venv/dev.stamp
	@$(BIN)/python tests/every_python.py $(ARGS)

lint: .venv/dev.stamp
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy -n 2 $(SOURCES)
	@$(BIN)/lint-imports --no-logo --no-cache

# The lists of names that users see, from actorflow/public/namespaces.py and the modules of ops; docs/ops.md, from the
# tables of ops and kernels; docs/modules.md, from docstrings; docs/states.md and its diagrams, from the tables of states.
docs: .venv/dev.stamp
	@$(BIN)/python -m actorflow.public.exports
	@$(BIN)/actorflow ops --markdown > docs/ops.md.new && mv docs/ops.md.new docs/ops.md
	@$(BIN)/python -m tests.rooms
	@$(BIN)/python -m tests.diagrams

# The pages, and a reference out of docstrings: open site/index.html. One warning and it fails.
site: .venv/site.stamp
	@$(BIN)/python docs/site/build.py site

bench: .venv/bench.stamp
	@set -e; for name in $$($(BIN)/python -m benchmarks --list | cut -d ' ' -f 1); do \
		echo "== $$name"; $(BIN)/python -m benchmarks $$name $(ARGS); \
	done

# How fast and how well policies train on simulated clusters: minutes. ARGS=--quick takes seconds.
study: .venv/study.stamp
	@$(BIN)/python -m studies.convergence --plot docs/figures/convergence.svg $(ARGS)

# Backup workers over real processes of this machine take the time that the simulator says, or it fails.
live-backup: .venv/dev.stamp
	@$(BIN)/python -m studies.live_backup $(ARGS)

# All laws share the time; the next soak goes on where this one stopped (.soak/state.json). Each slice
# prints its seed, and the end says how to repeat one. ARGS=--write writes what failed into the laws.
soak: .venv/dev.stamp
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

# docs/surviving.md has the table. ARGS='--cell ps --first 7' takes some cells, and later seeds.
kill: .venv/dev.stamp
	@$(BIN)/python -m tests.kill --seeds $(SEEDS) $(ARGS)

# Damaged frames and datagrams against the codec and links; a finding is told with the command that repeats it.
fuzz: .venv/dev.stamp
	@$(BIN)/python -m tests.fuzz --cases $(CASES) $(ARGS)

oracle-optim: .venv/oracle.stamp
	@$(BIN)/python -m tests.oracle.optim

oracle-torch: .venv/oracle.stamp
	@$(BIN)/python -m tests.oracle.torch_ops $(ARGS)

# Needs network once, for torch: the build without CUDA, which is a tenth of the other.
.venv/oracle.stamp: export PIP_EXTRA_INDEX_URL := https://download.pytorch.org/whl/cpu

# ONNX's own tests of its ops, and whole nets, against the importer: what passes, what does not and why. Nets that
# torch exports here with open sizes follow where torch is there: pip install 'actorflow[oracle]'.
oracle-onnx: .venv/onnx.stamp
	@$(BIN)/python -m tests.oracle.onnx_nodes $(ARGS)
	@$(BIN)/python -m tests.oracle.onnx_models
	@$(BIN)/python -m tests.oracle.exported

# TensorFlow has an environment of its own: it wants other versions of what it shares with ours. ARGS=record keeps
# what it finds.
record-tf: .venv-tf/stamp
	@TF_CPP_MIN_LOG_LEVEL=3 .venv-tf/bin/python -m tests.conformance $(or $(ARGS),compare)

.venv-tf/stamp: | $(BIN)/python
	@echo 'installing TensorFlow in .venv-tf ...'
	@$(PYTHON) -m venv .venv-tf
	@.venv-tf/bin/python -m pip install --quiet --disable-pip-version-check 'tensorflow-cpu==2.21.*' --editable .
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("actorflow needs Python 3.11 or newer, but $(PYTHON) is %d.%d\n  try: make $(MAKECMDGOALS) PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo 'no virtual environment: on Debian and Ubuntu, apt install python3-venv'; exit 1; }

# One stamp an extra. It holds the dependencies that were installed, so that a newer pyproject.toml
# with the same ones costs nothing and asks no registry.
WANTED = $(BIN)/python -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"])'

.venv/%.stamp: pyproject.toml | $(BIN)/python
	@if [ -f $@ ] && $(WANTED) | cmp -s - $@; then touch $@; else \
		echo 'installing actorflow[$*] in .venv ...' && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]' && \
		$(WANTED) > $@; \
	fi
