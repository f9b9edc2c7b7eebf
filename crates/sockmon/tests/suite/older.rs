//! What is older than the programs and hard to find: connections in no table of descriptors, in deep control groups, without room for a
//! stamp. Their programs are an unprivileged user's. Needs root.

use crate::common;

use common::*;
use program::Program;
use std::collections::BTreeSet;
use std::path::PathBuf;

const USER: &str = "uid 65534";

/// A program of STRICT's with a connection `c` to bob, who hears on a port of his.
fn connected(world: &World) -> (Program, Program) {
    let mut peer = world.start_in_bob("peer");
    peer.run(&["open l tcp4", "bind l 10.99.0.2:9000", "listen l"]);
    let mut program = world.start("strict");
    program.run(&[USER, "open c tcp4"]);
    assert_eq!(program.ask("connect c 10.99.0.2:9000"), "EINPROGRESS");
    peer.run(&["accept l a 5000"]);
    (program, peer)
}

/// Attach the programs, load the policy, and adopt the sockets that are older.
fn adopt(world: &mut World) -> sockmon::Adopted {
    world.attach();
    world.load(&usual(), &usual_orders());
    let adopted = world.monitor(|m| m.adopt().unwrap());
    world.wire();
    adopted
}

/// Packets of TCP with data or an end that left in clear.
fn segments(world: &World) -> Vec<Vec<u8>> {
    let carries = |p: &Vec<u8>| {
        packets::transport(p).0 == 6 && (p.len() > 20 + usize::from(p[32] >> 4) * 4 || p[33] & 1 != 0)
    };
    world.wire().into_iter().filter(carries).collect()
}

/// The number of packets of TCP with data or an end that left in clear.
fn in_clear(world: &World) -> usize {
    segments(world).len()
}

#[test]
fn a_connection_under_way_between_processes_is_adopted() {
    let mut world = World::new("under-way");
    let (mut program, _peer) = connected(&world);
    program.run(&["open l tcp4", "bind l 10.99.0.1:8080", "listen l"]);
    let mut caller = world.start_in_bob("caller");
    caller.run(&["open c tcp4"]);
    assert_eq!(caller.ask("connect c 10.99.0.1:8080"), "EINPROGRESS");
    program.run(&["accept l a 5000", "stow a", "stow c"]);
    // Nobody's: that is in the table of a process without policy, and stays as it is.
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open n tcp4"]);
    assert_eq!(unnamed.ask("connect n 10.99.0.2:9000"), "EINPROGRESS");
    adopt(&mut world);
    for (socket, taken) in [("a", "accepted"), ("c", "called")] {
        program.run(&[&format!("take {socket} {taken}"), &format!("send {taken} 5")]);
        assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT), "{taken}");
    }
    assert_eq!(in_clear(&world), 0);
    unnamed.run(&["send n 5"]);
    assert_eq!(in_clear(&world), 1, "in clear, as before");
}

/// A user nests groups below his own as he likes.
#[test]
fn a_program_in_a_deep_control_group_is_adopted() {
    const DEPTH: usize = 45;
    let mut world = World::new("deep-group");
    let groups: Vec<PathBuf> =
        (1..=DEPTH).map(|depth| world.cgroup.join("app").join("d/".repeat(depth))).collect();
    std::fs::create_dir_all(groups.last().unwrap()).unwrap();
    let mut peer = world.start_in_bob("peer");
    peer.run(&["open l tcp4", "bind l 10.99.0.2:9000", "listen l"]);
    let mut program = world.start("strict");
    let enter = format!("enter {}", groups.last().unwrap().join("cgroup.procs").display());
    program.run(&[&enter, USER, "open c tcp4"]);
    assert_eq!(program.ask("connect c 10.99.0.2:9000"), "EINPROGRESS");
    peer.run(&["accept l a 5000"]);
    let adopted = adopt(&mut world);
    assert_eq!(adopted.sockets, 1);
    program.run(&["send c 5"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    assert_eq!(in_clear(&world), 0);
    drop(program);
    for group in groups.iter().rev() {
        while std::fs::remove_dir(group).is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) {
            common::breathe();
        }
    }
}

#[test]
fn a_connection_without_room_for_a_stamp_is_ended() {
    let mut world = World::new("crowded");
    let (mut program, mut peer) = connected(&world);
    let keys: u32 = program.ask("crowd c").parse().expect("a number of keys");
    assert!(keys > 10, "{keys}");
    let adopted = adopt(&mut world);
    assert_eq!((adopted.ended, adopted.unstamped), (1, 0), "{adopted:?}");
    let answer = program.ask("send c 5");
    assert!(answer != "ok", "{answer}");
    assert_eq!(in_clear(&world), 0);
    // The peer has heard of it.
    assert_eq!(peer.ask("recv a 5000"), "errno 104", "ECONNRESET");
}

/// No process has such a connection any more, so nobody can say which program's it was.
#[test]
fn what_is_left_of_a_closed_connection_is_held_where_a_program_must_protect_it() {
    let mut world = World::new("closed");
    world.bob.sh("ip addr add 10.99.0.130/24 dev up1");
    world.alice.sh("ip neigh replace 10.99.0.130 lladdr 02:00:00:00:00:0b dev up0 nud permanent");
    let mut peer = world.start_in_bob("peer");
    // The peer's window is as small as the kernel allows (SO_RCVBUF).
    peer.run(&["open l tcp4", "set l 1 8 4", "bind l 0.0.0.0:9000", "listen l"]);
    let mut program = world.start("strict");
    // Most of this waits until the peer reads: for a peer that STRICT must protect, and for one that all trust.
    for (socket, accepted, address) in [("c", "a", "10.99.0.2:9000"), ("d", "b", "10.99.0.130:9000")] {
        program.run(&[USER, &format!("open {socket} tcp4")]);
        assert_eq!(program.ask(&format!("connect {socket} {address}")), "EINPROGRESS");
        peer.run(&[&format!("accept l {accepted} 5000")]);
        program.run(&[&format!("send {socket} 4000000"), &format!("close {socket}")]);
    }
    adopt(&mut world);
    // The last octets of the addresses that data went to.
    let mut in_clear = BTreeSet::new();
    let deadline = std::time::Instant::now() + SOON * 12;
    while world.counter("egress_unclaimed") == 0 || !in_clear.contains(&130) {
        assert!(std::time::Instant::now() < deadline, "in clear to {in_clear:?}, nothing held");
        for accepted in ["a", "b"] {
            peer.ask(&format!("recv {accepted} 10"));
        }
        in_clear.extend(segments(&world).iter().map(|p| p[19]));
        assert!(!in_clear.contains(&2), "in clear to who must be protected");
    }
}
