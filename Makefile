# Two commands do all the set-up: `make demo` and `make test`. Only Python 3.11+ and make are needed beforehand.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TREE := build/tree
FUZZ_MINUTES ?= 60
FUZZ_REAL ?= 200
LOWEST := build/lowest
TORCH := build/torch
# Libraries that only the map makers need. They stand apart, since transformers uses torchvision wherever it finds it.
MAPS := build/torch/maps-only
SERVERS := build/servers
HARNESSES := build/harnesses
LOWEST_TESTS := cli/cli files/fastcheck files/hostile files/locks heatmaps/heatmaps imaging/dicom imaging/masks \
	imaging/overlays imaging/read interchange/exports interchange/release models/http models/openai_http \
	models/registry phantoms/phantoms pipeline/executors project/api project/chain report/report review/export \
	review/import scoring/intervals scoring/grade
FOLDERS := chexqa eval generators question_banks schemas

.PHONY: help demo test test-long test-torch test-servers test-harnesses coverage lowest check format bench fuzz mutants phantom-1 open-1 graph pictures docs clean

help:
	@echo "make demo          run the whole chain on drawn phantoms (creates the environment first)"
	@echo "make test          run the tests"
	@echo "make test-long     run the long tests, which make test leaves out (every page followed, kills after every row)"
	@echo "make test-servers  run the tests on servers of others (LiteLLM's proxy, transformers serve), in environments of their own"
	@echo "make test-torch    run the tests that need torch, in an environment of their own"
	@echo "make test-harnesses  run the tests on harnesses and validators of others (Inspect, mlcroissant, Every Eval Ever)"
	@echo "make coverage      run the tests and say which branches they miss (slow)"
	@echo "make lowest        run some tests with the oldest versions of the dependencies that are allowed"
	@echo "make check         formatting, lint, security and strict types"
	@echo "make format        mend formatting and lint"
	@echo "make bench         run the benchmarks of speed"
	@echo "make fuzz          give damaged files and hostile servers to every command, for an hour"
	@echo "make mutants       make small mistakes in the code, one by one, and say which no test notices"
	@echo "make phantom-1     make the frozen benchmark chexqa-phantom-1, and compare its hashes"
	@echo "make open-1        make chexqa-open-1 of ChestX-Det: DATA=folder LUNGS=folder-or-csv"
	@echo "make graph         print and draw which package imports which"
	@echo "make pictures      make the pictures of docs/ anew (Chromium, LibreOffice, pdftoppm)"
	@echo "make docs          build the pages of docs/ into build/docs"

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "chexqa needs Python 3.11 or newer; set PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,dicom,dask,audit,hf,docs]'
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/chexqa demo

# Workers, and the processes that tests start, compile each module once, even where the user's Python keeps nothing.
test: export PYTHONDONTWRITEBYTECODE =
# Three processes fill two cores, as a test often waits for a browser, a server or a process; with more threads of
# Polars, they only wait for each other.
test: export POLARS_MAX_THREADS = 1
test: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist loadgroup

# Those that repeat what a shorter test holds many times: every page of the documents followed, a kill after every row, the
# wheel built and run, many plans and hands.
test-long: export PYTHONDONTWRITEBYTECODE =
test-long: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m long

# torch is named to the patch: a wider range can bring gigabytes of libraries for graphics cards.
$(TORCH)/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0' --editable '.[local]' \
		'transformers[serving]' 'hypothesis>=6.130' 'pytest>=9' 'pytest-randomly>=4'
	@touch $(TORCH)/.installed

# Without dependencies, which the environment has: torchvision would bring a torch for graphics cards.
$(MAPS)/.installed: $(TORCH)/.installed
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --no-deps --target $(MAPS) \
		'torchvision==0.28.0' 'open-clip-torch>=3.1,<4' timm ftfy wcwidth 'grad-cam>=1.5,<2' ttach \
		scikit-learn joblib narwhals cloudpickle
	@touch $(MAPS)/.installed

test-torch: $(TORCH)/.installed $(MAPS)/.installed
	$(TORCH)/bin/python -m pytest -q tests/with_torch --ignore tests/with_torch/test_map_models.py
	PYTHONPATH=$(abspath $(MAPS)) $(TORCH)/bin/python -m pytest -q tests/with_torch/test_map_models.py
	$(TORCH)/bin/python -m pytest -q tests/project/test_licences.py -k '(torch or transformers or accelerate) and not torchvision and not open-clip'

# LiteLLM's proxy pins older versions of libraries that chexqa uses, so it runs as a process of its own environment.
$(SERVERS)/.installed: Makefile
	$(PYTHON) -m venv $(SERVERS)
	$(SERVERS)/bin/python -m pip install --quiet --disable-pip-version-check 'litellm[proxy]==1.106.2'
	@touch $(SERVERS)/.installed

# The tests themselves run where torch is: transformers serve is of that environment, and one of the ways compared to it.
test-servers: $(TORCH)/.installed $(SERVERS)/.installed
	CHEXQA_TEST_SERVERS=$(abspath $(SERVERS)) $(TORCH)/bin/python -m pytest -q tests/with_servers

# The environment stands on that of the project and holds only what the harnesses add. Every Eval Ever wants a newer Python,
# and cffconvert older libraries, but their schemas are files: they are unpacked beside it.
$(HARNESSES)/.installed: $(STAMP)
	$(PYTHON) -m venv --clear $(HARNESSES)
	$(BIN)/python -c 'import sysconfig as s; print("import site; site.addsitedir(%r)" % s.get_path("purelib"))' \
		> $(HARNESSES)/project.pth
	mv $(HARNESSES)/project.pth $$($(HARNESSES)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	$(HARNESSES)/bin/python -m pip install --quiet --disable-pip-version-check 'inspect-ai==0.3.285' 'mlcroissant==1.1.1'
	$(HARNESSES)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python \
		--target $(HARNESSES)/schemas 'every-eval-ever==0.3.0' 'cffconvert==2.0.0'
	@touch $(HARNESSES)/.installed

# -P: a folder of the project must not be found before the installed package, which has the entry point of Inspect.
test-harnesses: $(HARNESSES)/.installed
	CHEXQA_TEST_HARNESSES=$(abspath $(HARNESSES)) $(HARNESSES)/bin/python -P -m pytest -q -m '' tests/with_harnesses
	$(HARNESSES)/bin/python -P -m pytest -q tests/project/test_licences.py -k inspect

# What runs in processes of their own does not count.
coverage: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m '' $(addprefix --cov=,$(FOLDERS)) --cov-branch --cov-report=term:skip-covered

# Only uv can choose the oldest versions. The tests are those in which a dependency shows, but for browser and docs.
lowest:
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		--editable '.[dicom,dask,audit]' 'hypothesis>=6.130' 'pytest>=9,<9.2' 'pytest-xdist>=3.6'
	$(LOWEST)/bin/python -m pytest -n 2 --dist loadgroup $(foreach name,$(LOWEST_TESTS),tests/$(dir $(name))test_$(notdir $(name)).py)

# The five folders are one package only once installed, so types are checked on a tree of links that shows them as one.
check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive $(FOLDERS)
	$(BIN)/python tests/support/type_check.py $(TREE)

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	for script in $(filter-out benchmarks/fuzz/% benchmarks/mutants/%,$(wildcard benchmarks/*/run.py)); do $(BIN)/python $$script; done

# What fails is kept in build/fuzz, with how to run it again.
fuzz: $(STAMP)
	$(BIN)/python benchmarks/fuzz/run.py --minutes $(FUZZ_MINUTES) --real $(FUZZ_REAL) --keep build/fuzz

# By hand: about five minutes.
mutants: $(STAMP)
	$(BIN)/python benchmarks/mutants/run.py

# Frozen benchmarks: made by pinned commands in build/frozen, their hashes compared with those on record.
phantom-1: $(STAMP)
	rm -rf build/frozen/phantom-1 && mkdir -p build/frozen
	$(BIN)/python benchmarks/frozen/build.py chexqa-phantom-1 -o build/frozen/phantom-1

open-1: $(STAMP)
	rm -rf build/frozen/open-1 && mkdir -p build/frozen
	$(BIN)/python benchmarks/frozen/build.py chexqa-open-1 -o build/frozen/open-1 --data '$(DATA)' --lungs '$(LUNGS)'

# The order of the packages, printed, and drawn into docs/import-graph.svg.
graph: $(STAMP)
	$(BIN)/python docs/import_graph.py

# Every picture of the pages, of drawn phantoms. A screenshot needs Chromium, a printed sheet LibreOffice and pdftoppm.
pictures: $(STAMP)
	$(BIN)/python docs/pictures.py build/pictures/demo

# The variable silences an announcement of the theme's makers; it changes nothing that is built.
docs: graph
	$(BIN)/python docs/generated.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
