# Each target does all its own set-up: a virtual environment in .venv, from pinned versions.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= demo-out
# Some machines have Python throw away what it compiled; the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test check unit faults torture hunt peers truths exports wheel with-torch \
  cluster cluster-brief mixers bench figures gallery graph docs clean

demo: $(VENV)/installed
	$(BIN)/recollect demo --out $(OUT)

test: check unit faults

check: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

UNIT := --numprocesses 2 \
  --ignore tests/faults --ignore tests/peers --ignore tests/truths --ignore tests/cluster \
  --ignore tests/exports --ignore tests/wheel

# Two processes of one thread each: the tests are many small problems, and a CPU's threads would
# only wait for one another.
unit: $(VENV)/installed-dev
	@command -v chromium >/dev/null || \
	  echo "no chromium: the page's tests in a browser are left out (apt-get install chromium)"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(UNIT)

# By themselves: they kill processes at random moments and measure what is left. Most of the time
# they wait, so two files run at a time.
faults: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/faults

# The long version: hundreds of kills, flipped bits and hostile inputs, and ten minutes of many tiny
# packs. Prints what it found; where all of it is zero, docs/guarantees.md gets it. What was cut off
# goes on with the parts that had not ended.
torture: $(VENV)/installed-dev
	$(BIN)/python tests/torture --record .torture.json --write docs/guarantees.md

# The properties that tests draw examples for, with new and many more of them (tests/conftest.py).
hunt: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 -m hypothesis \
	  --hypothesis-profile hunt \
	  --ignore tests/faults --ignore tests/peers --ignore tests/truths --ignore tests/cluster

# Against what other people wrote; heavy packages, so installed for this alone.
peers: $(VENV)/installed-peers
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/peers

# Exports, read back by the trackers and the hub's libraries that they are for, without a network.
exports: $(VENV)-exports/installed
	OMP_NUM_THREADS=1 $(VENV)-exports/bin/python -m pytest tests/exports tests/reports/exports

# The unit tests with another version of torch than constraints.txt pins, in an environment of its
# own; such versions come with CUDA, gigabytes. ALSO replaces other pins: the interpreter of the
# Triton that torch 2.11 needs does not know newer versions of NumPy.
#   make with-torch TORCH=2.15.0
#   make with-torch TORCH=2.11.0 ALSO=numpy==2.3.5
TORCH ?= 2.15.0
ALSO ?=
with-torch: $(VENV)-torch-$(TORCH)/installed
	OMP_NUM_THREADS=1 $(VENV)-torch-$(TORCH)/bin/python -m pytest $(UNIT)

# The wheel, built, installed and used outside of the repository.
wheel: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/wheel

# Sweeps through a real Slurm of two nodes and through Ray, on this machine, disturbed; Slurm needs
# root. FIGURES=docs/clusters.md writes what was found there.
FETCH_SLURM := { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes \
  --no-install-recommends munge slurmctld slurmd slurm-client; }
cluster: $(VENV)/installed-cluster
	PATH="$$PATH:/usr/sbin"; command -v slurmctld >/dev/null || $(FETCH_SLURM) >/dev/null
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/cluster $(if $(FIGURES),--figures $(FIGURES))

# The part that every submission runs: an array over two nodes, a preemption, Ray on this machine.
# Where Slurm or Ray cannot be installed or started it says so and goes on; a scenario that fails is
# a failure.
cluster-brief: $(VENV)/installed-dev
	@PATH="$$PATH:/usr/sbin"; command -v slurmctld >/dev/null || $(FETCH_SLURM) >/dev/null 2>&1 || \
	  echo "Slurm cannot be installed here: its scenarios are left out"
	@$(BIN)/python -c 'import ray' 2>/dev/null || \
	  $(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,ray]' || \
	  echo "Ray cannot be installed here: its scenario is left out"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/cluster --if-possible -rs \
	  -k 'array_over_two_nodes or (a_preemption and waits) or a_cluster_on_this_machine'

# What small models must and must not learn: minutes of training.
truths: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 tests/truths

# The table in docs/mixers.md, with the deviations as they come out here, and examples/zoo.toml.
mixers: $(VENV)/installed-peers
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/peers --deviations docs/deviations.json
	$(BIN)/python docs/mixers.py
	$(BIN)/python docs/zoo.py

bench: $(VENV)/installed
	$(BIN)/python bench/data.py
	$(BIN)/recollect bench --mixer attention --mixer mamba

# The README's picture, from stored rows.
figures: $(VENV)/installed
	$(BIN)/python docs/figures.py

# Every figure and table of the study, and what they say, from the rows in results/.
gallery: figures
	$(BIN)/python docs/gallery.py
	$(BIN)/python docs/results.py
	$(BIN)/python docs/study_cost.py

# The layers of the package and what imports what, as docs/architecture.svg.
graph: $(VENV)/installed
	$(BIN)/python docs/graph.py

# The pages of docs/ as a site, with the Python interface from its docstrings.
docs: $(VENV)/installed-docs
	$(BIN)/python docs/api.py
	$(BIN)/mkdocs build --quiet --strict --site-dir site

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/installed-peers: $(VENV)/installed-dev
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,peers]'
	touch $@

$(VENV)/installed-cluster: $(VENV)/installed-dev
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,ray]'
	touch $@

# Over .venv: the trackers want other versions of some packages, and no linter should follow them.
$(VENV)-exports/installed: $(VENV)/installed-dev constraints-exports.txt
	$(BIN)/python tests/overlay.py $(VENV)-exports
	$(VENV)-exports/bin/pip install --quiet --constraint constraints-exports.txt \
	  --editable '.[mlflow,parquet,tensorboard,trackio,wandb]' datasets
	touch $@

$(VENV)-torch-%/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-torch-$*
	grep -v $(foreach pin,torch== $(ALSO),-e '^$(firstword $(subst =, ,$(pin)))==') \
	  constraints.txt > $(VENV)-torch-$*/constraints.txt
	$(VENV)-torch-$*/bin/pip install --quiet --constraint $(VENV)-torch-$*/constraints.txt \
	  torch==$* $(ALSO) --editable '.[dev]'
	touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-exports $(VENV)-torch-* $(OUT) site
