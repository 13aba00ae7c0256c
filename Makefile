# Biombo. Two commands do everything on a fresh Debian or Ubuntu machine that has Rust: `make demo` and `make test`.
# The others are for those who work on it. `make` alone lists them.

SHELL := /bin/bash
# rustup puts cargo there; a bare environment may not have it in its PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/bin:/usr/bin:/bin
CARGO ?= cargo
# Where the build goes; cargo's own variable is respected.
export CARGO_TARGET_DIR ?= $(CURDIR)/target

.DEFAULT_GOAL := help
.PHONY: help setup demo test build record reproduce figures figures-moving figures-lab figures-graphs crash soak fuzz vm lint doc clean

help: ## this list
	@echo 'Biombo: make targets'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | column -t -s '|' 2>/dev/null \
	  || sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1  \2/p' $(firstword $(MAKEFILE_LIST))

setup: ## install the system packages that are missing (does nothing when all is there)
	@scripts/setup.sh

demo: setup ## build, run YCSB A and D over six engines, used directly and partitioned; table and report.html
	$(CARGO) build --locked --release --package biombo-cli --all-features
	@scripts/demo.sh "$$CARGO_TARGET_DIR/release/biombo"

test: setup ## build and run every test with all features
	@rm -rf "$$CARGO_TARGET_DIR/campaigns" && mkdir -p "$$CARGO_TARGET_DIR/campaigns"
	@BIOMBO_CAMPAIGN_REPORTS="$$CARGO_TARGET_DIR/campaigns" \
	  CARGO="$(CARGO)" scripts/test.sh; status=$$?; \
	echo 'What the campaigns reached in their slice of time (BIOMBO_CAMPAIGN_SECONDS makes it longer):'; \
	cat "$$CARGO_TARGET_DIR"/campaigns/*.txt 2>/dev/null; exit $$status

build: setup ## target/release/biombo with every engine
	$(CARGO) build --locked --release --package biombo-cli --all-features

record: build ## measure a few benches and compare them with docs/record.jsonl (BIOMBO_RECORD=replace keeps them there)
	@scripts/record.sh "$$CARGO_TARGET_DIR/release/biombo"

reproduce: build ## do all published experiments again: their tables, report pages and runs in target/reproduce, the seconds that each took (two hours)
	@scripts/reproduce.sh "$$CARGO_TARGET_DIR/release/biombo"

figures: build ## measure the engine log beside its peers: every figure it is held to, in an hour and a half (scripts/figures.sh --list: parts)
	@scripts/figures.sh log

figures-moving: build ## measure stores that repartition themselves beside those that stay, about an hour and three quarters
	@scripts/figures.sh moving

figures-graphs: build ## measure kernels over changing graphs beside a static one, ingest and placements, half an hour
	@scripts/figures.sh graphs

figures-lab: build ## measure the laboratory's own engines with 10 million operations and with data larger than memory
	@scripts/figures.sh lab

crash: setup ## SIGKILL loops of 100 and 200 rounds (`make test`: 20, 10 and 8), and 10 million different images of simulated crashes
	BIOMBO_KILL_ROUNDS=$${BIOMBO_KILL_ROUNDS:-100} BIOMBO_KILL_LOG_ROUNDS=$${BIOMBO_KILL_LOG_ROUNDS:-200} \
	BIOMBO_KILL_GRAPH_ROUNDS=$${BIOMBO_KILL_GRAPH_ROUNDS:-100} \
	  $(CARGO) test --locked --package biombo-cli --all-features --test kill --test kill_log --test kill_graph -- --nocapture --test-threads=1
	@echo 'Simulated crashes of the journal: BIOMBO_CAMPAIGN_SECONDS (300) for each of its campaigns'
	BIOMBO_CAMPAIGN_SECONDS=$${BIOMBO_CAMPAIGN_SECONDS:-300} \
	  $(CARGO) test --locked --release --package biombo-journal --test crash --test log_crash -- --nocapture
	@echo 'Simulated crashes of the log engine: BIOMBO_CAMPAIGN_IMAGES (10 million) different images, about 20 minutes on two cores.'
	@echo 'Chunks of the index have 4 KiB here, so that checkpoints have several; in make test they have 256.'
	BIOMBO_CAMPAIGN_IMAGES=$${BIOMBO_CAMPAIGN_IMAGES:-10000000} RUSTFLAGS='--cfg biombo_small_chunks' \
	  $(CARGO) test --locked --release --package biombo-log --test crash -- --nocapture
	@echo 'Simulated crashes of stores whose units move: BIOMBO_CAMPAIGN_IMAGES (2 million) different images'
	BIOMBO_CAMPAIGN_IMAGES=$${BIOMBO_CAMPAIGN_IMAGES:-2000000} \
	  $(CARGO) test --locked --release --package biombo-store --lib crash_tests -- --nocapture
	@echo 'Simulated crashes of changing graphs, on disk and on persistent memory: BIOMBO_CAMPAIGN_IMAGES (2 million) different images of each'
	BIOMBO_CAMPAIGN_IMAGES=$${BIOMBO_CAMPAIGN_IMAGES:-2000000} \
	  $(CARGO) test --locked --release --package biombo-graph --lib durable -- --nocapture

soak: setup ## ten minutes each of graphs that two threads change, kept and not, with snapshots compared with a model
	$(CARGO) test --locked --release --package biombo-graph --lib soak -- --ignored --nocapture

fuzz: setup ## fuzz every decoder, and sequences of operations with crashes: BIOMBO_FUZZ_SECONDS (600) each, two at a time on two cores
	@scripts/fuzz.sh

vm: setup ## the graph in a virtual machine with two NUMA nodes and persistent memory: pages, threads, MAP_SYNC, resets in the middle of updates
	@scripts/vm.sh

lint: setup ## fmt, clippy and docs, warnings denied; licences, sources and duplicates of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --locked --workspace --all-features --no-deps
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --all-features check licenses bans sources; \
	 else echo 'cargo-deny is not installed: crates/cli/tests/deny.rs checks the same lists in make test'; fi

doc: ## the API documentation, in target/doc
	$(CARGO) doc --locked --workspace --all-features --no-deps

clean: ## remove what was built and what the demo left
	$(CARGO) clean
	rm -f report.html
