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

# What an older version put there and this one has no more.
if [ -n "$remove" ]; then
	for section in 1 5 7; do
		for page in "$destdir$prefix/share/man/man$section"/ravelin.$section \
			"$destdir$prefix/share/man/man$section"/ravelin-*.$section; do
			rm -f -- "$page"
		done
	done
	rm -rf -- "$destdir$doc"
	# What `systemctl enable` made of the units.
	for link in "$destdir"/etc/systemd/system/*.wants/ravelin.service \
		"$destdir"/etc/systemd/system/*.wants/ravelin-boot.service; do
		if [ -L "$link" ] && [ "$(readlink -- "$link")" = "$unitdir/${link##*/}" ]; then
			rm -f -- "$link"
		fi
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
place 644 "$here/include/ravelin-qos.h" "$prefix/include/ravelin-qos.h"
for file in "$here"/doc/*; do
	[ -f "$file" ] && place 644 "$file" "$doc/${file##*/}"
done
for folder in examples design papers; do
	for file in "$here/doc/$folder"/*; do
		[ -f "$file" ] && place 644 "$file" "$doc/$folder/${file##*/}"
	done
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

# systemd goes by what it read before until it is told.
if [ -z "$destdir" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload || echo "install.sh: systemd did not reload its units: systemctl daemon-reload" >&2
fi

if [ -n "$remove" ]; then
	for folder in "$prefix/share/ravelin/schema" "$prefix/share/ravelin"; do
		rmdir -- "$destdir$folder" 2>/dev/null || true
	done
	echo "removed; /etc/ravelin is as it was"
	exit 0
fi

# Two programs of one name: which one a command means is a matter of the order in PATH, and a unit names one of them.
if [ -z "$destdir" ]; then
	before=yes
	IFS=:
	set -f
	for folder in $PATH /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
		[ -n "$folder" ] || continue
		other=$folder/ravelin
		if [ "$other" -ef "$prefix/bin/ravelin" ]; then
			before=''
		elif [ -x "$other" ] && [ -f "$other" ]; then
			case " ${named:-} " in *" $other "*) continue ;; esac
			named="${named:-} $other"
			if [ -n "$before" ]; then
				echo "install.sh: $other is another copy and comes first in PATH: remove it, or call $prefix/bin/ravelin" >&2
			else
				echo "install.sh: $other is another copy, behind this one in PATH: remove it" >&2
			fi
		fi
	done
	set +f
	unset IFS
	for folder in /etc/systemd/system /usr/local/lib/systemd/system /usr/lib/systemd/system /lib/systemd/system; do
		unit=$folder/ravelin.service
		# Where /lib is a link, both names are one folder.
		if [ "$folder" = /lib/systemd/system ] && [ "$folder" -ef /usr/lib/systemd/system ]; then continue; fi
		if [ -f "$unit" ] && ! [ "$unit" -ef "$unitdir/ravelin.service" ]; then
			echo "install.sh: $unit is another unit of the same name: \`systemctl cat ravelin\` shows which one counts" >&2
		fi
	done
fi
echo "installed; next: ravelin doctor, ravelin init, ravelin help"
