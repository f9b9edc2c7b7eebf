#!/bin/bash
# Install, use, upgrade, remove and purge the Debian package in a Debian that has nothing else: drill-deb.sh FOLDER [RELEASE].
set -euo pipefail
folder=$(cd "$1" && pwd)
release=${2:-bookworm}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case $release in
bookworm) number=12 libelf=libelf1 ;;
trixie) number=13 libelf=libelf1t64 ;;
*) echo "drill-deb.sh: $release: bookworm and trixie are known" >&2; exit 2 ;;
esac
package=$(echo "$folder"/ravelin_*.deb)
work=$(mktemp -d /tmp/ravelin-drill-deb.XXXXXX)
root=$work/root
trap 'rm -rf --one-file-system "$work"' EXIT

fail() {
	echo "FAIL $*" >&2
	exit 1
}
ok() {
	echo "ok   $*"
}
inside() {
	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}
# Every file but what dpkg and apt keep for themselves.
files() {
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/lib/dpkg \
		-o -path ./var/cache -o -path ./var/log -o -path ./var/lib/apt -o -path ./var/lib/systemd \) -prune -o -print | sort)
}

# DEBIAN_TAR: a root of this release that was made before, for another run on a slow machine.
if [ -n "${DEBIAN_TAR:-}" ]; then
	mkdir "$root"
	tar -C "$root" -xf "$DEBIAN_TAR"
else
	echo "making a Debian $number"
	# The programs that the README uses, and what the package depends on: installing it needs no network then.
	mmdebstrap --quiet --variant=minbase --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
		--include="usr-is-merged,init,$libelf,man-db,curl,openssl,python3,iproute2" "$release" "$root"
fi
[ "$(sed -n 's/^VERSION_ID="\(.*\)"/\1/p' "$root/etc/os-release")" = "$number" ] || fail "this root is no Debian $number"
# A package of documentation is worth checking only where documentation is installed.
rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
files > "$work/before"
cp "$package" "$root/tmp/ravelin.deb"

inside apt-get install -q -y /tmp/ravelin.deb
version=$(dpkg-deb -f "$package" Version)
[ "$(inside ravelin version)" = "ravelin ${version%-*}" ] || fail "the version is another"
ok "installed: $(inside ravelin version)"
for file in /etc/ravelin/ravelin.toml /etc/ravelin/main.policy /lib/systemd/system/ravelin.service \
	/lib/systemd/system/ravelin-boot.service /usr/share/man/man1/ravelin.1.gz /usr/share/man/man5/ravelin-policy.5.gz \
	/usr/share/man/man5/ravelin-qos.5.gz \
	/usr/share/bash-completion/completions/ravelin; do
	[ -f "$root$file" ] || fail "$file is missing"
done
ok "units, configuration, pages and completions are there"
for unit in ravelin ravelin-boot; do
	state=$(inside systemctl is-enabled "$unit" || true)
	[ "$state" = disabled ] || fail "installing left $unit $state"
done
ok "no unit is enabled"
inside ravelin policy check /etc/ravelin/main.policy | grep -q '^.*0 applications' || fail "the policy names a program"
ok "the policy names no program"
inside man -w ravelin ravelin-policy ravelin-status > /dev/null || fail "man does not find the pages"
ok "man finds the pages"
[ "$(dpkg-deb -f "$package" Package)" = ravelin ]
inside dpkg-query -W -f='${Conffiles}\n' ravelin | grep -q '/etc/ravelin/ravelin.toml' || fail "ravelin.toml is no conf-file"

"$here/drill-readme.sh" "$root"

# An upgrade keeps what was edited, and stops nothing: in a unit that runs, `stop` would be written here.
echo '# edited' >> "$root/etc/ravelin/main.policy"
mkdir "$root/tmp/fake"
printf '#!/bin/sh\necho "$0 $*" >> /tmp/systemctl.log\n' > "$root/tmp/fake/systemctl"
cp "$root/tmp/fake/systemctl" "$root/tmp/fake/deb-systemd-invoke"
chmod 755 "$root"/tmp/fake/*
mkdir -p "$root/run/systemd/system"
inside env PATH=/tmp/fake:/usr/sbin:/usr/bin:/sbin:/bin dpkg --install --force-confold /tmp/ravelin.deb
grep -q '^# edited' "$root/etc/ravelin/main.policy" || fail "an upgrade lost the policy"
grep -q daemon-reload "$root/tmp/systemctl.log" || fail "what stands for systemd was not asked"
! grep -qE '(stop|restart|start) ' "$root/tmp/systemctl.log" 2>/dev/null || fail "an upgrade stopped or started: $(cat "$root/tmp/systemctl.log")"
ok "an upgrade keeps the policy and stops nothing"
: > "$root/tmp/systemctl.log"
inside env PATH=/tmp/fake:/usr/sbin:/usr/bin:/sbin:/bin dpkg --remove ravelin
grep -q 'stop .*ravelin' "$root/tmp/systemctl.log" || fail "removing did not stop the units"
ok "removing stops the units"
rm -r "$root/tmp/fake" "$root/tmp/systemctl.log" "$root/run/systemd"
[ ! -e "$root/usr/bin/ravelin" ] && [ -f "$root/etc/ravelin/main.policy" ] || fail "removing took the configuration, or left the program"
ok "removing keeps the configuration"
touch "$root/etc/ravelin/main.policy.last"
inside dpkg --purge ravelin
files > "$work/after"
diff "$work/before" "$work/after" || fail "purging left the above"
ok "purging leaves nothing"

# Beside an installation from the tarball, which reads the same configuration.
inside dpkg --install /tmp/ravelin.deb > /dev/null
mkdir -p "$root/usr/local/bin"
printf '#!/bin/sh\n' > "$root/usr/local/bin/ravelin"
chmod 755 "$root/usr/local/bin/ravelin"
echo '# of the other one' >> "$root/etc/ravelin/main.policy"
inside dpkg --purge ravelin 2> "$work/purged"
grep -q '^# of the other one' "$root/etc/ravelin/main.policy" && [ -f "$root/etc/ravelin/ravelin.toml" ] ||
	fail "purging took the configuration of another installation"
grep -q 'another installation is there' "$work/purged" || fail "purging does not say what stays"
# The other one puts a policy in force between removal and purge: by a rename, as the daemon does, with its own copy.
rm -r "$root/etc/ravelin"
inside dpkg --install /tmp/ravelin.deb > /dev/null
inside dpkg --remove ravelin > /dev/null
sleep 1
echo '# in force since the removal' | tee "$root/etc/ravelin/main.policy.last" > "$root/etc/ravelin/.new"
mv "$root/etc/ravelin/.new" "$root/etc/ravelin/main.policy"
inside dpkg --purge ravelin 2> "$work/purged"
grep -q '^# in force since the removal' "$root/etc/ravelin/main.policy" ||
	fail "purging took the policy that another installation put in force since the removal"
grep -q 'main.policy.last again' "$work/purged" || fail "purging does not say which text the policy has"
rm -r "$root/usr/local/bin/ravelin" "$root/etc/ravelin" "$root/tmp/ravelin.deb"
files > "$work/after"
diff "$work/before" "$work/after" || fail "purging beside another installation left the above"
ok "purging takes nothing of another installation"
echo "the Debian package installs, protects, upgrades, is removed and purged on Debian $number"
