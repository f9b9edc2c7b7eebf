//! What a user without any capability does to be another application, or none. Needs root, to become that user.

use crate::common;

use common::*;
use policy::{Executables, Image, Selector, Subjects};
use program::Program;
use std::path::Path;
use wire::AppId;

/// The command that makes a program run as nobody, without capabilities.
const USER: &str = "uid 65534";

fn any() -> Selector {
    Selector { executables: Executables::Any, from: None, group: None, users: None }
}

fn load(world: &mut World, subjects: Vec<(Selector, AppId)>) {
    world.sockmon().load_policy(&usual(), &Subjects::new(subjects), &usual_orders()).unwrap();
}

/// The mark of a program's next socket.
fn stamped(program: &mut Program, socket: &str) -> u32 {
    program.run(&[&format!("open {socket} udp4")]);
    let mark = program.ask(&format!("mark {socket}"));
    u32::from_str_radix(mark.trim_start_matches("0x"), 16).unwrap()
}

/// What `default` says of an executable does not depend on its inode number, which a file system in user space chooses.
#[test]
fn an_executable_with_inode_number_zero_is_a_program() {
    let mut world = World::new("inode-zero");
    world.attach();
    load(&mut world, vec![(any(), STRICT)]);
    world.wire();
    let (at, file) = (world.files.join("mounted"), world.executable("unknown"));
    std::fs::create_dir(&at).unwrap();
    for inode in [77, 0] {
        let mut program = world.start("unknown");
        program.run(&[USER]);
        let command = format!("fuseexec {} {} {inode}", at.display(), file.display());
        assert_eq!(program.ask(&command), "ready");
        assert_eq!(stamped(&mut program, "u"), stamp(STRICT), "inode {inode}");
        program.run(&["sendto u 10.99.0.2:9 5"]);
        assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT), "inode {inode}");
    }
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

fn from(parent: &Path) -> Selector {
    Selector { from: Some(Image::Path(parent.display().to_string())), ..any() }
}

#[test]
fn exec_by_a_second_thread_keeps_the_ancestors() {
    let mut world = World::new("thread-exec");
    let (parent, child) = (world.executable("parent"), world.executable("child"));
    // One is older than the programs, one is not.
    let mut old = world.start("parent");
    world.attach();
    load(&mut world, vec![(from(&parent), STRICT)]);
    world.wire();
    let mut new = world.start("parent");
    for program in [&mut old, &mut new] {
        program.run(&[USER]);
        for how in ["threadexec", "exec", "threadexec"] {
            assert_eq!(program.ask(&format!("{how} {}", child.display())), "ready");
            assert_eq!(stamped(program, how), stamp(STRICT), "{how}");
        }
        program.run(&["sendto exec 10.99.0.2:9 5"]);
        assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    }
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

/// Linux before 6.9 has no tracepoint in front of the exec: nobody knows then what the process ran before.
#[test]
fn exec_by_a_second_thread_whose_ancestors_are_lost_is_refused() {
    let mut world = World::new("thread-lost");
    let (parent, child) = (world.executable("parent"), world.executable("child"));
    world.attach_without("task_prepare");
    load(&mut world, vec![(from(&parent), STRICT)]);
    let mut program = world.start("unrelated");
    program.run(&[USER]);
    assert_eq!(program.ask(&format!("threadexec {}", child.display())), "ready");
    program.run(&["open u udp4"]);
    assert_eq!(program.ask("sendto u 10.99.0.2:9 5"), "EPERM");
    // What is lost stays lost, by the next exec and in a child.
    assert_eq!(program.ask(&format!("exec {}", child.display())), "ready");
    program.run(&["open v udp4", "descend", "open w udp4"]);
    for socket in ["v", "w"] {
        assert_eq!(program.ask(&format!("sendto {socket} 10.99.0.2:9 5")), "EPERM", "{socket}");
    }
    // The leader's exec loses nothing, and no policy without `from` asks.
    let mut plain = world.start("unrelated");
    assert_eq!(plain.ask(&format!("exec {}", child.display())), "ready");
    assert_eq!(stamped(&mut plain, "u"), 0);
    load(&mut world, vec![(Selector::program(parent.to_str().unwrap()), STRICT)]);
    assert_eq!(plain.ask(&format!("threadexec {}", child.display())), "ready");
    assert_eq!(stamped(&mut plain, "v"), 0);
}

/// In a user namespace of his, with the map that newuidmap writes for whoever has the range in /etc/subuid: user 100000.
fn becomes_subordinate(program: &mut Program, owner: u32) {
    program.run(&[&format!("uid {owner}"), "unshare"]);
    let map = format!("0 {owner} 1\n1 100000 1000\n");
    std::fs::write(format!("/proc/{}/uid_map", program.pid()), map).unwrap();
    program.run(&["uid 1"]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    assert!(status.contains("Uid:\t100000\t"), "{status}");
}

fn users(first: u32, last: u32) -> Selector {
    Selector { users: Some((first, last)), ..any() }
}

#[test]
fn a_subordinate_user_is_who_it_is_subordinate_to() {
    let mut world = World::new("subuid");
    world.attach();
    load(&mut world, vec![(users(65534, 65534), STRICT), (users(0, 0), OTHER)]);
    world.wire();
    let mut program = world.start("unknown");
    becomes_subordinate(&mut program, 65534);
    assert_eq!(stamped(&mut program, "u"), stamp(STRICT));
    program.run(&["open v udp4", "sendto v 10.99.0.2:9 5"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    // Behind a container of root's is nobody else.
    let mut contained = world.start("unknown");
    becomes_subordinate(&mut contained, 0);
    assert_eq!(stamped(&mut contained, "u"), 0);
    // What names the subordinate numbers themselves means them, and is no way around what names their owner.
    load(&mut world, vec![(users(65534, 65534), STRICT), (users(100_000, 100_999), WEAK)]);
    assert_eq!(stamped(&mut program, "w"), stamp(STRICT));
    assert_eq!(stamped(&mut contained, "w"), stamp(WEAK));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

#[test]
fn rules_of_a_user_decide_about_his_subordinate_users() {
    let mut world = World::new("subuid-rules");
    world.attach();
    load(&mut world, Vec::new());
    world.sockmon().set_users(&[65534..=65534]).unwrap();
    let mut program = world.start("unknown");
    becomes_subordinate(&mut program, 65534);
    world.wire();
    program.run(&["open u udp4", "sendto u 10.99.0.2:9 5"]);
    let seen = world.seen_within(SOON).expect("on the TUN");
    assert_eq!((seen.mark, seen.cookie as u32), (0x9_0000, 65534));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
    // A socket that he made as himself and gives to a subordinate user of his.
    let mut giver = world.start("unknown");
    giver.run(&["uid 65534", "open o udp4", "unshare"]);
    for (map, text) in [("uid_map", "0 65534 1\n1 100000 1000\n"), ("gid_map", "0 0 1\n")] {
        std::fs::write(format!("/proc/{}/{map}", giver.pid()), text).unwrap();
    }
    giver.run(&["chown o 1", "sendto o 10.99.0.2:9 5"]);
    let seen = world.seen_within(SOON).expect("on the TUN");
    assert_eq!((seen.mark, seen.cookie as u32), (0x9_0000, 65534));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}
