#!/bin/sh
# The first process of the guest: mounts, modules, the steps, the end.
/usr/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mount -t cgroup2 none /sys/fs/cgroup
mount -t bpf -o mode=0700 bpf /sys/fs/bpf
ulimit -n 65536
ifconfig lo up
while read -r module; do
	insmod "/modules/$module" || echo "cannot load $module"
done </modules/order
uname -r
ravelin doctor </dev/null
echo "DRILL doctor $?"
ravelin demo </dev/null
echo "DRILL demo $?"
poweroff -f
