//! Two namespaces that one veth pair joins.
#![allow(dead_code, reason = "every test file is a crate of its own and uses a part of this")]

use std::os::fd::AsFd;

use netio::link::{End, Links, Scope};
use netio::netns::Netns;

/// Addresses of the left end, IPv4 and IPv6.
pub const LEFT: (&str, &str) = ("192.0.2.1", "2001:db8::1");
/// Addresses of the right end.
pub const RIGHT: (&str, &str) = ("192.0.2.2", "2001:db8::2");

/// The left and the right namespace, new, with `eth0` in each; what an earlier run left under these names goes first.
pub fn namespaces(name: &str, mtu: u32) -> (Netns, Netns) {
    let fresh = |side: &str| {
        let name = format!("{name}-{side}");
        Netns::remove(&name).expect("root is needed");
        Netns::create(&name).expect("root is needed")
    };
    let (left, right) = (fresh("l"), fresh("r"));
    let end = |namespace| End { name: "eth0", namespace: Some(namespace) };
    Links::open().unwrap().add_veth(end(left.as_fd()), end(right.as_fd())).unwrap();
    for (namespace, (v4, v6)) in [(&left, LEFT), (&right, RIGHT)] {
        namespace
            .run(|| {
                netio::sysctl::set("net/ipv6/conf/eth0/accept_dad", 0).unwrap();
                let mut links = Links::open().unwrap();
                let index = links.index("eth0").unwrap();
                links.set_mtu(index, mtu).unwrap();
                links.set_up(index, true).unwrap();
                links.add_address(index, v4.parse().unwrap(), 24, Scope::Universe).unwrap();
                links.add_address(index, v6.parse().unwrap(), 64, Scope::Universe).unwrap();
            })
            .unwrap();
    }
    (left, right)
}
