//! Who a socket belongs to: fork, exec, sockets that change hands, sockets older than the monitor. Needs root.

use crate::common;

use common::*;
use wire::AppId;

fn hex(app: AppId) -> String {
    format!("{:#x}", stamp(app))
}

/// A user who executes what policy names, again and again, fills no log.
#[test]
fn new_files_of_a_program_are_told_of_with_measure() {
    let mut world = usual_world("many-files");
    let path = world.executable("weak");
    let before = world.counter("executables_new");
    let started = std::time::Instant::now();
    let mut told = 0;
    for _ in 0..1000 {
        let next = path.with_extension("next");
        std::fs::copy("/bin/true", &next).unwrap();
        std::fs::rename(&next, &path).unwrap();
        // Whom another test forks at the wrong moment may hold it open.
        let _ = std::process::Command::new(&path).status();
        told += world.sockmon().events().unwrap().iter().filter(|e| e.reason == "executables_new").count();
    }
    let found = world.counter("executables_new") - before;
    // On each processor 32 at once, and one in 31 ms.
    let processors = std::thread::available_parallelism().unwrap().get() as u128;
    let most = processors * (32 + 1 + started.elapsed().as_millis() / 31);
    assert!(told > 0 && (told as u128) <= most, "{told} of {found}, at most {most}");
    let left_out = world.counter("events_left_out") + world.counter("events_lost");
    assert_eq!(left_out + told as u64, found, "each is told of or counted");
    // None of them is told of as traffic.
    assert!(world.traffic(AppId::NONE).reasons.is_empty());
}

#[test]
fn fork_keeps_and_exec_changes_the_identity() {
    let mut world = usual_world("exec");
    let (weak, unnamed) = (world.executable("weak"), world.executable("unnamed"));
    let mut program = world.start("strict");
    let pid = program.pid();
    assert_eq!(world.sockmon().app_of_pid(pid).unwrap(), Some(STRICT));
    program.run(&["open a udp4", "child sendto a 10.99.0.2:9 5"]);
    assert_eq!(world.seen_within(SOON).expect("a child's packet").mark, stamp(STRICT));

    // Nobody has seen the child make a socket.
    let child = program.ask("fork").parse().unwrap();
    assert_eq!(world.sockmon().app_of_pid(child).unwrap(), Some(STRICT));

    // The new image is another program, for its new sockets; one with a stricter stamp keeps it.
    assert_eq!(program.ask(&format!("exec {}", weak.display())), "ready");
    assert_eq!(world.sockmon().app_of_pid(pid).unwrap(), Some(WEAK));
    program.run(&["open b udp4"]);
    assert_eq!(program.ask("mark b"), hex(WEAK));
    program.run(&["connect a 10.99.0.2:9"]);
    assert_eq!(program.ask("mark a"), hex(STRICT));

    assert_eq!(program.ask(&format!("exec {}", unnamed.display())), "ready");
    assert_eq!(world.sockmon().app_of_pid(pid).unwrap(), Some(AppId::NONE));
    program.run(&["open c udp4", "connect b 10.99.0.2:9"]);
    assert_eq!(program.ask("mark c"), "0x0");
    assert_eq!(program.ask("mark b"), hex(WEAK), "no policy is the weakest policy");
    let ours: Vec<_> = world.sockmon().sockets().unwrap().into_iter().filter(|s| s.pid == pid).collect();
    let apps: Vec<AppId> = ours.iter().map(|s| s.app).collect();
    assert_eq!(apps, [STRICT, WEAK, AppId::NONE], "{ours:?}");
    assert!(ours.iter().all(|s| s.comm == "unnamed" && s.protocol == 17), "{ours:?}");
    assert_eq!(world.sockmon().app_of_pid(u32::MAX >> 1).unwrap(), None);
}

#[test]
fn a_socket_that_changes_hands_goes_only_to_a_stricter_policy() {
    let mut world = usual_world("hands");
    let (strict, other) = (world.executable("strict"), world.executable("other"));
    let mut program = world.start("weak");
    program.run(&["open u udp4", "open t tcp4", "open v udp6", "open b udp4", "open l tcp6"]);
    assert_eq!(program.ask(&format!("exec {}", strict.display())), "ready");
    assert_eq!(program.ask("mark u"), hex(WEAK));
    program.run(&["sendto u 10.99.0.2:9 5"]);
    assert_eq!(world.seen_within(SOON).expect("even the first datagram").mark, stamp(STRICT));
    assert_eq!(program.ask("connect t 10.99.0.2:9"), "EINPROGRESS");
    program.run(&["sendto v [fd99::2]:9 5", "bind b 10.99.0.1:4711", "bind l [::]:4712"]);
    for socket in ["u", "t", "v", "b", "l"] {
        assert_eq!(program.ask(&format!("mark {socket}")), hex(STRICT), "{socket}");
    }
    program.run(&["listen l"]);
    // Neither of STRICT and OTHER is stricter: refused, whatever is tried.
    assert_eq!(program.ask(&format!("exec {}", other.display())), "ready");
    assert_eq!(program.ask("sendto u 10.99.0.2:9 5"), "EPERM");
    assert_eq!(program.ask("connect v [fd99::2]:9"), "EPERM");
    program.run(&["open n udp4"]);
    assert_eq!(program.ask("mark n"), hex(OTHER));
    assert_eq!(world.counter("handover_incomparable"), 2);
    assert_eq!(world.counter("sockets_restamped"), 5);
}

/// Raw sockets have no hook of sendmsg, a connected datagram socket has none at all: the egress hook sees who sends.
#[test]
fn sockets_without_a_hook_follow_who_sends() {
    let mut world = usual_world("follow");
    let (strict, other) = (world.executable("strict"), world.executable("other"));
    world.wire();
    let mut program = world.start("weak");
    program.run(&["open c udp4", &format!("connect c {NOBODY}:9"), "open i icmp4"]);
    let sends = ["send c 5", "sendto i 10.99.0.2:0 40 echo"];
    program.run(&sends);
    assert_eq!(world.wire().len(), sends.len(), "the control: trusted");
    assert_eq!(program.ask(&format!("exec {}", strict.display())), "ready");
    for send in sends {
        program.run(&[send]);
        assert_eq!(world.seen_within(SOON).expect("even the first packet").mark, stamp(STRICT), "{send}");
    }
    assert_eq!(program.ask(&format!("exec {}", other.display())), "ready");
    for send in sends {
        assert_eq!(program.ask(send), "EPERM", "{send}: the policies do not compare");
    }
    assert_eq!((world.counter("sockets_restamped"), world.counter("handover_incomparable")), (2, 2));
    assert_eq!((world.wire(), world.drain()), (Vec::new(), Vec::new()));
}

#[test]
fn listen_stamps_the_listener_and_its_connections() {
    // Nothing but the listen callback sees this hand-over: no bind, no connect after it.
    let world = usual_world("listen");
    let strict = world.executable("strict");
    let mut program = world.start("unnamed");
    program.run(&["open l tcp4", "bind l 10.99.0.1:8080"]);
    assert_eq!(program.ask(&format!("exec {}", strict.display())), "ready");
    assert_eq!(program.ask("mark l"), "0x0");
    program.run(&["listen l"]);
    assert_eq!(program.ask("mark l"), hex(STRICT));
    let accepted = accept_through_tun(&world, &mut program, 8080);
    assert_eq!(accepted, hex(STRICT));
}

/// bob connects through the tunnel: SYN and ACK are injected with proof. The mark of the accepted socket.
fn accept_through_tun(world: &World, program: &mut program::Program, port: u16) -> String {
    use packets::*;
    let proof = 0x8300_0000;
    world.inject(proof, &tcp((BOB, 5000), (ALICE, port), 100, 0, SYN));
    let answer = world.seen_within(SOON).expect("a SYN-ACK on the TUN");
    assert_eq!(answer.mark, stamp(STRICT), "the listener's mark");
    let (sequence, acknowledge, flags) = tcp_numbers(&answer.packet);
    assert_eq!((acknowledge, flags & 0x3f), (101, SYN | ACK));
    world.inject(proof, &tcp((BOB, 5000), (ALICE, port), 101, sequence + 1, ACK));
    program.run(&["accept l c 5000"]);
    program.ask("mark c")
}

#[test]
fn sockets_older_than_the_monitor_are_adopted() {
    use packets::*;
    let mut world = World::new("older");
    let mut old = world.start("strict");
    old.run(&[
        "open u udp4",
        "bind u 10.99.0.1:4000",
        "open v udp6",
        "connect v [fd99::2]:9",
        "open r icmp4",
        "open n tcp4",
        "open l tcp4",
        "bind l 10.99.0.1:8080",
        "listen l",
        "open q tcp6",
        "bind q [::]:8081",
        "listen q",
    ]);
    // bob's program connects in clear: two wait in the accept queue, one has been accepted, one is a half-open request.
    let mut peer = world.start_in_bob("peer");
    peer.run(&["open a tcp4", "open b tcp4", "open c tcp4"]);
    assert_eq!(peer.ask("connect a 10.99.0.1:8080"), "EINPROGRESS");
    old.run(&["accept l accepted 5000"]);
    assert_eq!(peer.ask("connect b 10.99.0.1:8080"), "EINPROGRESS");
    assert_eq!(peer.ask("connect c 10.99.0.1:8081"), "EINPROGRESS");
    world.bob_sends(&tcp((NOBODY, 5000), (ALICE, 8080), 100, 0, SYN));
    let half_open = world.wire_within(NEVER).into_iter().find(|p| transport(p).1.destination == 5000);
    let (sequence, ..) = tcp_numbers(&half_open.expect("a SYN-ACK"));

    world.attach();
    world.load(&usual(), &usual_orders());
    let adopted = world.monitor(|m| m.adopt().unwrap());
    assert_eq!(adopted.unmarked, 0, "{adopted:?}");
    assert_eq!((adopted.sockets, adopted.marked), (7, 4), "{adopted:?}");
    for socket in ["u", "v", "r", "n", "l", "q", "accepted"] {
        assert_eq!(old.ask(&format!("mark {socket}")), hex(STRICT), "{socket}");
    }
    old.run(&["accept l waiting 5000", "accept q waiting6 5000"]);
    for socket in ["waiting", "waiting6"] {
        assert_eq!(old.ask(&format!("mark {socket}")), hex(STRICT), "{socket}");
    }
    // A request older than the stamp of its listener completes: the connection is stamped all the same.
    world.inject(0x8300_0000, &tcp((NOBODY, 5000), (ALICE, 8080), 101, sequence + 1, ACK));
    old.run(&["accept l late 5000"]);
    assert_eq!(old.ask("mark late"), hex(STRICT));

    world.drain();
    world.wire();
    old.run(&[
        "sendto u 10.99.0.2:9 5",
        "send v 5",
        "sendto r 10.99.0.2:0 16 echo",
        "send accepted 5",
        "send waiting 5",
    ]);
    let seen = world.drain();
    assert!(seen.len() >= 5, "{seen:x?}");
    assert!(seen.iter().all(|s| s.mark == stamp(STRICT)));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
    // Once more changes nothing.
    assert_eq!(world.monitor(|m| m.adopt().unwrap()).marked, 0);
}

#[test]
fn without_exec_tracking_a_program_is_not_known() {
    let mut world = World::new("no-exec");
    world.attach_without("task_exec");
    world.load(&usual(), &usual_orders());
    // The identity is still the one of the program that forked it.
    let mut program = world.start("strict");
    program.run(&["open s udp4"]);
    assert_eq!(program.ask("mark s"), "0x0");
}

#[test]
fn identity_needs_no_record_of_exec() {
    // A program that was started before the monitor, and one of its children.
    let mut world = World::new("identity-before");
    let mut old = world.start("strict");
    world.attach();
    world.load(&usual(), &usual_orders());
    assert_eq!(world.sockmon().app_of_pid(old.pid()).unwrap(), Some(STRICT));
    old.run(&["open s udp4", "child open t udp4"]);
    assert_eq!(old.ask("mark s"), hex(STRICT));
}

#[test]
fn a_script_and_a_missing_file_are_reported() {
    use sockmon::LoadWarning;
    let mut world = World::new("script");
    world.attach();
    let script = world.files.join("script");
    std::fs::write(&script, "#! /bin/sh -e\nexit 0\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let missing = world.files.join("missing");
    let subjects = programs(&[(STRICT, script.clone()), (WEAK, missing.clone())]);
    let warnings = world.sockmon().load_policy(&usual(), &subjects, &[]).unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(matches!(&warnings[0], LoadWarning::Missing { path, .. } if *path == missing));
    assert_eq!(warnings[1], LoadWarning::Script { path: script, interpreter: "/bin/sh -e".into() });
    assert!(warnings[1].to_string().contains("/bin/sh,"), "{}", warnings[1]);
}

#[test]
fn one_file_of_two_applications_is_that_of_the_first_and_said() {
    use sockmon::LoadWarning;
    let mut world = World::new("shared");
    world.attach();
    let (strict, busy) = (world.executable("strict"), world.files.join("busy"));
    std::os::unix::fs::symlink(&strict, &busy).unwrap();
    let subjects = programs(&[(STRICT, strict.clone()), (OTHER, busy.clone())]);
    let warnings = world.sockmon().load_policy(&usual(), &subjects, &[]).unwrap();
    assert!(warnings.contains(&LoadWarning::Link { path: busy, file: strict.clone() }), "{warnings:?}");
    let shadowed = LoadWarning::Shadowed { path: strict, app: OTHER, by: STRICT };
    assert!(warnings.contains(&shadowed), "{warnings:?}");
    let program = world.start("strict");
    assert_eq!(world.sockmon().app_of_pid(program.pid()).unwrap(), Some(STRICT));
}

/// Delete the record of a program. False: records are in a table by addresses of the kernel, which nobody knows here.
fn forget_record(world: &World, program: &program::Program) -> bool {
    use libbpf_rs::{MapCore, MapHandle};
    let map =
        |name| MapHandle::from_pinned_path(format!("/sys/fs/bpf/ravelin/{}/{name}", world.name)).unwrap();
    if map("records").keys().next().is_some() {
        println!("skipped: records are in a table by addresses of the kernel");
        return false;
    }
    // SAFETY: numbers.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, program.pid(), 0) };
    assert!(pidfd >= 0);
    // SAFETY: a descriptor of our own.
    let pidfd = unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(pidfd as i32) };
    map("tasks").delete(&std::os::fd::AsRawFd::as_raw_fd(&pidfd).to_ne_bytes()).unwrap();
    true
}

/// The kernel had no room for its record, or did not write it: what the process runs, it may have changed itself.
#[test]
fn a_process_without_the_record_that_it_must_have_does_not_send() {
    let mut world = usual_world("record");
    // From the first process on that is made.
    drop(world.start("unnamed"));
    let mut program = world.start("strict");
    if !forget_record(&world, &program) {
        return;
    }
    program.run(&["open u udp4"]);
    assert_eq!(program.ask("sendto u 10.99.0.130:9 5"), "EPERM", "what policy trusts, too");
    assert_eq!(world.counter("records_missing"), 1);
    // What it executes is known again: nothing that policy says asks what it has run before.
    let path = world.executable("strict");
    assert_eq!(program.ask(&format!("exec {}", path.display())), "ready");
    program.run(&["open v udp4", "sendto v 10.99.0.130:9 5"]);
    // The next daemon does not take the process for one that is older than everything.
    assert!(forget_record(&world, &program));
    drop(world.sockmon.take());
    world.attach();
    world.load(&usual(), &usual_orders());
    program.run(&["open w udp4"]);
    assert_eq!(program.ask("sendto w 10.99.0.130:9 5"), "EPERM");
}

/// A process is to be seen a moment before it has its record. The look that refused such a process met one in two hundred times.
#[test]
fn a_look_at_all_processes_refuses_none_that_is_being_made() {
    let mut world = usual_world("record-race");
    let mut programs: Vec<_> = (0..4).map(|_| world.start("unnamed")).collect();
    for program in &mut programs {
        program.begin("forks 1500");
    }
    world.monitor(|m| {
        for _ in 0..150 {
            m.adopt().unwrap();
        }
    });
    for program in &mut programs {
        assert_eq!(program.answer(), "ok");
    }
    assert_eq!(world.counter("records_missing"), 0);
}
