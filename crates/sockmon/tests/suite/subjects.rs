//! Which application a process is: by its executable, what it and its ancestors executed before, its control group and its user.
//! The kernel's choice is that of `policy::Subjects::choose`. Needs root.

use crate::common;

use common::*;
use policy::{Executables, Image, Process, RunningProgram, Selector, Subjects};
use program::Program;
use sadb::spd::{AppPolicy, Class, Spd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use wire::AppId;

/// A number below `n`, from a sequence that is the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// The path of a control group of the test, from the root of the hierarchy.
fn group(world: &World, part: &str) -> String {
    let root = sockmon::cgroup_root().unwrap();
    format!("/{}", world.cgroup.join(part).strip_prefix(root).unwrap().display())
}

fn executable(path: &Path) -> String {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_sockmon-test-app"), path).unwrap();
    path.display().to_string()
}

/// Tables in which every application trusts everybody, but for STRICT and OTHER.
fn trusting(subjects: &Subjects) -> Spd {
    let mut spd = usual();
    for (_, app) in subjects.iter().filter(|(_, app)| spd.get(*app).is_none()).collect::<Vec<_>>() {
        spd.insert(app, AppPolicy::new(vec![network("10.99.0.0/24", Class::Trusted)], Vec::new()));
    }
    spd
}

fn load(world: &mut World, subjects: &Subjects) {
    let spd = trusting(subjects);
    let unexpected = |w: &sockmon::LoadWarning| {
        !matches!(w, sockmon::LoadWarning::Missing { .. } | sockmon::LoadWarning::Shadowed { .. })
    };
    let warnings = world.sockmon().load_policy(&spd, subjects, &usual_orders()).unwrap();
    let warnings: Vec<_> = warnings.into_iter().filter(unexpected).collect();
    assert_eq!(warnings, []);
}

fn any() -> Selector {
    Selector { executables: Executables::Any, from: None, group: None, users: None }
}

fn path(path: &Path) -> Image {
    Image::Path(path.display().to_string())
}

/// The application of a program as its next socket shows it.
fn stamped(program: &mut Program, socket: &str) -> AppId {
    program.run(&[&format!("open {socket} udp4")]);
    let mark = program.ask(&format!("mark {socket}"));
    let mark = u32::from_str_radix(mark.trim_start_matches("0x"), 16).unwrap();
    assert!(mark == 0 || mark & 0xffff_0000 == 0x1_0000, "{mark:#x}");
    AppId(mark as u16)
}

/// One process of the differential test, with what is known of it.
struct Actor {
    program: Program,
    model: Process,
    sockets: usize,
}

impl Actor {
    fn start(world: &World, image: &Path) -> Actor {
        let procs = world.cgroup.join("app/cgroup.procs");
        let own = image.to_owned();
        let program = world.alice.run(move || Program::start(&own, &procs));
        let running = RunningProgram::Program(image.display().to_string());
        let group = Some(group(world, "app"));
        Actor {
            program,
            model: Process { program: running, group, user: Some(0), ..Process::default() },
            sockets: 0,
        }
    }

    /// What it runs now is behind it.
    fn leave(&mut self, next: RunningProgram) {
        if let RunningProgram::Program(path) = std::mem::replace(&mut self.model.program, next) {
            self.model.ancestors.push(path);
        }
    }

    fn step(&mut self, world: &World, dice: &mut Dice, images: &[PathBuf]) {
        let user = self.model.user.unwrap();
        match dice.below(7) {
            0 | 1 => {
                let next = dice.pick(images).display().to_string();
                assert_eq!(self.program.ask(&format!("exec {next}")), "ready");
                self.leave(RunningProgram::Program(next));
            }
            2 => {
                let same = self.model.program.clone();
                self.program.run(&["descend"]);
                self.leave(same);
            }
            3 => {
                let how = dice.pick(&["memfd", "unlinked"]);
                // Only root may write where the copy is.
                if user == 0 {
                    let from = dice.pick(images);
                    assert_eq!(self.program.ask(&format!("{how} {}", from.display())), "ready");
                    self.leave(RunningProgram::Anonymous);
                }
            }
            4 if user == 0 => {
                let part = dice.pick(&["app", "app/one", "app/one/deep", "app/two"]);
                let procs = world.cgroup.join(part).join("cgroup.procs");
                self.program.run(&[&format!("enter {}", procs.display())]);
                self.model.group = Some(group(world, part));
            }
            5 if user == 0 => {
                let user = dice.pick(&[1000, 1001, 1002, 2000]);
                self.program.run(&[&format!("uid {user}")]);
                self.model.user = Some(user);
            }
            _ => {}
        }
    }

    fn check(&mut self, world: &mut World, subjects: &Subjects) {
        let want = subjects.choose(&self.model).unwrap_or(AppId::NONE);
        let pid = self.program.ask("pid").parse().unwrap();
        assert_eq!(world.sockmon().app_of_pid(pid).unwrap(), Some(want), "{:?}", self.model);
        self.sockets += 1;
        let seen = stamped(&mut self.program, &format!("s{}", self.sockets));
        assert_eq!(seen, want, "{:?} under {subjects:?}", self.model);
    }
}

/// Random subjects; every image stands behind some `from`, so that what a process has run is always asked for.
fn random_subjects(world: &World, dice: &mut Dice, images: &[Image]) -> Subjects {
    let groups: Vec<String> = ["app", "app/one", "app/one/deep", "app/two"].map(|p| group(world, p)).into();
    let mut list: Vec<(Selector, AppId)> = Vec::new();
    let mut add = |selector: Selector| {
        if !list.iter().any(|(known, _)| *known == selector) {
            let app = AppId(100 + list.len() as u16);
            list.push((selector, app));
        }
    };
    for image in images {
        let user = Some((4000, 4000));
        add(Selector { from: Some(image.clone()), users: user, ..any() });
    }
    for _ in 0..3 + dice.below(14) {
        let executables = match dice.below(6) {
            0 => Executables::Any,
            1 => Executables::Anonymous,
            _ => Executables::Named(dice.pick(images)),
        };
        let mut chance = |n: usize| dice.below(n) == 0;
        let (from, grouped, used) = (chance(3), chance(3), chance(3));
        add(Selector {
            executables,
            from: from.then(|| dice.pick(images)),
            group: grouped.then(|| dice.pick(&groups)),
            users: used.then(|| dice.pick(&[(0, 0), (1000, 1000), (1000, 1001), (1000, 1999), (0, 3000)])),
        });
    }
    if dice.below(3) == 0 {
        add(any());
    }
    Subjects::new(list)
}

#[test]
fn the_kernel_chooses_as_the_policy_room_does() {
    let mut world = World::new("choose");
    for part in ["app/one/deep", "app/two"] {
        std::fs::create_dir_all(world.cgroup.join(part)).unwrap();
    }
    let directories = ["a", "b"].map(|d| world.files.join(d));
    let places = ["a/p0", "a/p1", "b/p0", "b/p2", "c/p3", "c/unknown"].map(|p| world.files.join(p));
    for place in &places {
        executable(place);
    }
    let images: Vec<Image> = (places[..5].iter().map(|p| path(p)))
        .chain(["p0", "p1", "p2"].map(|name| Image::Name(name.into())))
        .collect();
    let search = directories.to_vec();
    world.attach_with(move |options| options.directories = search);
    let mut dice = Dice(12);
    let mut actors: Vec<Actor> = Vec::new();
    let mut checks = 0;
    // Before the first policy nobody has written down what was run.
    for round in 0..14 {
        let subjects = random_subjects(&world, &mut dice, &images);
        load(&mut world, &subjects);
        for actor in &mut actors {
            actor.check(&mut world, &subjects);
            checks += 1;
        }
        if round % 5 == 4 {
            actors.clear();
        }
        for _ in 0..4 {
            let mut actor = Actor::start(&world, &dice.pick(&places));
            for _ in 0..dice.below(7) {
                actor.step(&world, &mut dice, &places);
                actor.check(&mut world, &subjects);
                checks += 1;
            }
            actors.push(actor);
        }
    }
    assert!(checks > 300, "{checks}");
}

#[test]
fn a_group_counts_as_soon_as_it_is_made_and_made_again() {
    let mut world = World::new("late");
    world.attach();
    let late = world.cgroup.join("app/late");
    let subjects =
        Subjects::new(vec![(Selector { group: Some(group(&world, "app/late")), ..any() }, STRICT)]);
    load(&mut world, &subjects);
    let mut program = world.start("program");
    assert_eq!(stamped(&mut program, "before"), AppId::NONE);
    for round in 0..3 {
        std::fs::create_dir(&late).unwrap();
        program.run(&[&format!("enter {}", late.join("cgroup.procs").display())]);
        assert_eq!(stamped(&mut program, &format!("in{round}")), STRICT);
        program.run(&[&format!("enter {}", world.cgroup.join("app/cgroup.procs").display())]);
        assert_eq!(stamped(&mut program, &format!("out{round}")), AppId::NONE);
        std::fs::remove_dir(&late).unwrap();
    }
    // One that is there when a policy names it.
    std::fs::create_dir(&late).unwrap();
    load(&mut world, &Subjects::default());
    program.run(&[&format!("enter {}", late.join("cgroup.procs").display())]);
    assert_eq!(stamped(&mut program, "unnamed"), AppId::NONE);
    load(&mut world, &subjects);
    assert_eq!(stamped(&mut program, "named"), STRICT);
}

#[test]
fn ancestors_older_than_the_policy_are_those_that_run() {
    let mut world = World::new("ancestors");
    world.attach();
    let (parent, child) = (world.executable("parent"), world.executable("child"));
    let from =
        |image: &Path| Selector { from: Some(path(image)), ..Selector::program(child.to_str().unwrap()) };
    let subjects = Subjects::new(vec![(from(&parent), STRICT), (from(&world.executable("former")), OTHER)]);
    let mut below = world.start("parent");
    below.run(&["descend", "descend"]);
    assert_eq!(below.ask(&format!("exec {}", child.display())), "ready");
    // What it ran itself before the policy asked, nobody knows.
    let mut changed = world.start("former");
    assert_eq!(changed.ask(&format!("exec {}", child.display())), "ready");
    load(&mut world, &subjects);
    assert_eq!(stamped(&mut below, "a"), STRICT);
    assert_eq!(stamped(&mut changed, "a"), AppId::NONE);
    // A bit that stood for one image must not stand for the next: the set is emptied in between.
    load(&mut world, &Subjects::default());
    load(&mut world, &Subjects::default());
    let unrelated = world.executable("unrelated");
    load(&mut world, &Subjects::new(vec![(from(&unrelated), OTHER)]));
    assert_eq!(stamped(&mut below, "b"), AppId::NONE);
}

#[test]
fn a_replaced_file_is_the_program_from_its_first_instruction() {
    let mut world = usual_world("swap");
    world.wire();
    let path = world.executable("strict");
    let missing = world.files.join("later");
    let subjects = programs(&[(STRICT, path.clone()), (STRICT, missing.clone())]);
    load(&mut world, &subjects);
    let (aside, to) = (world.files.join("aside"), path.clone());
    let (swapped, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, end) = (swapped.clone(), stop.clone());
    // As package managers do it, as fast as possible.
    let replacing = std::thread::spawn(move || {
        while !end.load(Relaxed) {
            std::fs::copy(env!("CARGO_BIN_EXE_sockmon-test-app"), &aside).unwrap();
            std::fs::rename(&aside, &to).unwrap();
            count.fetch_add(1, Relaxed);
        }
    });
    for round in 0..50 {
        // Another file than the last time: the first that is counted from now on may be there already.
        let before = swapped.load(Relaxed);
        let deadline = std::time::Instant::now() + SOON;
        while swapped.load(Relaxed) < before + 2 {
            assert!(std::time::Instant::now() < deadline, "nothing is replaced");
            common::breathe();
        }
        let mut program = world.start("strict");
        program.run(&["open u udp4", "sendto u 10.99.0.2:9 5"]);
        assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT), "{round}");
    }
    stop.store(true, Relaxed);
    replacing.join().unwrap();
    // What is told of has a measure: one in 31 ms once 32 were told at once. Those before may have used it up.
    std::thread::sleep(Duration::from_millis(200));
    // One that was not there at all.
    executable(&missing);
    let mut program = world.start("later");
    program.run(&["open u udp4", "sendto u 10.99.0.2:9 5"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
    assert!(world.counter("executables_new") > 40, "{}", world.counter("executables_new"));
    let told = world.sockmon().events().unwrap();
    let ours = world.sockmon().identity_of_pid(program.pid()).unwrap().unwrap();
    assert!(told.iter().any(|e| e.attempt == sockmon::Attempt::Execute(ours)), "{told:?}");
}

#[test]
fn without_room_for_one_more_executable_it_is_refused() {
    use libbpf_rs::{MapCore, MapFlags};
    use sockmon::abi::{Executable, Identity, Wire};
    const LISTED: Executable = Executable { list: 3, zero: 0, version: 0, digest: [0; 32] };
    let mut world = usual_world("no-room");
    let pin = PathBuf::from("/sys/fs/bpf/ravelin").join(&world.name).join("executables");
    let map = libbpf_rs::MapHandle::from_pinned_path(pin).unwrap();
    for inode in 1.. {
        let other = Identity { inode, device: u32::MAX, generation: 1 };
        if map.update(other.bytes(), LISTED.bytes(), MapFlags::ANY).is_err() {
            break;
        }
    }
    std::fs::remove_file(world.executable("strict")).unwrap();
    let mut program = world.start("strict");
    program.run(&["open u udp4"]);
    assert_eq!(program.ask("sendto u 10.99.0.2:9 5"), "EPERM");
    assert_eq!(world.counter("executables_no_room"), 1);
    // A later load finds room: nobody runs the others.
    world.load(&usual(), &usual_orders());
    assert_eq!(world.sockmon().app_of_pid(program.pid()).unwrap(), Some(STRICT));
}

#[test]
fn default_speaks_for_every_program_but_the_daemon() {
    let mut world = World::new("default");
    world.attach();
    let anonymous = Selector { executables: Executables::Anonymous, ..any() };
    let subjects = Subjects::new(vec![(any(), STRICT), (anonymous, WEAK)]);
    load(&mut world, &subjects);
    world.wire();
    let mut program = world.start("unknown");
    program.run(&["open u udp4", "sendto u 10.99.0.2:9 5"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    assert_eq!(program.ask(&format!("memfd {}", world.executable("unknown").display())), "ready");
    assert_eq!(stamped(&mut program, "m"), WEAK);
    let mut exempt = world.start_in("unknown", "daemon");
    assert_eq!(stamped(&mut exempt, "e"), AppId::NONE);
    assert_eq!(world.sockmon().app_of_pid(exempt.pid()).unwrap(), Some(AppId::NONE));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

/// One program makes the listener, another one gets it and accepts, as with systemd's sockets and inetd.
#[test]
fn a_connection_of_an_activated_program_is_its_own_before_it_sends() {
    use packets::*;
    let mut world = World::new("activated");
    // Its calls are told of too, as those of any connection.
    world.attach_with(|options| options.per_socket = Some(60_000));
    let service = world.executable("service");
    let unit = Selector { group: Some(group(&world, "app/one")), ..any() };
    std::fs::create_dir_all(world.cgroup.join("app/one")).unwrap();
    load(
        &mut world,
        &Subjects::new(vec![(Selector::program(service.to_str().unwrap()), STRICT), (unit, OTHER)]),
    );
    let enter = format!("enter {}", world.cgroup.join("app/one/cgroup.procs").display());
    let ways: [(u16, &[&str], AppId); 2] =
        [(8080, &[&format!("exec {}", service.display())], STRICT), (8081, &[&enter], OTHER)];
    for (port, way, app) in ways {
        let mut program = world.start("activator");
        let bind = format!("bind l 10.99.0.1:{port}");
        program.run(&["open l tcp4", &bind, "listen l", "descend"]);
        for step in way {
            let answer = program.ask(step);
            assert!(answer == "ready" || answer == "ok", "{answer}");
        }
        let mut peer = world.start_in_bob("peer");
        peer.run(&["open c tcp4"]);
        assert_eq!(peer.ask(&format!("connect c 10.99.0.1:{port}")), "EINPROGRESS");
        program.run(&["accept l a 5000"]);
        world.wire();
        // The listener is nobody's: the handshake was in clear, what the program sends is not.
        program.run(&["send a 5"]);
        // What was sent before may be sent again meanwhile.
        let of_it = |seen: &Observation| transport(&seen.packet).1.source == port;
        let next = || std::iter::from_fn(|| world.seen_within(SOON)).find(of_it);
        assert_eq!(next().expect("on the TUN").mark, stamp(app));
        program.run(&["close a"]);
        assert_eq!(next().expect("its end too").mark, stamp(app));
        assert!(world.wire().iter().all(|p| transport(p).1.source != port));
        world.drain();
    }
    assert_eq!(world.counter("connections_claimed"), 2);
    let mut told = Vec::new();
    let events = world.sockmon().socket_events().unwrap();
    events
        .serve(std::time::Duration::ZERO, |batch| {
            told.append(batch);
            false
        })
        .unwrap();
    for (port, _, app) in ways {
        let of_it: Vec<_> = told.iter().filter(|event| event.flow.local_port == port).collect();
        let [accepted] = of_it[..] else { panic!("{port}: {told:?}") };
        assert_eq!((accepted.call, accepted.app), (sadb::per_socket::Call::Accept, app));
        assert_eq!(accepted.flow.remote.to_string(), BOB);
    }
    // A program without policy keeps its connections in clear, also in other hands.
    let mut program = world.start("activator");
    program.run(&["open l tcp4", "bind l 10.99.0.1:8082", "listen l"]);
    let mut peer = world.start_in_bob("peer");
    peer.run(&["open c tcp4"]);
    assert_eq!(peer.ask("connect c 10.99.0.1:8082"), "EINPROGRESS");
    program.run(&["accept l a 5000", "send a 5"]);
    assert_eq!(program.ask(&format!("exec {}", service.display())), "ready");
    program.run(&["send a 5"]);
    assert_eq!(world.counter("connections_claimed"), 2);
    assert!(world.wire().iter().any(|p| transport(p).1.source == 8082));
}

#[test]
fn what_does_not_fit_is_refused_and_the_old_policy_stays() {
    use sockmon::SockmonError;
    let mut world = usual_world("too-many");
    let strict = world.executable("strict");
    let generation = world.sockmon().generation().unwrap();
    let with = |n: u32, of: &dyn Fn(u32) -> Selector| {
        Subjects::new((0..n).map(|i| (of(i), AppId(100 + i as u16))).collect())
    };
    let user = |i| Selector { users: Some((i, i)), ..Selector::program(strict.to_str().unwrap()) };
    let from = |i| Selector { from: Some(Image::Name(format!("p{i}"))), ..any() };
    let cgroup = |i| Selector { group: Some(format!("/g{i}")), users: Some((i, i)), ..any() };
    let spd = usual();
    let mut fails = |subjects: Subjects| world.sockmon().load_policy(&spd, &subjects, &[]).unwrap_err();
    assert!(matches!(fails(with(33, &user)), SockmonError::TooManyChoices { count: 33, max: 32, .. }));
    assert!(matches!(fails(with(65, &from)), SockmonError::TooManyAncestors { count: 65, max: 64 }));
    assert!(matches!(fails(with(256, &cgroup)), SockmonError::TooManyGroups { count: 256, max: 255 }));
    let long = Selector { group: Some(format!("/{}", "g".repeat(300))), ..any() };
    assert!(matches!(fails(Subjects::new(vec![(long, STRICT)])), SockmonError::GroupPath { .. }));
    assert_eq!(world.sockmon().generation().unwrap(), generation);
    let program = world.start("strict");
    assert_eq!(world.sockmon().app_of_pid(program.pid()).unwrap(), Some(STRICT));
    world.load(&usual(), &usual_orders());
}
