#!/bin/bash
# Build the program that is packaged: build.sh ARGUMENTS, which Cargo gets. No folder of this machine is named in it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cargo=${CARGO_HOME:-$HOME/.cargo}
sources=$(cd "$root" && rustc --print sysroot)/lib/rustlib/src/rust

# The compiler takes the last folder that fits: the registry may stand below the repository, and the reverse.
flags=("--remap-path-prefix=$root=/ravelin" "--remap-path-prefix=$sources=/rustc" "--remap-path-prefix=$cargo=/cargo")
# Flags that the caller wants stand in the plain variable, which the encoded one replaces.
read -ra more <<< "${RUSTFLAGS:-}"
flags+=(${more[@]+"${more[@]}"})
CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' "${flags[@]}")
CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%$'\x1f'}
export CARGO_ENCODED_RUSTFLAGS
unset RUSTFLAGS
# The C code of crates: libbpf, ring.
export CFLAGS="${CFLAGS:-} -ffile-prefix-map=$root=/ravelin -ffile-prefix-map=$cargo=/cargo"

cd "$root"
exec cargo build --locked --profile dist --package ravelin "$@"
