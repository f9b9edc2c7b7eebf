#!/bin/sh
# Install Ravelin from the folder of this script, or take it away again. Nothing is enabled, started or attached to the host.
set -eu
# What is installed is for every user of the host.
umask 022

usage() {
	cat <<-'END'
	usage: ./install.sh [--uninstall] [--destdir DIR] [--prefix DIR] [--unitdir DIR]

	  --prefix DIR    where programs, pages and documents go [/usr/local]
	  --unitdir DIR   where systemd's units go [PREFIX/lib/systemd/system]
	  --destdir DIR   put all of it below DIR, as packages are built
	  --uninstall     remove what an installation with the same options put there
	END
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
destdir='' prefix=/usr/local unitdir='' remove=''
while [ $# -gt 0 ]; do
	case $1 in
	--uninstall) remove=yes ;;
	--destdir | --prefix | --unitdir)
		[ $# -ge 2 ] || { echo "install.sh: $1 needs a folder" >&2; exit 2; }
		case $1 in --destdir) destdir=$2 ;; --prefix) prefix=$2 ;; --unitdir) unitdir=$2 ;; esac
		shift
		;;
	--help | -h) usage; exit 0 ;;
	*) echo "install.sh: unknown argument $1" >&2; usage >&2; exit 2 ;;
	esac
	shift
done
case $prefix in
/*) ;;
*) echo "install.sh: --prefix $prefix must begin with /" >&2; exit 2 ;;
esac
case $prefix$unitdir in
*[!A-Za-z0-9/._+-]*) echo "install.sh: $prefix $unitdir: use letters, digits, / . _ + and - alone; units name this path" >&2; exit 2 ;;
esac
unitdir=${unitdir:-$prefix/lib/systemd/system}
doc=$prefix/share/doc/ravelin

# place MODE FILE TARGET
place() {
	if [ -n "$remove" ]; then
		rm -f -- "$destdir$3"
	else
		mkdir -p -- "$(dirname -- "$destdir$3")"
		install -m "$1" -- "$2" "$destdir$3"
	fi
}

# A kernel half that stays behind refuses what must be protected, and nothing could take it off any more.
if [ -n "$remove" ] && [ -z "$destdir" ]; then
	for pins in /sys/fs/bpf/ravelin/*/ /sys/fs/bpf/ravelin-inline/*/; do
		[ -d "$pins" ] || continue
		name=$(basename "$pins")
		case $pins in
		*/ravelin-inline/*) command="ravelin inline detach --instance $name" ;;
		*) command="ravelin detach --instance $name" ;;
		esac
		echo "install.sh: $pins: instance $name is attached to this host; stop its process, then: $command" >&2
		exit 1
	done
fi

place 755 "$here/bin/ravelin" "$prefix/bin/ravelin"
for page in "$here"/man/*.[1-8]; do
	place 644 "$page" "$prefix/share/man/man${page##*.}/${page##*/}"
done
place 644 "$here/completions/ravelin.bash" "$prefix/share/bash-completion/completions/ravelin"
place 644 "$here/completions/_ravelin" "$prefix/share/zsh/site-functions/_ravelin"
place 644 "$here/completions/ravelin.fish" "$prefix/share/fish/vendor_completions.d/ravelin.fish"
for file in "$here"/schema/*.json; do
	place 644 "$file" "$prefix/share/ravelin/schema/${file##*/}"
done
place 644 "$here/include/ravelin.h" "$prefix/include/ravelin.h"
for file in "$here"/doc/*; do
	[ -f "$file" ] && place 644 "$file" "$doc/${file##*/}"
done
for file in "$here"/doc/examples/*; do
	place 644 "$file" "$doc/examples/${file##*/}"
done

# Units name the program where it is.
for unit in "$here"/systemd/*.service; do
	if [ -n "$remove" ]; then
		rm -f -- "$destdir$unitdir/${unit##*/}"
	else
		mkdir -p -- "$destdir$unitdir"
		sed -e "s|@PROGRAM@|$prefix/bin/ravelin|" -e 's|@FOLDER@|/etc/ravelin|' \
			-e 's|@CONFIG@|/etc/ravelin/ravelin.toml|' "$unit" > "$destdir$unitdir/${unit##*/}"
		chmod 644 "$destdir$unitdir/${unit##*/}"
	fi
done

if [ -n "$remove" ]; then
	for folder in "$doc/examples" "$doc" "$prefix/share/ravelin/schema" "$prefix/share/ravelin"; do
		rmdir -- "$destdir$folder" 2>/dev/null || true
	done
	echo "removed; /etc/ravelin is as it was"
else
	echo "installed; next: ravelin doctor, ravelin init, ravelin help"
fi
