//! Classes of what a gateway forwards (paper 002; docs/design/0042): a flood from a network behind it ends in front of the
//! way to its full queue, and another class loses nothing.

use lab::Side;
use tests::sites::{Sites, host, python};
use tests::{PATIENCE, counted, wait_for};

/// The flood of a host.
const FLOOD: u64 = 1000;
/// Packets of the class that goes first.
const URGENT: u64 = 20;

/// Datagrams at once (address, type of service, number), to a port where nobody listens.
const SENDS: &str = r#"
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
if family == socket.AF_INET6:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, int(sys.argv[2]))
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[2]))
for n in range(int(sys.argv[3])):
    s.sendto(bytes(300), (sys.argv[1], 7000))
"#;

fn rules(_: Side) -> String {
    "{\"rule\":{\"direction\":\"both\",\"selectors\":[\"any\"],\"action\":\"protect\"}}\n".to_owned()
}

/// A field of each kernel queue of alice's outbound direction.
fn of_queues(sites: &Sites, field: &str) -> Vec<u64> {
    let state = sites.rig.json(Side::Alice, &["qos", "show"]).unwrap();
    let queues = state["directions"][0]["kernel_queues"].as_array().unwrap();
    queues.iter().map(|queue| queue[field].as_u64().unwrap()).collect()
}

/// What a flood and some urgent packets over this family did to a gateway whose daemon is stopped: the packets that went
/// on to the TUN, and what arrived and was lost in each queue.
fn flooded(sites: &mut Sites, v6: bool) -> (u64, Vec<u64>, Vec<u64>) {
    let forwarded = |sites: &Sites| counted(&sites.rig, Side::Alice, "kernel", "gateway_forwarded");
    let before = (forwarded(sites), of_queues(sites, "arrived"), of_queues(sites, "lost"));
    // A stopped daemon reads nothing, so what is sent meanwhile waits in the kernel or is lost there.
    sites.rig.daemon(Side::Alice).unwrap().signal(libc::SIGSTOP).unwrap();
    let sends = |tos: &str, count: u64| {
        python(sites.host(Side::Alice), SENDS, &[host(Side::Bob, v6), tos, &count.to_string()], PATIENCE)
    };
    let sent = sends("0", FLOOD).and(sends("184", URGENT));
    sites.rig.daemon(Side::Alice).unwrap().signal(libc::SIGCONT).unwrap();
    sent.unwrap();
    wait_for("empty kernel queues", PATIENCE, || {
        let waiting = of_queues(sites, "waiting");
        if waiting.iter().all(|packets| *packets == 0) { Ok(()) } else { Err(format!("{waiting:?}")) }
    });
    let since = |now: Vec<u64>, then: &[u64]| now.iter().zip(then).map(|(now, then)| now - then).collect();
    let arrived = since(of_queues(sites, "arrived"), &before.1);
    (forwarded(sites) - before.0, arrived, since(of_queues(sites, "lost"), &before.2))
}

#[test]
fn what_finds_its_queue_full_is_dropped_where_it_comes_in() {
    let mut sites = Sites::build("rvl-gwqos", 1500, rules, "[qos]\npreset = \"two-classes\"").unwrap();
    for v6 in [false, true] {
        let (forwarded, arrived, lost) = flooded(&mut sites, v6);
        assert_eq!((arrived[0], lost[0]), (URGENT, 0), "IPv6 {v6}");
        assert!(arrived[1] >= FLOOD && lost[1] > 0, "IPv6 {v6}: {arrived:?} {lost:?}");
        // What was lost never went to the TUN, and is counted at its queue all the same.
        assert_eq!(forwarded, arrived.iter().sum::<u64>() - lost[1], "IPv6 {v6}: {arrived:?} {lost:?}");
    }
    let refused = counted(&sites.rig, Side::Alice, "kernel", "tun_queue_full");
    assert_eq!(refused, of_queues(&sites, "lost").iter().sum::<u64>());
}

#[test]
fn the_queue_of_a_user_is_known_where_his_packets_come_in() {
    let graph = "[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\nlimit = { packets = 64 }\n\
                 [class.be]\nmatch = \"rest\"\nlimit = { packets = 64 }\n\
                 [kernel.urgent]\nclasses = [\"ef\"]\n[kernel.rest]\nclasses = [\"be\"]\nqueues = 3\n";
    let file = std::env::temp_dir().join(format!("rvl-gwqos-{}.toml", std::process::id()));
    std::fs::write(&file, graph).unwrap();
    let section = format!("[qos]\nfile = {:?}", file.display().to_string());
    let mut sites = Sites::build("rvl-gwqosu", 1500, rules, &section).unwrap();
    for v6 in [false, true] {
        let (forwarded, arrived, lost) = flooded(&mut sites, v6);
        assert_eq!(arrived.len(), 4);
        assert_eq!((arrived[0], lost[0]), (URGENT, 0), "IPv6 {v6}");
        // All packets of one host are in one queue, wherever they ended.
        let flooded: Vec<u64> = arrived.iter().copied().filter(|packets| *packets >= FLOOD).collect();
        assert_eq!(flooded.len(), 1, "IPv6 {v6}: {arrived:?}");
        assert_eq!(lost.iter().filter(|packets| **packets > 0).count(), 1, "IPv6 {v6}: {lost:?}");
        let all: u64 = arrived.iter().sum();
        assert_eq!(forwarded, all - lost.iter().sum::<u64>(), "IPv6 {v6}: {arrived:?} {lost:?}");
    }
    std::fs::remove_file(&file).unwrap();
}
