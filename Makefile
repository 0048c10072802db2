# The entry points; each says what it does in its comment, and `make` prints them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
SINCE ?= origin/main
# ccache finds in one checkout what was built in another.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
# What is not in the cache is not preprocessed before it is compiled.
export CCACHE_DEPEND ?= 1

# One installation at a time; the builds share out their work themselves.
.NOTPARALLEL:

.PHONY: help setup setup-build setup-nightly build package wheel demo test test-python-2 nightly
.PHONY: docs
.PHONY: asan tsan sanitize-launch fuzz mutants format clean
BENCHES := bench bench-net bench-net-wan bench-fidelity bench-overlays bench-learned bench-tsengine bench-dgt \
  bench-nbsync bench-esync bench-fedgsync bench-ds-sync bench-shadow bench-gaia bench-sfb bench-selmcast \
  bench-p3 bench-strategies bench-plan bench-storm bench-kills bench-watching bench-page bench-text bench-focus \
  bench-skew bench-staleness bench-gadmm bench-scale bench-tuning bench-peers bench-returns
.PHONY: $(BENCHES) bench-devices which picture
$(BENCHES): setup-nightly

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

setup:  ## install what make test needs (Debian packages), fetch the chart library of reports
	@scripts/setup --test
	@scripts/fetch-web --try

setup-build:  ## the same for make build and make package
	@scripts/setup --build
	@scripts/fetch-web --try

setup-nightly:  ## everything: also what make nightly and the benchmarks need
	@scripts/setup --nightly
	@scripts/fetch-web --try

build: setup-build  ## the program: build/release/longhaul
	cmake --preset release
	cmake --build --preset release --target longhaul -j $(JOBS)

package: build  ## a Debian package of the program, its headers, man page, Python: build/release/*.deb
	cmake --build --preset release --target _longhaul -j $(JOBS)
	cd build/release && cpack -G DEB
	@ls -lh build/release/*.deb

wheel: setup-build  ## the Python package: dist/longhaul-*.whl (tools come from PyPI)
	@scripts/wheel

docs:  ## the documentation as a site: build/site/index.html
	@scripts/setup --docs
	mkdocs build --strict --quiet
	@echo "build/site/index.html"

demo:  ## train lenet on MNIST over four unequal sites with three strategies and seeds, print one table
	@scripts/demo

test: setup  ## what a change must pass: format, layers, tidy, sanitized tests, the program
	@scripts/test

test-python-2: setup-build  ## the Python package with a current PyTorch of PyPI (5 GB), and frameworks on it
	@scripts/test-python-2

nightly: setup-nightly  ## what is too slow for test, in parts that can be resumed; one line for each
	@scripts/nightly

asan: setup  ## the torch-free tests under AddressSanitizer and UBSan
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	ctest --preset asan -j $(JOBS)

tsan: setup-nightly  ## the torch-free tests under ThreadSanitizer
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS)
	ctest --preset tsan -j $(JOBS)

sanitize-launch: setup-nightly  ## real processes that train lenet over sockets, under ASan and TSan
	for kind in asan tsan; do cmake --preset $$kind-all && cmake --build --preset $$kind-all \
	  --target longhaul -j $(JOBS); done
	scripts/sanitize-launch address
	scripts/sanitize-launch thread

fuzz: setup  ## every fuzzer for FUZZ_SECONDS=60 each
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	scripts/fuzz $(FUZZ_SECONDS)

mutants: setup  ## change lines since SINCE=origin/main one by one: which changes does no test find?
	scripts/mutants --since $(SINCE)

bench:  ## all benchmarks; results worth keeping go to docs/results/
	cmake --preset bench
	cmake --build --preset bench -j $(JOBS)
	scripts/bench

bench-net:  ## the benchmarks of the network: goodput, round trips, memory, launch
	cmake --preset bench
	cmake --build --preset bench --target net_bench bare_torch longhaul -j $(JOBS)
	build/release/bench/net_bench
	bench/launch_time.py

bench-net-wan:  ## TLS and datagrams over veth and the emulated WAN; as root; writes docs/results/net.md
	cmake --preset bench
	cmake --build --preset bench --target net_wan_node longhaul -j $(JOBS)
	bench/net_wan.py --write docs/results/net.md

bench-fidelity: build  ## the simulator against sockets in the emulated WAN and over veth; as root
	bench/fidelity.py

PEERS_ENV ?= build/peers-env
bench-peers: build  ## beside Gloo, torchft, hivemind, Flower of PyPI (6 GB) in the emulated WAN; as root; resumable
	scripts/setup-peers $(PEERS_ENV)
	scripts/fetch-data mnist
	bench/peers.py --envs $(PEERS_ENV) --write docs/results/peers.md

bench-overlays: build  ## time / bound of every overlay on seven networks, simulated
	bench/overlays.py

bench-learned: build  ## a forest that learns its rates, per round over the bound, simulated
	bench/learned_rates.py

bench-tsengine: build  ## tsengine against hub, rack, binary and forest in six scenarios, simulated
	bench/tsengine.py

bench-dgt: build  ## dgt against its baselines in two scenarios, simulated
	bench/dgt.py --resume build/dgt.json

bench-nbsync: build  ## nbsync against esync and others on unequal machines, simulated
	bench/nbsync.py --resume build/nbsync.json

bench-tuning: build  ## docs/results/tuned.md: each strategy at its best rate on unequal machines, simulated; resumable
	bench/tuning.py --resume build/tuning.json --write docs/results/tuned.md

bench-storm: build  ## participation, rejoins and lost samples in a storm of faults, simulated; resumable
	bench/storm.py

bench-returns: build  ## the others' longest round while a slow site returns, simulated: 10 minutes
	bench/returns.py --scale 20

bench-kills: build  ## each process of a real run killed 20 times, nine strategies; resumable, some hours
	bench/kills.py

bench-fedgsync: build  ## fedgsync against fedat and others in three scenarios, simulated
	bench/fedgsync.py --resume build/fedgsync.json

bench-shadow: build  ## shadowsync against its foreground twins in three scenarios, simulated; resumable
	bench/shadow.py --resume build/shadow.jsonl

BODY_FAT ?= data/bodyfat.csv
bench-gadmm: build  ## gadmm against gradient descent and lag on ten regions, simulated; BODY_FAT=FILE (bench/gadmm.py)
	bench/gadmm.py --data $(BODY_FAT)

bench-staleness: build  ## what staleness alone costs, simulated; resumable
	bench/staleness.py --resume build/staleness.jsonl

bench-skew: build  ## five strategies by share of skewed labels, and skewscout; MNIST from scripts/fetch-data; resumable
	bench/skew.py --part study --resume build/skew.json
	bench/skew.py --part tuner --steps 4000 --travel-every 100 --resume build/skew.json

bench-devices:  ## the learner on a GPU beside one core; a build for CUDA is in docs/learner.md
	bench/devices.py --build build/gpu

bench-gaia: build  ## gaia against lock-step on 11 sites, simulated; MNIST from scripts/fetch-data
	bench/gaia.py --resume build/gaia.json

bench-sfb: build  ## factors against the matrix, simulated; scripts/fetch-data fashion-mnist
	bench/sfb.py

bench-selmcast: build  ## selective multicast against receivers by chance and others, simulated
	cmake --preset bench
	cmake --build --preset bench --target multicast_bench -j $(JOBS)
	build/release/bench/multicast_bench
	bench/selmcast.py --resume build/selmcast.json

bench-esync: build  ## esync against bsp in two scenarios, simulated
	bench/esync.py --resume build/esync.json

bench-ds-sync: build  ## ds_sync against bsp in six scenarios, and time to 97 %, simulated; MNIST
	bench/ds_sync.py
	bench/ds_sync_accuracy.py --resume build/ds-sync-accuracy.json

FOCUS_PART ?= scenario border table store models
bench-focus:  ## an index against its baselines, real models, ten million objects; resumable; FOCUS_PART=NAME
	cmake --preset bench
	cmake --build --preset bench --target focus_store focus_table longhaul -j $(JOBS)
	for part in $(FOCUS_PART); do \
	  if [[ $$part == models ]]; then scripts/fetch-data fashion-mnist && bench/focus_models.py; \
	  else bench/focus.py --part $$part --resume build/focus.json; fi; done

bench-text: build  ## bits per byte and bytes of three strategies on text, simulated; scripts/fetch-data sotu
	bench/text.py

bench-scale: build  ## time and memory of a simulation over the number of sites, to a million; docs/results/scale.md
	bench/scale.py --write docs/results/scale.md

bench-plan: build  ## plan against an exhaustive comparison on 12 random networks, simulated; resumable
	bench/plan.py --write docs/results/plan.md

bench-watching: build  ## what a live page costs a run of 11 sites, and its memory; as root, needs chromium; resumable
	bench/watching.py --write docs/results/watching.md

bench-page: build  ## docs/results/page.md: three models, three networks, ten strategies, simulated; resumable
	scripts/fetch-data fashion-mnist cifar10 sotu
	bench/page.py tune
	bench/page.py run --write docs/results/page.md

picture: demo  ## docs/img/mnist-4-sites.svg, the README's picture, from the runs of demo
	build/demo/longhaul report runs/mnist-4-sites-compare --svg docs/img/mnist-4-sites.svg

which: build  ## docs/which.md: the best strategy over bandwidth, delay, machines and skew, simulated
	bench/which.py --write docs/which.md

bench-p3: build  ## p3 against bsp and against layers in the order of the backward pass, simulated
	bench/p3.py --write docs/results/p3.md

bench-strategies: build  ## every strategy, simulated and over sockets in the emulated WAN; as root
	bench/strategies.py --resume build/strategies.json

format:  ## clang-format all C++ files
	scripts/check-format --fix

clean:  ## remove build/ (data/ and runs/ stay)
	rm -rf build
