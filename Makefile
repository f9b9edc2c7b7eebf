# Ravelin. `make` lists what there is; everything runs as root on Debian 12 without a terminal.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# rust-toolchain.toml pins the compiler. A machine that has it only under the name "stable" need not fetch it again.
PINNED := $(shell sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
ifeq ($(shell rustup toolchain list 2>/dev/null | grep -c '^$(PINNED)'),0)
export RUSTUP_TOOLCHAIN := stable
endif

TARGET := $(or $(CARGO_TARGET_DIR),target)

# What is packaged. PACKAGE holds trees, tarballs and Debian packages.
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
MACHINE := $(shell uname -m)
PACKAGE := target/package
DESTDIR ?=
PREFIX ?= /usr/local

# To build: a C compiler for ring, clang for BPF, libelf and zlib for libbpf.
BUILD_PACKAGES := ca-certificates gcc libc6-dev make pkg-config clang libelf-dev zlib1g-dev

# To show: unmodified programs on both sides of a tunnel. None of them is a service.
DEMO_PACKAGES := curl wget netcat-openbsd busybox python3

# To test: a C++ compiler for libFuzzer, the tools that watch the wire, other implementations, what reads manual pages and scripts.
TEST_PACKAGES := g++ llvm iproute2 iputils-ping nftables tcpdump tshark openssh-server openssh-client \
	iperf3 openssl softhsm2 vsftpd btrfs-progs mandoc zsh fish valgrind \
	libnids-dev libpcap-dev libnet1-dev libglib2.0-dev tcpflow python3-scapy \
	rsyslog rsyslog-gnutls \
	strongswan-swanctl charon-systemd systemd libstrongswan-standard-plugins libstrongswan-extra-plugins libcharon-extra-plugins

# To package: what strips, computes the libraries that a package needs, and checks it.
PACKAGING_PACKAGES := binutils dpkg-dev xz-utils lintian mandoc

# Services that come with packages of these lists. Tests and benches start the programs in namespaces of their own: the host gets none.
SERVICES := charon-systemd:strongswan.service vsftpd:vsftpd.service openssh-server:ssh.service openssh-server:ssh.socket \
	rsyslog:rsyslog.service openvpn:openvpn.service haproxy:haproxy.service

# Peers that only `make bench-peers` runs. Others come as a Go module and as crates (bench/src/peers/install.rs).
BENCH_PACKAGES := openvpn wireguard-tools haproxy socat
ifeq ($(shell command -v go || ls /usr/local/go/bin/go 2>/dev/null),)
BENCH_PACKAGES += golang-go
endif

# What `make drill-kernels` boots other kernels with.
DRILL_PACKAGES := qemu-system-x86 kmod cpio xz-utils binutils

.PHONY: help deps deps-build deps-demo deps-packaging build demo install uninstall static tarball deb drill-packages-deb drill-kernels drill-packages test lint bench bench-peers bench-packages bench-paper-000 bench-paper-001 bench-paper-002 bench-paper-003 bench-paper-004 bench-cipher soak-reload soak-agree soak-attack soak-capacity drill-programs prove-scrub omit models ciphers fuzz doc deny clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9%-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' Makefile

# Install what is missing of a list. A service that a package would bring is masked until that is done, and is disabled
# then: it does not run here, and whoever wants it enables it.
define install_packages
	@missing=(); masked=(); \
	if ! command -v dpkg-query >/dev/null; then \
		echo "not a Debian system; these packages must be there under their names here: $(1)" >&2; exit 0; \
	fi; \
	for package in $(1); do \
		[ "$$(dpkg-query -W -f='$${db:Status-Status}' $$package 2>/dev/null || true)" = installed ] || missing+=($$package); \
	done; \
	[ $${#missing[@]} -gt 0 ] || exit 0; \
	[ "$$(id -u)" = 0 ] || { echo "error: as root: apt-get install $${missing[*]}" >&2; exit 1; }; \
	echo "installing $${missing[*]}"; \
	for service in $(SERVICES); do \
		if [[ " $${missing[*]} " == *" $${service%%:*} "* && -d /run/systemd/system ]]; then \
			systemctl mask --runtime $${service#*:}; masked+=($${service#*:}); \
		fi; \
	done; \
	unmask() { \
		[ $${#masked[@]} -gt 0 ] || return 0; \
		systemctl unmask --runtime "$${masked[@]}"; \
		systemctl disable "$${masked[@]}" || true; \
		echo "installed and disabled: $${masked[*]}"; \
	}; \
	trap unmask EXIT; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -q </dev/null || echo "apt-get update failed; going on with the lists that are here" >&2; \
	apt-get install -y -q -o DPkg::Lock::Timeout=300 --no-install-recommends "$${missing[@]}" </dev/null
endef

deps: ## Install what building, showing and testing need (Debian packages; as root)
	@command -v cargo >/dev/null || { echo "error: no cargo; install Rust $(PINNED) from https://rustup.rs" >&2; exit 1; }
	$(call install_packages,$(BUILD_PACKAGES) $(DEMO_PACKAGES) $(TEST_PACKAGES))

deps-build:
	@command -v cargo >/dev/null || { echo "error: no cargo; install Rust $(PINNED) from https://rustup.rs" >&2; exit 1; }
	$(call install_packages,$(BUILD_PACKAGES))

deps-demo:
	$(call install_packages,$(DEMO_PACKAGES))

deps-packaging:
	$(call install_packages,$(PACKAGING_PACKAGES))

build: deps-build ## Build the release binary
	cargo build --locked --release --package ravelin

demo: build deps-demo ## One program protected, end to end, in network namespaces
	$(TARGET)/release/ravelin demo </dev/null

# The tree of files that an installation, the tarball and the Debian package are made of.
$(PACKAGE)/tree: build
	packaging/tree.sh $(TARGET)/release/ravelin $@

install: $(PACKAGE)/tree ## Install below PREFIX=/usr/local (and DESTDIR=); nothing is enabled or started
	$(PACKAGE)/tree/install.sh --prefix "$(PREFIX)" $(if $(DESTDIR),--destdir "$(DESTDIR)")

uninstall: ## Remove what `make install` with the same PREFIX= and DESTDIR= put there
	@[ -x $(PACKAGE)/tree/install.sh ] || $(MAKE) $(PACKAGE)/tree
	$(PACKAGE)/tree/install.sh --uninstall --prefix "$(PREFIX)" $(if $(DESTDIR),--destdir "$(DESTDIR)")

# glibc, libelf and zlib are in the program: it runs on every distribution of this architecture. Debian has their archives.
# Relative relocations in packed form (DT_RELR, which glibc 2.36 applies by itself) save a megabyte.
STATIC := $(TARGET)/$(MACHINE)-unknown-linux-gnu/dist/ravelin
static: deps-build ## Build the release binary without shared libraries
	RUSTFLAGS='-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs' \
		LIBBPF_SYS_LIBRARY_PATH=/usr/lib/$(MACHINE)-linux-gnu packaging/build.sh --features static --target $(MACHINE)-unknown-linux-gnu

tarball: static deps-packaging ## One static program with pages, units and install.sh in a tar.xz
	packaging/tarball.sh $(STATIC) $(PACKAGE)/ravelin-$(VERSION)-$(MACHINE)

deb: deps-build deps-packaging ## Debian packages of the program and its debug symbols, checked by lintian
	packaging/build.sh
	packaging/deb.sh $(TARGET) $(PACKAGE)

RELEASES ?= bookworm trixie
drill-packages-deb: deb ## Install, use, upgrade, remove and purge the Debian package in a clean Debian 12 and 13 (minutes; network)
	$(call install_packages,mmdebstrap)
	for release in $(RELEASES); do packaging/drill-deb.sh $(PACKAGE) $$release || exit 1; done

test: deps ## Run every check and every test; the last line counts them
	cargo xtask test </dev/null

test-%: deps ## Run the tests of one room, as `make test-engine` does
	cargo xtask test --room $* </dev/null

lint: ## Only the checks that run nothing: format, clippy, layers, purity, clauses, words, manual, supply chain
	cargo xtask test --lint </dev/null

bench: deps ## All figures (bench-NAME for one); lines go to target/bench
	cargo run --locked --release --package bench </dev/null

bench-%: deps
	cargo run --locked --release --package bench -- $* </dev/null

bench-peers: bench-packages ## Ravelin beside other tunnels in user space (docs/benchmarks.md)
	cargo run --locked --release --package bench -- peers </dev/null

bench-paper-000: deps ## The experiment of paper 000 again (FTP and sftp), with table and plots in docs/papers/000
	cargo run --locked --release --package bench -- paper-000 </dev/null

bench-paper-001: deps ## The measurements of paper 001 again, with plots in docs/papers/001
	cargo run --locked --release --package bench -- paper-001 </dev/null

bench-paper-002: bench-packages ## Tables I and II of paper 002 again, with plots in docs/papers/002 (QUICK=1: a look whether it works)
	BENCH_QUICK=$(QUICK) cargo run --locked --release --package bench -- paper-002 </dev/null

bench-paper-003: bench-packages ## The measurements of paper 003 again: kernel, scrubber in line, HAProxy, socat; plots in docs/papers/003
	cargo run --locked --release --package bench -- paper-003 </dev/null

bench-cipher: deps ciphers ## What ciphers of one's own cost: loading, the loader's calls, mAES-512 beside AES-256
	cargo run --locked --release --package bench -- cipher </dev/null

bench-paper-004: bench-packages ciphers ## The experiment of paper 004 again (Table 2, Figure 5), with table and plots in docs/papers/004
	cargo run --locked --release --package bench -- paper-004 </dev/null

# A peer that cannot be installed is a line of the report, no failure.
bench-packages: deps
	@command -v dpkg-query >/dev/null || exit 0; \
	missing=(); masked=(); \
	for package in $(BENCH_PACKAGES); do \
		[ "$$(dpkg-query -W -f='$${db:Status-Status}' $$package 2>/dev/null || true)" = installed ] || missing+=($$package); \
	done; \
	[ $${#missing[@]} -gt 0 ] || exit 0; \
	for service in openvpn haproxy; do \
		if [[ " $${missing[*]} " == *" $$service "* && -d /run/systemd/system ]]; then \
			systemctl mask --runtime $$service.service; masked+=($$service.service); \
		fi; \
	done; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -q </dev/null || true; \
	for package in "$${missing[@]}"; do \
		apt-get install -y -q -o DPkg::Lock::Timeout=300 --no-install-recommends $$package </dev/null \
			|| echo "$$package cannot be installed; going on without it" >&2; \
	done; \
	[ $${#masked[@]} -eq 0 ] || { systemctl unmask --runtime "$${masked[@]}"; systemctl disable "$${masked[@]}" || true; }

RELOADS ?= 1000
soak-reload: deps ## Load RELOADS=1000 policies on each of two hosts under traffic; nothing may be lost, mixed or clear
	cargo build --locked --package ravelin </dev/null
	RAVELIN_RELOADS=$(RELOADS) cargo test --locked --package tests --test suite reload:: -- --nocapture </dev/null

PAIRS ?= 100000
soak-agree: deps ## Ask explain, userspace, kernel and translation by socket about PAIRS=100000 random pairs of policy and flow
	RAVELIN_AGREE=$(PAIRS) cargo test --locked --package sockmon --test suite agree:: -- --nocapture </dev/null

ATTACK_SECONDS ?= 3600
soak-attack: deps ## Walk at random over the attackers' table (docs/design/0028) for ATTACK_SECONDS=3600: 0 clear, 0 forged
	cargo build --locked --package ravelin </dev/null
	RAVELIN_ATTACK_SECONDS=$(ATTACK_SECONDS) cargo test --locked --package tests --test suite soak_attack:: -- --nocapture </dev/null

soak-capacity: deps ## Twenty thousand distinct connections a second through the scrubber, for an hour of simulated time (a quarter of an hour)
	cargo test --locked --release --package scrub --test suite -- --ignored --nocapture capacity::

# What the programs need is installed by the drill itself: its entries name their packages. None of them starts here.
DRILL ?=
drill-programs: deps ## Debian's own programs between two hosts, while daemons are replaced and killed, policies and MTUs change (docs/programs.md)
	cargo build --locked --package ravelin --package drill </dev/null
	cargo run --locked --package drill -- programs $(DRILL) </dev/null

prove-scrub: deps ## Play the whole small world of attackers through the scrubber, before 41 readers (docs/design/0023; under an hour)
	cargo run --locked --release --package readers --bin prove-scrub </dev/null

omit: deps ## Leave each program of the kernel half out in turn: a test must fail (minutes)
	cargo xtask omit </dev/null

drill-kernels: drill-packages ## The demonstration and sockmon's tests on Debian's kernels, in QEMU without KVM (docs/kernels.md; minutes each)
	cargo xtask drill-kernels </dev/null
	@# Where BPF is no security module and only stands in front of the others.
	for tests in queued l2tp; do cargo xtask drill-kernels --tests $$tests --parameters lsm=yama trixie </dev/null || exit 1; done

drill-packages: deps
	$(call install_packages,$(DRILL_PACKAGES))

SECONDS_EACH ?= 60
fuzz: deps ## Fuzz every target for SECONDS_EACH=60 seconds, noted in fuzz/log.jsonl (needs a nightly toolchain)
	cargo xtask fuzz --seconds $(SECONDS_EACH) --log fuzz/log.jsonl </dev/null

models: ## Try every order of the threads of crypto units in a model of weak memory (loom)
	RUSTFLAGS="--cfg model" CARGO_TARGET_DIR=target/models cargo test --locked --release --manifest-path models/Cargo.toml </dev/null

ciphers: deps ## Build the ciphers of one's own in examples/ciphers, check their files and run their vectors
	$(MAKE) -C examples/ciphers check

doc: ## Build the documentation, private items too
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items

deny: ## The same as `cargo xtask supply` by cargo-deny, where that is installed
	@command -v cargo-deny >/dev/null || { echo "cargo-deny is not installed: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo deny --locked check advisories bans licenses sources

clean: ## Remove what was built
	cargo clean
