#!/bin/bash
# Pack a static program with everything that belongs to it: tarball.sh PROGRAM FOLDER makes FOLDER.tar.xz.
set -euo pipefail
program=$1 folder=$2
here=$(dirname "${BASH_SOURCE[0]}")

# The octets that users are promised.
most_program=$((28 << 20)) most_archive=$((10 << 20))

if readelf -d "$program" | grep -q NEEDED; then
	echo "tarball.sh: $program needs shared libraries: $(readelf -d "$program" | grep NEEDED)" >&2
	exit 1
fi
"$here/paths.sh" "$program" "$(cd "$here/.." && pwd)" "${CARGO_HOME:-$HOME/.cargo}"
"$here/tree.sh" "$program" "$folder"
time=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct)}
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" -C "$(dirname "$folder")" \
	-cf - "$(basename "$folder")" | xz -9e -T1 > "$folder.tar.xz"

check() {
	local octets
	octets=$(stat -c %s "$1")
	echo "$1: $octets octets, at most $2"
	[ "$octets" -le "$2" ] || { echo "tarball.sh: $1 is too large" >&2; exit 1; }
}
check "$folder/bin/ravelin" "$most_program"
check "$folder.tar.xz" "$most_archive"
sha256sum "$folder.tar.xz"
