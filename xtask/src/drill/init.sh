#!/bin/sh
# The first process of the guest: mounts, modules, the steps, the end.
/usr/bin/busybox --install -s /bin
export PATH=/usr/sbin:/usr/bin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
chmod 1777 /tmp
mount -t cgroup2 none /sys/fs/cgroup
mount -t bpf -o mode=0700 bpf /sys/fs/bpf
ulimit -n 65536
ifconfig lo up
while read -r module; do
	insmod "/modules/$module" || echo "cannot load $module"
done </modules/order
# As udev has it.
chmod 666 /dev/net/tun /dev/fuse
uname -r
filter=$(cat /filter)
demo=0
if [ -z "$filter" ]; then
	ravelin doctor </dev/null
	echo "DRILL doctor $?"
	ravelin demo </dev/null
	demo=$?
	echo "DRILL demo $demo"
fi
# A kernel that the demonstration refuses has nothing to test.
if [ "$demo" = 0 ]; then
	omit=$(cat /omit)
	[ -z "$omit" ] || export SOCKMON_TEST_OMIT="$omit"
	/tests $filter --test-threads=2 </dev/null
	echo "DRILL sockmon $?"
fi
poweroff -f
