//! What a reload must not open: programs whose file was replaced, applications that get another name, sockets that are
//! open meanwhile. Needs root.

use crate::common;

use common::*;
use libbpf_rs::{MapCore, MapFlags};
use packets::*;
use sadb::spd::{Order, Spd};
use sockmon::SockmonError;
use sockmon::abi::{Identity, Wire};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::AppId;

/// STRICT under another name.
const RENAMED: AppId = AppId(20);

type Orders = Vec<((AppId, AppId), Order)>;

const NOTHING: [Vec<u8>; 0] = [];

fn hex(app: AppId) -> String {
    format!("{:#x}", stamp(app))
}

/// A new file in the place of an old one, as package managers and compilers do it.
fn replace(world: &World, name: &str) -> PathBuf {
    let (path, aside) = (world.executable(name), world.files.join("aside"));
    std::fs::copy(env!("CARGO_BIN_EXE_sockmon-test-app"), &aside).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    path
}

#[test]
fn a_program_whose_file_was_replaced_or_removed_keeps_its_policy() {
    let mut world = usual_world("replaced");
    world.wire();
    let mut old = world.start("strict");
    let path = replace(&world, "strict");
    world.load(&usual(), &usual_orders());
    assert_eq!(world.sockmon().executables().unwrap().len(), 4);
    let mut new = world.start("strict");
    // Removed, and by a new daemon: what is pinned counts.
    std::fs::remove_file(&path).unwrap();
    drop(world.sockmon.take());
    world.attach();
    let warnings =
        world.sockmon().load_policy(&usual(), &programs(&[(STRICT, path)]), &usual_orders()).unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for program in [&mut old, &mut new] {
        assert_eq!(world.sockmon().app_of_pid(program.pid()).unwrap(), Some(STRICT));
        program.run(&["open u udp4", "sendto u 10.99.0.2:9 5", "open t tcp4"]);
        assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
        assert_eq!(program.ask("mark t"), hex(STRICT));
    }
    assert_eq!(world.wire(), NOTHING);
    // Without a policy, an application has no executables.
    world.sockmon().load_policy(&Spd::new(2), &programs(&[]), &[]).unwrap();
    assert_eq!(world.sockmon().executables().unwrap(), []);
    old.run(&["open v udp4"]);
    assert_eq!(old.ask("mark v"), "0x0");
}

#[test]
fn a_load_writes_the_executables_that_differ() {
    let mut world = usual_world("differ");
    let written = |world: &mut World| world.sockmon().last_load().executables_written;
    // Three files and their places.
    assert_eq!(written(&mut world), 6);
    world.load(&usual(), &usual_orders());
    assert_eq!(written(&mut world), 0);
    // Another file at one place; what it was is kept for who runs it.
    replace(&world, "strict");
    world.load(&usual(), &usual_orders());
    assert_eq!(written(&mut world), 1);
    // A policy for fewer: the file stays known, for its application has a policy still; its place does not.
    let two = [(STRICT, world.executable("strict")), (WEAK, world.executable("weak"))];
    world.sockmon().load_policy(&usual(), &programs(&two), &usual_orders()).unwrap();
    assert_eq!(written(&mut world), 0);
    world.load(&usual(), &usual_orders());
    assert_eq!(written(&mut world), 1);
    let mut program = world.start("other");
    program.run(&["open u udp4"]);
    assert_eq!(program.ask("mark u"), hex(OTHER));
}

#[test]
fn a_full_table_forgets_only_what_no_process_runs() {
    let mut world = usual_world("full");
    let mut old = world.start("strict");
    let path = replace(&world, "strict");
    let pin = PathBuf::from("/sys/fs/bpf/ravelin").join(&world.name).join("executables");
    let map = libbpf_rs::MapHandle::from_pinned_path(pin).unwrap();
    let files = 32_768 / 4 * 3;
    let ours = world.sockmon().identity_of_pid(old.pid()).unwrap().unwrap();
    let list = map.lookup(ours.bytes(), MapFlags::ANY).unwrap().unwrap();
    for number in 0..files {
        let gone = Identity { inode: (1 << 40) + number, device: u32::MAX, generation: 1 };
        map.update(gone.bytes(), &list, MapFlags::ANY).unwrap();
    }
    world.load(&usual(), &usual_orders());
    let left = world.sockmon().executables().unwrap();
    assert_eq!(left.len(), 4, "the three found, and the old one of a process");
    old.run(&["open u udp4"]);
    assert_eq!(old.ask("mark u"), hex(STRICT));
    drop(path);
}

/// The usual policy with STRICT renamed, the last time to `to`; all numbers it had stay with its policy, as the daemon
/// does it.
fn renamed(to: AppId) -> (Spd, Orders) {
    let mut spd = usual();
    let before = || (RENAMED.0..to.0).map(AppId).chain([STRICT]);
    for app in before().chain([to]) {
        spd.insert(app, usual().get(STRICT).unwrap().clone());
    }
    let mut orders: Vec<_> = before().map(|from| ((from, to), Order::Same)).collect();
    orders.push(((to, WEAK), Order::Stricter));
    (spd, orders)
}

#[test]
fn sockets_of_a_renamed_application_are_never_in_clear() {
    let mut world = usual_world("renamed");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open u udp4", "connect u 10.99.0.2:9", "open t tcp4", "bind t 10.99.0.1:4000"]);
    assert_eq!(program.ask("connect t 10.99.0.2:80"), "EINPROGRESS");
    let syn = world.seen_within(SOON).expect("a SYN");
    let (sequence, ..) = tcp_numbers(&syn.packet);
    world.inject(0x8300_0000, &tcp((BOB, 80), (ALICE, 4000), 500, sequence + 1, SYN | ACK));
    assert_eq!(tcp_numbers(&world.seen_within(SOON).expect("an ACK").packet).2 & 0x3f, ACK);

    let executables = [(RENAMED, world.executable("strict"))];
    assert_eq!(world.sockmon().moved(&programs(&executables)).unwrap(), [(STRICT, RENAMED)]);
    let (spd, orders) = renamed(RENAMED);
    assert_eq!(world.sockmon().load_policy(&spd, &programs(&executables), &orders).unwrap(), []);
    // Before anything is adopted: the datagram follows its sender, the connection keeps what it has.
    program.run(&["send u 5", "send t 5"]);
    let seen = world.drain();
    let with = |app| seen.iter().filter(|s| s.mark == stamp(app)).count();
    assert!(with(RENAMED) == 1 && with(STRICT) == seen.len() - 1 && seen.len() >= 2, "{seen:x?}");
    world.inject(0x8300_0000, &tcp((BOB, 80), (ALICE, 4000), 501, sequence + 6, ACK));
    let adopted = world.monitor(|m| m.adopt().unwrap());
    assert_eq!((adopted.marked, adopted.unmarked, adopted.listeners_left_out), (1, 0, 0), "{adopted:?}");
    for socket in ["u", "t"] {
        assert_eq!(program.ask(&format!("mark {socket}")), hex(RENAMED), "{socket}");
    }
    program.run(&["send u 5", "send t 5", "open n udp4", "sendto n 10.99.0.2:9 5"]);
    let seen = world.drain();
    assert!(seen.iter().filter(|s| s.mark == stamp(RENAMED)).count() >= 3, "{seen:x?}");
    assert_eq!(world.wire(), NOTHING);
    assert_eq!(world.counter("handover_incomparable"), 0);
}

#[test]
fn no_packet_is_in_clear_while_an_application_gets_new_names() {
    let mut world = usual_world("names");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open u udp4", "connect u 10.99.0.2:9"]);
    let stop = Arc::new(AtomicBool::new(false));
    let sender = {
        let stop = stop.clone();
        std::thread::spawn(move || {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                // An old socket, and one that is made at any moment of a load.
                program.run(&["send u 5", "open n udp4", "sendto n 10.99.0.2:9 5", "close n"]);
                sent += 2;
            }
            sent
        })
    };
    let path = world.executable("strict");
    let mut on_tun = 0;
    let mut from = STRICT;
    for round in 0..40 {
        let to = AppId(RENAMED.0 + round);
        let executables = [(to, path.clone())];
        assert_eq!(world.sockmon().moved(&programs(&executables)).unwrap(), [(from, to)]);
        let (spd, orders) = renamed(to);
        assert_eq!(world.sockmon().load_policy(&spd, &programs(&executables), &orders).unwrap(), []);
        from = to;
        world.monitor(|m| m.adopt().unwrap());
        while world.seen_within(std::time::Duration::ZERO).is_some() {
            on_tun += 1;
        }
        assert_eq!(world.wire_within(std::time::Duration::ZERO), NOTHING, "round {round}");
    }
    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().unwrap();
    on_tun += world.drain().len();
    assert!(sent > 40, "{sent}");
    // The TUN's queue may overflow; the wire must stay empty.
    assert!((40..=sent).contains(&on_tun), "{on_tun} of {sent}");
    assert_eq!(world.wire(), NOTHING);
}

#[test]
fn a_refused_load_changes_nothing() {
    let mut world = usual_world("refused");
    let mut program = world.start("strict");
    let before = (world.sockmon().generation().unwrap(), world.sockmon().executables().unwrap().len());
    let orders: Vec<_> =
        (100..290u16).flat_map(|a| (100..a).map(move |b| ((AppId(a), AppId(b)), Order::Same))).collect();
    let unnamed = world.executable("unnamed");
    let error =
        world.sockmon().load_policy(&Spd::new(2), &programs(&[(RENAMED, unnamed)]), &orders).unwrap_err();
    assert!(matches!(error, SockmonError::TooManyOrders { count: 35_910, max: 32_768 }), "{error}");
    // Half-way, while it is written: an application with more items than fit.
    let mut spd = usual();
    let items = vec![everything(sadb::spd::Level::Mandatory); 33];
    let class = sadb::spd::Class::Protected(0);
    spd.insert(RENAMED, sadb::spd::AppPolicy::new(vec![network("10.99.0.0/24", class)], vec![items]));
    let error = world.sockmon().load_policy(&spd, &programs(&[]), &[]).unwrap_err();
    assert!(matches!(error, SockmonError::TooManyItems { .. }), "{error}");
    let after = (world.sockmon().generation().unwrap(), world.sockmon().executables().unwrap().len());
    assert_eq!(before, after);
    program.run(&["open u udp4", "sendto u 10.99.0.2:9 5"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    assert_eq!(world.wire(), NOTHING);
}

#[test]
fn more_listeners_than_there_is_room_for_are_no_error() {
    let limit = libc::rlimit { rlim_cur: 8192, rlim_max: 8192 };
    // SAFETY: the structure lives for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let mut world = World::new("listeners");
    let mut old = world.start("strict");
    for n in 0..4100u32 {
        let address = std::net::Ipv4Addr::from(0x7f01_0000 + n);
        old.run(&[&format!("open l{n} tcp4"), &format!("bind l{n} {address}:80"), &format!("listen l{n}")]);
    }
    world.attach();
    world.load(&usual(), &usual_orders());
    let adopted = world.monitor(|m| m.adopt().unwrap());
    assert_eq!((adopted.sockets, adopted.listeners_left_out), (4100, 4), "{adopted:?}");
    for socket in ["l0", "l4099"] {
        assert_eq!(old.ask(&format!("mark {socket}")), hex(STRICT));
    }
}
