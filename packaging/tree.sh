#!/bin/bash
# Put everything that an installation needs into one folder: tree.sh PROGRAM FOLDER. PROGRAM runs on this machine.
set -euo pipefail
program=$1 tree=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# What renders pages and collects licences; a build of it may be given.
xtask=${XTASK:-cargo xtask}

rm -rf "$tree"
mkdir -p "$tree"/{bin,man,completions,schema,systemd,include,doc/examples,doc/design,doc/papers}
install -m 755 "$program" "$tree/bin/ravelin"
strip "$tree/bin/ravelin"
$xtask man "$tree/man" --program "$program"
"$program" completions bash > "$tree/completions/ravelin.bash"
"$program" completions zsh > "$tree/completions/_ravelin"
"$program" completions fish > "$tree/completions/ravelin.fish"
"$program" schema --write "$tree/schema"
cp "$root"/crates/ravelin/src/cmd/init/*.service "$tree/systemd/"
cp "$root"/include/{ravelin.h,ravelin-qos.h} "$tree/include/"
cp "$root"/{README.md,CHANGELOG.md,SECURITY.md,LICENSE-MIT,LICENSE-APACHE} "$tree/doc/"
# A program that needs no shared library has all of them inside.
static=()
readelf -d "$program" | grep -q NEEDED || static=(--static)
$xtask notices "$tree/doc/THIRD-PARTY" ${static[@]+"${static[@]}"}
cp "$root/bpf/LICENSE" "$tree/doc/LICENSE-BPF"
cp "$root/bpf/LICENSE-BSD-2" "$tree/doc/LICENSE-BSD-2"
cp "$root"/crates/ravelin/src/cmd/init/{ravelin.toml,main.policy} "$root"/examples/policy/*.policy \
	"$root"/examples/qos/*.toml "$root"/examples/{keymanager.py,require.py,require.c,verify_audit.py} "$tree/doc/examples/"
# What the manual pages point at.
cp "$root"/docs/design/*.md "$tree/doc/design/"
cp "$root"/docs/papers/*.md "$tree/doc/papers/"
install -m 755 "$root/packaging/install.sh" "$tree/install.sh"
install -m 644 "$root/packaging/INSTALL" "$tree/INSTALL"
find "$tree" -type f ! -perm -100 -exec chmod 644 {} +
