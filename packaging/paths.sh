#!/bin/bash
# Refuse a file that names a folder of the machine that built it: paths.sh FILE FOLDER...
set -euo pipefail
file=$1
shift
[ -r "$file" ] || { echo "paths.sh: $file cannot be read" >&2; exit 2; }
for folder; do
	[ -n "$folder" ] && [ "$folder" != / ] || { echo "paths.sh: $folder: too short a name to look for" >&2; exit 2; }
	# The octets themselves: what they stand for, text or debug information, does not matter.
	found=$(LC_ALL=C grep --text --only-matching --fixed-strings --count -- "$folder/" "$file" || true)
	if [ "$found" -ne 0 ]; then
		echo "paths.sh: $file names $folder, where it was built:" >&2
		LC_ALL=C grep --text --only-matching "${folder//./\\.}/[[:print:]]*" "$file" | sort -u | head -n 5 >&2
		echo "paths.sh: build it by packaging/build.sh, and give what names the folder a prefix map" >&2
		exit 1
	fi
done
