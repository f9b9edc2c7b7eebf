#!/bin/bash
# Build and check the Debian packages: deb.sh TARGET FOLDER. TARGET is Cargo's folder with dist/ravelin in it.
set -euo pipefail
target=$1 folder=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# What builds the packages, at a version that was tried.
pinned=3.8.0
tools=$root/target/tools
cargo_deb=$tools/bin/cargo-deb
if ! "$cargo_deb" --version 2>/dev/null | grep -qx "$pinned"; then
	cargo install --locked --quiet cargo-deb --version "$pinned" --root "$tools"
fi

most=$((10 << 20))
revision=1
stage=target/package/deb
rm -rf "$stage"
packaging/paths.sh "$target/dist/ravelin" "$root" "${CARGO_HOME:-$HOME/.cargo}"
packaging/tree.sh "$target/dist/ravelin" target/package/tree
target/package/tree/install.sh --destdir "$root/$stage" --prefix /usr --unitdir /lib/systemd/system > /dev/null
mkdir -p "$stage/etc/ravelin" "$stage/units"
cp crates/ravelin/src/cmd/init/ravelin.toml crates/ravelin/src/cmd/init/main.policy "$stage/etc/ravelin/"
# cargo-deb takes the units from the folder of the maintainer scripts.
cp packaging/debian/{postinst,prerm,postrm} "$stage"/lib/systemd/system/*.service "$stage/units/"
# These have places of their own in a Debian package: copyright, changelog.
rm "$stage"/usr/share/doc/ravelin/{LICENSE-*,CHANGELOG.md}

time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
cat > "$stage/changelog" <<END
ravelin ($version-$revision) unstable; urgency=medium

  * Packaged from the repository; what changed is in the project's CHANGELOG.md.

 -- The Ravelin authors <ravelin@example.org>  $(date -u -R -d "@$time")
END

rm -f "$folder"/*.deb "$folder"/*.ddeb
"$cargo_deb" --no-build --locked --profile dist --package ravelin --deb-revision "$revision" --output "$folder/"
for package in "$folder"/ravelin*.deb "$folder"/ravelin*.ddeb; do
	[ -f "$package" ] || continue
	octets=$(stat -c %s "$package")
	echo "$package: $octets octets"
	case $package in
	*dbgsym*) ;;
	*) [ "$octets" -le "$most" ] || { echo "deb.sh: $package has more than $most octets" >&2; exit 1; } ;;
	esac
done
lintian --fail-on error,warning --tag-display-limit 0 "$folder"/ravelin_*.deb
