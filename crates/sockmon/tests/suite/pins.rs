//! Executables that policy names by their digests: what runs is what was hashed, or it is refused. Needs root.

use crate::common;

use common::*;
use host_files::PinState;
use policy::{Digest, Executables, Image, Pins, Selector, Subjects};
use program::Program;
use sockmon::LoadWarning;
use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wire::AppId;

const REFUSED: AppId = AppId(u16::MAX);

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn digest(path: &Path) -> Digest {
    host_files::sha256(path).unwrap()
}

fn pins(path: &Path, digests: &[Digest]) -> Pins {
    Pins::from([(path.to_str().unwrap().to_owned(), digests.iter().copied().collect::<BTreeSet<_>>())])
}

/// STRICT is the program at this path, with these digests.
fn load(world: &mut World, path: &Path, digests: &[Digest]) -> Vec<LoadWarning> {
    let subjects = programs(&[(STRICT, path.to_owned())]).pinned([&pins(path, digests)]);
    world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap()
}

/// Hash pinned files as the daemon does, until none is left unverified; what is known of the first.
fn verify(world: &mut World) -> PinState {
    let end = Instant::now() + SOON;
    loop {
        world.sockmon().verify(now(), u64::MAX).unwrap();
        let pins = world.sockmon().pins();
        if !pins.iter().any(|pin| matches!(pin.state, PinState::Unverified(_))) {
            return pins[0].state.clone();
        }
        assert!(Instant::now() < end, "{pins:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The copy of a program with some octets behind it, which do not matter to it.
fn padded(world: &World, name: &str, tail: &str) -> PathBuf {
    let path = world.executable(name);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(tail.as_bytes()).unwrap();
    path
}

fn start(world: &World, path: &Path) -> Program {
    world.start(path.file_name().unwrap().to_str().unwrap())
}

/// What the kernel half takes a program for: by its process, by its next socket, and by what happens to a datagram.
fn app(world: &mut World, program: &mut Program) -> AppId {
    let app = world.sockmon().app_of_pid(program.pid()).unwrap().unwrap();
    program.run(&["open probe udp4"]);
    let mark = program.ask("mark probe");
    assert_eq!(u32::from_str_radix(mark.trim_start_matches("0x"), 16).unwrap(), stamp(app));
    let sent = program.ask("sendto probe 10.99.0.2:9 5");
    match app {
        REFUSED => assert_eq!(sent, "EPERM"),
        app => {
            assert_eq!(sent, "ok");
            assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(app));
        }
    }
    program.run(&["close probe"]);
    app
}

#[test]
fn a_file_is_refused_until_it_was_hashed_and_is_what_policy_says() {
    let mut world = World::new("pin-first");
    world.attach();
    let path = padded(&world, "strict", "one");
    load(&mut world, &path, &[digest(&path)]);
    world.wire();
    let mut early = start(&world, &path);
    early.run(&["open u udp4"]);
    assert_eq!(early.ask("sendto u 10.99.0.2:9 5"), "EPERM");
    assert_eq!(app(&mut world, &mut early), REFUSED);
    assert_eq!(verify(&mut world), PinState::Verified(digest(&path)));
    world.monitor(|monitor| monitor.adopt().unwrap());
    // Also the one that was there before, with the socket that it has.
    assert_eq!(app(&mut world, &mut early), STRICT);
    early.run(&["sendto u 10.99.0.2:9 5"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    let mut late = start(&world, &path);
    assert_eq!(app(&mut world, &mut late), STRICT);
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

#[test]
fn another_file_than_the_one_that_was_meant_is_refused() {
    let mut world = World::new("pin-other");
    world.attach();
    let (path, meant) = (padded(&world, "strict", "one"), padded(&world, "meant", "two"));
    load(&mut world, &path, &[digest(&meant)]);
    assert_eq!(verify(&mut world), PinState::Differs(digest(&path)));
    let mut program = start(&world, &path);
    assert_eq!(app(&mut world, &mut program), REFUSED);
    assert_eq!(world.counter("executables_unverified"), 1);
    let told = world.sockmon().events().unwrap();
    let ours = world.sockmon().identity_of_pid(program.pid()).unwrap().unwrap();
    let event = told.iter().find(|e| e.attempt == sockmon::Attempt::Execute(ours)).expect("it is told of");
    assert_eq!(event.reason, "executables_unverified");
    // It is read once: not as often as somebody asks.
    assert_eq!(world.sockmon().verify(now(), u64::MAX).unwrap(), 0);
    // Each of several digests is enough.
    load(&mut world, &path, &[digest(&meant), digest(&path)]);
    assert_eq!(verify(&mut world), PinState::Verified(digest(&path)));
    assert_eq!(app(&mut world, &mut program), STRICT);
    // One that policy does not want any more is refused at once, while it runs.
    load(&mut world, &path, &[digest(&meant)]);
    assert_eq!(app(&mut world, &mut program), REFUSED);
    assert_eq!(verify(&mut world), PinState::Differs(digest(&path)));
}

#[test]
fn a_file_that_replaces_it_is_hashed_before_it_counts() {
    let mut world = World::new("pin-swap");
    world.attach();
    let (path, meant) = (padded(&world, "strict", "one"), padded(&world, "meant", "one"));
    let wanted = digest(&meant);
    load(&mut world, &path, &[wanted]);
    verify(&mut world);
    let mut old = start(&world, &path);
    // A file of the same digest, then one of another, as package managers bring them.
    for (tail, want) in [("one", STRICT), ("two", REFUSED)] {
        let aside = padded(&world, "aside", tail);
        fs::rename(&aside, &path).unwrap();
        let mut new = start(&world, &path);
        assert_eq!(app(&mut world, &mut new), REFUSED, "{tail}");
        load(&mut world, &path, &[wanted]);
        assert_eq!(app(&mut world, &mut new), REFUSED, "{tail}");
        verify(&mut world);
        assert_eq!(app(&mut world, &mut new), want, "{tail}");
        assert_eq!(app(&mut world, &mut old), STRICT, "{tail}");
    }
    // As long as it runs; then it is not wanted any more.
    load(&mut world, &path, &[digest(&path)]);
    assert_eq!(app(&mut world, &mut old), REFUSED);
}

#[test]
fn a_file_that_was_modified_in_place_is_refused_at_its_next_execution() {
    let mut world = World::new("pin-modify");
    world.attach();
    let path = padded(&world, "strict", "one");
    let (wanted, original) = (digest(&path), fs::read(&path).unwrap());
    load(&mut world, &path, &[wanted]);
    verify(&mut world);
    let times = fs::metadata(&path).unwrap();
    let times =
        FileTimes::new().set_modified(times.modified().unwrap()).set_accessed(times.accessed().unwrap());
    let append = |path: &Path| OpenOptions::new().append(true).open(path).unwrap().write_all(b"!").unwrap();
    let rewrite = |path: &Path| {
        let other: Vec<u8> = original.iter().copied().chain(*b"other").collect();
        fs::write(path, other).unwrap();
    };
    let overwrite = |path: &Path| {
        let mut file = OpenOptions::new().write(true).open(path).unwrap();
        file.seek(SeekFrom::End(-3)).unwrap();
        file.write_all(b"two").unwrap();
        file.set_times(times).unwrap();
    };
    type Tampering<'w> = &'w dyn Fn(&Path);
    let ways: [(&str, Tampering<'_>); 3] =
        [("append", &append), ("rewrite", &rewrite), ("overwrite", &overwrite)];
    for (how, modify) in ways {
        assert_eq!(app_of_new(&mut world, &path), STRICT, "{how}");
        modify(&path);
        // Nobody has looked at it since.
        assert_eq!(app_of_new(&mut world, &path), REFUSED, "{how}");
        assert!(matches!(verify(&mut world), PinState::Differs(_)), "{how}");
        assert_eq!(app_of_new(&mut world, &path), REFUSED, "{how}");
        fs::write(&path, &original).unwrap();
        assert_eq!(app_of_new(&mut world, &path), REFUSED, "{how}");
        assert_eq!(verify(&mut world), PinState::Verified(wanted), "{how}");
    }
    assert_eq!(app_of_new(&mut world, &path), STRICT);
}

fn app_of_new(world: &mut World, path: &Path) -> AppId {
    let mut program = start(world, path);
    app(world, &mut program)
}

#[test]
fn a_running_program_keeps_its_policy_when_only_the_time_of_its_file_changes() {
    let mut world = World::new("pin-time");
    world.attach();
    let path = padded(&world, "strict", "one");
    load(&mut world, &path, &[digest(&path)]);
    verify(&mut world);
    let mut program = start(&world, &path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(app(&mut world, &mut program), STRICT);
    assert_eq!(app_of_new(&mut world, &path), REFUSED);
    assert_eq!(app(&mut world, &mut program), STRICT);
    verify(&mut world);
    assert_eq!(app(&mut world, &mut program), STRICT);
    assert_eq!(app_of_new(&mut world, &path), STRICT);
    // What it runs next is judged by itself.
    let child = padded(&world, "aside", "two");
    fs::copy(&child, world.files.join("other")).unwrap();
    fs::rename(&child, &path).unwrap();
    assert_eq!(program.ask(&format!("exec {}", path.display())), "ready");
    assert_eq!(app(&mut world, &mut program), REFUSED);
}

#[test]
fn a_socket_of_a_program_that_is_refused_goes_only_to_whom_it_could_have_gone_before() {
    let mut world = World::new("pin-hands");
    world.attach();
    let (path, meant) = (padded(&world, "strict", "one"), padded(&world, "meant", "two"));
    let weak = world.executable("weak");
    let load = |world: &mut World, wanted: Digest| {
        let subjects = programs(&[(STRICT, path.clone()), (WEAK, weak.clone())]);
        let subjects = subjects.pinned([&pins(&path, &[wanted])]);
        world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
        verify(world);
        world.monitor(|monitor| monitor.adopt().unwrap());
    };
    load(&mut world, digest(&path));
    world.wire();
    let mut program = start(&world, &path);
    program.run(&["open u udp4", "sendto u 10.99.0.2:9 5"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    load(&mut world, digest(&meant));
    assert_eq!(program.ask("sendto u 10.99.0.2:9 5"), "EPERM");
    // To a weaker one it would not have gone, and does not now: not by a call, not when sockets are looked at.
    assert_eq!(program.ask(&format!("exec {}", weak.display())), "ready");
    assert_eq!(program.ask("sendto u 10.99.0.2:9 5"), "EPERM");
    world.monitor(|monitor| monitor.adopt().unwrap());
    assert_eq!(program.ask("sendto u 10.99.0.2:9 5"), "EPERM");
    load(&mut world, digest(&path));
    assert_eq!(program.ask(&format!("exec {}", path.display())), "ready");
    program.run(&["sendto u 10.99.0.2:9 5"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

#[test]
fn a_daemon_that_starts_again_need_not_hash_what_has_not_changed() {
    let mut world = World::new("pin-restart");
    world.attach();
    let path = padded(&world, "strict", "one");
    let wanted = digest(&path);
    load(&mut world, &path, &[wanted]);
    verify(&mut world);
    let mut program = start(&world, &path);
    world.attach();
    assert_eq!(app(&mut world, &mut program), STRICT);
    load(&mut world, &path, &[wanted]);
    assert_eq!(app(&mut world, &mut program), STRICT);
    assert_eq!(app_of_new(&mut world, &path), STRICT);
    assert_eq!(world.sockmon().verify(now(), u64::MAX).unwrap(), 0);
    assert_eq!(world.sockmon().pins()[0].state, PinState::Verified(wanted));
    // What was modified meanwhile is seen.
    world.attach();
    drop(program);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"!").unwrap();
    load(&mut world, &path, &[wanted]);
    assert_eq!(app_of_new(&mut world, &path), REFUSED);
}

#[test]
fn a_file_that_is_installed_later_is_refused_until_it_was_hashed() {
    let mut world = World::new("pin-later");
    world.attach();
    let (path, meant) = (world.files.join("strict"), padded(&world, "meant", "one"));
    let wanted = digest(&meant);
    load(&mut world, &path, &[wanted]);
    assert_eq!(verify(&mut world), PinState::Missing);
    fs::copy(&meant, &path).unwrap();
    assert_eq!(app_of_new(&mut world, &path), REFUSED);
    load(&mut world, &path, &[wanted]);
    assert_eq!(verify(&mut world), PinState::Verified(wanted));
    assert_eq!(app_of_new(&mut world, &path), STRICT);
}

#[test]
fn a_link_has_the_digest_of_the_file_behind_it() {
    let mut world = World::new("pin-link");
    world.attach();
    let file = padded(&world, "file", "one");
    let link = world.files.join("strict");
    symlink(&file, &link).unwrap();
    let warnings = load(&mut world, &link, &[digest(&file)]);
    assert!(
        warnings.contains(&LoadWarning::PinnedLink { path: link.clone(), file: file.clone() }),
        "{warnings:?}"
    );
    assert_eq!(app_of_new(&mut world, &link), REFUSED);
    verify(&mut world);
    assert_eq!(app_of_new(&mut world, &link), STRICT);
    assert_eq!(app_of_new(&mut world, &file), STRICT);
}

#[test]
fn what_somebody_has_open_for_writing_is_not_hashed() {
    let mut world = World::new("pin-writer");
    world.attach();
    let path = padded(&world, "strict", "one");
    let writer = File::options().write(true).open(&path).unwrap();
    load(&mut world, &path, &[digest(&path)]);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(world.sockmon().verify(now(), u64::MAX).unwrap(), 0);
    assert_eq!(world.sockmon().pins()[0].state, PinState::Unverified(Some("it is open for writing")));
    drop(writer);
    verify(&mut world);
    assert_eq!(app_of_new(&mut world, &path), STRICT);
}

/// A change in the same tick of a coarse clock could have the same time.
/// Who executes a refused file in a loop floods nobody: what is told has the measure of refused calls, on each processor.
#[test]
fn a_refused_file_that_is_executed_in_a_loop_is_told_of_by_measure() {
    const TIMES: u64 = 400;
    const LOOP: &str = "i=0; while [ $i -lt 400 ]; do \"$0\" </dev/null >/dev/null; i=$((i+1)); done";
    let mut world = World::new("pin-flood");
    world.attach();
    let (path, meant) = (padded(&world, "strict", "one"), padded(&world, "meant", "two"));
    load(&mut world, &path, &[digest(&meant)]);
    assert_eq!(verify(&mut world), PinState::Differs(digest(&path)));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", LOOP]).arg(&path);
    // SAFETY: between fork and exec only the processor of the child is chosen, by a set on its stack.
    unsafe {
        use std::os::unix::process::CommandExt;
        shell.pre_exec(|| {
            let mut first: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut first);
            let set = libc::sched_setaffinity(0, size_of_val(&first), &raw const first);
            if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        })
    };
    let begun = std::time::Instant::now();
    assert!(shell.status().unwrap().success());
    let most = 33 + begun.elapsed().as_millis() as u64 * 4 / 125;
    let told = world.sockmon().events().unwrap();
    let told = told.iter().filter(|event| event.reason == "executables_unverified").count() as u64;
    assert!((1..=most).contains(&told), "{told} of {TIMES}, at most {most}");
    assert_eq!(world.counter("executables_unverified"), TIMES, "all are counted");
    assert_eq!(world.counter("events_left_out"), TIMES - told);
    assert_eq!(world.traffic(REFUSED).reasons.get("executables_unverified"), Some(&TIMES));
}

#[test]
fn a_file_that_was_changed_a_moment_ago_waits() {
    let mut world = World::new("pin-fresh");
    world.attach();
    let path = padded(&world, "strict", "one");
    load(&mut world, &path, &[digest(&path)]);
    let changed = fs::metadata(&path).unwrap();
    let changed = Duration::new(
        std::os::unix::fs::MetadataExt::ctime(&changed) as u64,
        std::os::unix::fs::MetadataExt::ctime_nsec(&changed) as u32,
    );
    // Another process of the tests may hold a copy of the descriptor that wrote it, for a moment.
    let suspects = |world: &mut World, now| world.sockmon().unverified(now).unwrap().len();
    assert_eq!(suspects(&mut world, changed), 0);
    assert_eq!(suspects(&mut world, changed - Duration::from_secs(3600)), 0);
    assert_eq!(
        world.sockmon().pins()[0].state,
        PinState::Unverified(Some("its change time is in the future; `touch` it"))
    );
    let end = Instant::now() + SOON;
    while suspects(&mut world, changed + Duration::from_secs(4)) == 0 {
        assert!(Instant::now() < end, "{:?}", world.sockmon().pins());
    }
}

#[test]
fn an_ancestor_that_is_not_verified_is_no_ancestor() {
    let mut world = World::new("pin-from");
    world.attach();
    let (parent, child) = (padded(&world, "parent", "one"), padded(&world, "strict", "two"));
    let image = |path: &Path| Image::Path(path.to_str().unwrap().into());
    let selector = Selector {
        executables: Executables::Named(image(&child)),
        from: Some(image(&parent)),
        group: None,
        users: None,
    };
    let weak = Selector::program(child.to_str().unwrap());
    let list = vec![(selector, OTHER), (weak, STRICT)];
    let subjects = Subjects::new(list).pinned([&pins(&parent, &[digest(&parent)])]);
    world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
    let by_parent = |world: &mut World| {
        let mut program = start(world, &parent);
        assert_eq!(program.ask(&format!("exec {}", child.display())), "ready");
        app(world, &mut program)
    };
    assert_eq!(by_parent(&mut world), STRICT);
    verify(&mut world);
    assert_eq!(by_parent(&mut world), OTHER);
}
