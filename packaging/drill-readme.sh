#!/bin/bash
# Follow the README by its own commands, on two hosts that are made of one root with the package: drill-readme.sh ROOT.
# Each host has a file system, a network, processes and control groups of its own; the kernel is that of this machine.
set -euo pipefail
if [ "${IN_NAMESPACE:-}" != yes ]; then
	# Every mount is in a namespace that ends with this script.
	IN_NAMESPACE=yes exec unshare --mount --propagation private "$0" "$@"
fi
lower=$(cd "$1" && pwd)
readme=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/README.md
work=$(mktemp -d /tmp/ravelin-drill-readme.XXXXXX)
seconds=60
declare -A init address
address=([alice]=198.51.100.1 [bob]=198.51.100.2)

mkdir "$work/cgroup"
mount -t cgroup2 none "$work/cgroup"
group() {
	echo "$work/cgroup/ravelin-drill-$$-$1"
}
finish() {
	local side
	for side in alice bob; do
		# The first process of a host takes all others along.
		[ -z "${init[$side]:-}" ] || kill -KILL "${init[$side]}" 2>/dev/null || true
	done
	wait
	for side in alice bob; do
		# A control group is gone a moment after its last process.
		for _ in $(seq 50); do
			[ -d "$(group $side)" ] || break
			find "$(group $side)" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
		done
	done
	umount --recursive "$work" 2>/dev/null || true
	umount "$work/cgroup" 2>/dev/null || true
	rm -rf --one-file-system "$work"
}
trap finish EXIT
fail() {
	echo "FAIL $*" >&2
	for side in alice bob; do
		sed "s/^/$side: /" "$work/$side/log" "$work/$side/up/root/background" >&2 2>/dev/null || true
	done
	exit 1
}

# The blocks of commands for one host or both, numbered in the order of the page: their first line names the host.
awk -v folder="$work" '
	/^```sh$/ { inside = 1; count++; file = sprintf("%s/block-%02d", folder, count); next }
	/^```/ { inside = 0 }
	inside { print > file }' "$readme"
[ "$(cat "$work"/block-* | grep -c '^# \(alice\|bob\)')" -ge 5 ] || fail "README.md has no commands for alice and bob"

# begin HOST: its first process, which does nothing.
begin() {
	local side=$1 place=$work/$1
	mkdir -p "$place"/{up,scratch,root} "$(group "$side")"
	(
		echo "$BASHPID" > "$(group "$side")/cgroup.procs"
		exec unshare --mount --net --uts --ipc --cgroup --pid --fork --kill-child bash -euc '
			place=$1
			mount -t overlay overlay -o "lowerdir=$2,upperdir=$place/up,workdir=$place/scratch" "$place/root"
			cd "$place/root"
			mount -t proc proc proc
			mount -t sysfs sysfs sys
			mount -t cgroup2 none sys/fs/cgroup
			mount -t bpf bpf sys/fs/bpf
			mount -t tmpfs tmpfs run
			mount --rbind /dev dev
			hostname "$3"
			ip link set lo up
			touch run/ready
			exec chroot . sleep infinity' begin "$place" "$lower" "$side"
	) 2> "$place/log" &
	local waits=0 pid
	while [ -z "${init[$side]:-}" ]; do
		waits=$((waits + 1))
		[ "$waits" -lt 100 ] || fail "host $side does not come up"
		sleep 0.1
		while read -r pid; do
			if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = sleep ]; then init[$side]=$pid; fi
		done < "$(group "$side")/cgroup.procs"
	done
}

# on HOST SCRIPT: run it there, as root's shell would.
on() {
	local side=$1
	(
		echo "$BASHPID" > "$(group "$side")/cgroup.procs"
		exec timeout --kill-after 5 $seconds nsenter --target "${init[$side]}" --all --root --wd \
			env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 sh -ec "cd /root
$2"
	)
}

begin alice
begin bob
ip link add "drl$$" type veth peer name eth0 netns "${init[bob]}"
ip link set "drl$$" netns "${init[alice]}" name eth0
for side in alice bob; do
	on $side "ip addr add ${address[$side]}/24 dev eth0; ip link set eth0 up; ip route add default dev eth0"
done
[ "$(on alice 'ravelin doctor' | grep -c kernel)" -ge 1 ] || fail "doctor says nothing"

for block in "$work"/block-*; do
	first=$(head -n 1 "$block")
	for side in alice bob; do
		# A line "bob, who has got the keys from alice" is about bob.
		[[ "${first%% who *}" == "#"*$side* ]] || continue
		if [ $side = bob ] && [ ! -e "$work/bob/up/root/key.ab" ] && [ -e "$work/alice/up/root/key.ab" ]; then
			on bob "umask 077; cat > key.ab" < "$work/alice/up/root/key.ab"
			on bob "umask 077; cat > key.ba" < "$work/alice/up/root/key.ba"
		fi
		# What goes on behind a block must not hold its output.
		script=$(sed 's|\(.*\) &$|\1 >>/root/background 2>\&1 </dev/null \&|' "$block")
		on $side "$script" > "$work/said" 2>&1 || fail "$(cat "$block" "$work/said")"
		cat "$work/said" >> "$work/all"
		if grep -q 'ravelin run' "$block"; then
			on $side 'until ravelin status > /dev/null 2>&1 || [ $? -eq 1 ]; do sleep 0.1; done' || fail "no daemon on $side"
		fi
		if grep -q http.server "$block"; then
			on $side 'until ss -Htln sport = 80 | grep -q .; do sleep 0.1; done' || fail "no web server on $side"
		fi
	done
done
grep -q 'Directory listing' "$work/all" || fail "curl got no page: $(cat "$work/all")"
row=$(grep 'curl *out' "$work/all") || fail "no figures of curl: $(cat "$work/all")"
# APPLICATION out CLEAR AUTHENTICATED ENCRYPTED: nothing in clear, something encrypted.
read -r _ _ clear authenticated encrypted _ <<< "$row"
[ "$clear" = - ] && [ "$authenticated" = - ] && [ "$encrypted" != - ] || fail "not encrypted: $row"
echo "ok   by the README alone: $row"
for side in alice bob; do
	on $side 'kill "$(ravelin status --json | sed -n "s/^ *\"pid\": \([0-9]*\),*$/\1/p")"; sleep 1; ravelin detach --yes > /dev/null
		! ls -d /sys/fs/bpf/ravelin/* 2>/dev/null' || fail "detach left something on $side"
done
echo "ok   detach leaves nothing"
