# Every target works from a fresh clone: it builds .venv and installs what it needs first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2

.PHONY: demo test test-slow test-browser lint bench race floor streams big paper paper-full docs clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $(STAMP)

$(VENV)/.demo-installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -f $(STAMP) || $(BIN)/python -m pip install --quiet -e '.[plot]'
	touch $@

demo: $(VENV)/.demo-installed
	$(BIN)/majorica demo

test: $(STAMP)
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -q -n $(WORKERS)

test-slow: $(STAMP)
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -q -m slow --timeout 3600

# Installs no browser: on Debian or Ubuntu `apt-get install chromium`, elsewhere any Chromium or Chrome on the PATH.
test-browser: $(STAMP)
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		{ echo "make test-browser needs Chromium on the PATH: apt-get install chromium" >&2; exit 2; }
	$(BIN)/python -m pytest -q -m browser tests/report

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: race floor streams

# make race EEG=recording.npy IMAGES=images.npz
race: $(STAMP)
	$(BIN)/python -m benchmarks.race $(if $(EEG),--eeg $(EEG)) $(if $(IMAGES),--images $(IMAGES))
	$(BIN)/python -m benchmarks.race.mixtures

floor: $(STAMP)
	$(BIN)/python -m benchmarks.floor

streams: $(STAMP)
	$(BIN)/python -m benchmarks.streams

# Writes files of 1, 10 and 16 GB and removes them: make big IMAGES=images.npz FOLDER=/large/disk
big: $(STAMP)
	$(BIN)/python -m benchmarks.big $(if $(IMAGES),--images $(IMAGES)) $(if $(FOLDER),--folder $(FOLDER))

paper: $(STAMP)
	$(BIN)/python -m benchmarks.paper

paper-full: $(STAMP)
	$(BIN)/python -m benchmarks.paper --full

$(VENV)/.docs-installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	touch $@

docs: $(VENV)/.docs-installed
	$(BIN)/python -m sphinx -q -b html docs site
	@echo "open site/index.html"

clean:
	rm -rf site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
