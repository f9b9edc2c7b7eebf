# Put these files into a folder that uid 65534 may enter (W below) and build: gcc -O1 -static [-pthread] -o X X.c
R=${RAVELIN:-target/release/ravelin}
CG=/sys/fs/cgroup/unified/rvwtwo
W=${STAGE:?a folder}
A(){ sh -c 'echo $$ > '$CG'/progs/cgroup.procs; exec nsenter --net=/run/netns/rvwC "$@"' sh "$@"; }
B(){ nsenter --net=/run/netns/rvwD "$@"; }
nobodyA(){ A setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }
up(){ ip netns add rvwC; ip netns add rvwD; mkdir -p $CG/progs
 ip link add name rvwf0a netns rvwC type veth peer name rvwf0b netns rvwD; ip link add name rvwf1a netns rvwC type veth peer name rvwf1b netns rvwD
 ip -n rvwC link set rvwf0a name eth0; ip -n rvwC link set rvwf1a name eth1; ip -n rvwD link set rvwf0b name eth0; ip -n rvwD link set rvwf1b name eth1
 for n in rvwC rvwD; do ip -n $n link set lo up; for d in eth0 eth1; do ip netns exec $n sysctl -qw net.ipv6.conf.$d.accept_dad=0 net.ipv6.conf.$d.dad_transmits=0; ip -n $n link set $d up; done; done
 ip -n rvwC addr add 192.0.2.1/24 dev eth0; ip -n rvwD addr add 192.0.2.2/24 dev eth0; ip -n rvwC addr add 198.51.100.1/24 dev eth1; ip -n rvwD addr add 198.51.100.2/24 dev eth1
 ip -n rvwC addr add 2001:db8:1::1/64 dev eth0 nodad; ip -n rvwD addr add 2001:db8:1::2/64 dev eth0 nodad
 ip -n rvwC route add default via 192.0.2.2 ; }
conf(){ cat > $W/rv.toml <<E
instance = "rvwtwo"
policy = "$W/rv.policy"
uplinks = ["eth0"]
cgroup = "$CG"
[tun]
name = "rvwtwo0"
E
}
start(){ conf; nsenter --net=/run/netns/rvwC $R run --config $W/rv.toml "$@" >$W/daemon.log 2>&1 & DP=$!; for i in $(seq 60); do nsenter --net=/run/netns/rvwC $R status --instance rvwtwo >/dev/null 2>&1; rc=$?; [ $rc -le 1 ] && break; kill -0 $DP 2>/dev/null || { echo "daemon ended:"; tail -5 $W/daemon.log; return 1; }; sleep 0.25; done; echo "daemon up pid $DP (status $rc)"; }
counters(){ $R stats --instance rvwtwo --json 2>/dev/null | tr ',{}' '\n\n\n' | grep -E "\"($1)\"" | tr -d ' ' ; }
stop9(){ kill -9 $DP; wait $DP 2>/dev/null; }
down(){ [ -n "$DP" ] && kill -TERM $DP 2>/dev/null && wait $DP 2>/dev/null; $R detach --yes --instance rvwtwo; ip netns del rvwC; ip netns del rvwD; sleep 0.3; rmdir $CG/progs $CG 2>/dev/null; }
