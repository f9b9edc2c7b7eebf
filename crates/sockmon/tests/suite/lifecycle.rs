//! Attach, restart, repair, detach: nothing opens between two daemons, nothing stays behind the last. Needs root.

use crate::common;

use common::*;
use sockmon::{Sockmon, SockmonError};
use std::path::PathBuf;

fn pins(world: &World) -> PathBuf {
    PathBuf::from("/sys/fs/bpf/ravelin").join(&world.name)
}

fn links(world: &World) -> Vec<(String, u64)> {
    use std::os::unix::fs::MetadataExt;
    let mut list: Vec<_> = std::fs::read_dir(pins(world).join("links"))
        .unwrap()
        .map(|e| e.unwrap())
        .map(|e| (e.file_name().into_string().unwrap(), e.metadata().unwrap().ino()))
        .collect();
    list.sort();
    list
}

/// Links whose program hangs on a function or tracepoint of the kernel, which the kernel cannot exchange. Not every kernel has them all.
const TRACING: [&str; 9] = [
    "group_made",
    "option_lsm",
    "option_return",
    "stream_write",
    "stream_written",
    "task_exec",
    "task_fork",
    "task_gone",
    "task_prepare",
];

fn is_tracing(name: &str) -> bool {
    TRACING.contains(&name)
}

/// The other links, which every kernel has.
fn plain(list: &[(String, u64)]) -> usize {
    list.iter().filter(|(name, _)| !is_tracing(name)).count()
}

#[test]
fn a_dead_daemon_leaves_the_host_closed_and_the_next_takes_over() {
    let mut world = usual_world("restart");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4", "sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some());
    let first = links(&world);
    assert_eq!(plain(&first), 18);
    let tracing: Vec<String> =
        first.iter().map(|(name, _)| name.clone()).filter(|name| is_tracing(name)).collect();
    assert!(["group_made", "task_exec", "task_fork"].iter().all(|name| tracing.iter().any(|t| t == name)));

    world.sockmon().set_names(&[(STRICT, "strict"), (OTHER, "a name that goes")]).unwrap();
    world.sockmon().set_names(&[(STRICT, "strict"), (WEAK, "weak")]).unwrap();
    let error = world.sockmon().set_names(&[(OTHER, &"x".repeat(128))]).unwrap_err();
    assert!(matches!(error, SockmonError::Name { .. }), "{error}");
    // As after SIGKILL: the process's descriptors are closed, nothing else.
    drop(world.sockmon.take());
    program.run(&["sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some());
    let mut fresh = world.start("strict");
    fresh.run(&["open s udp4", "sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some(), "exec is still tracked");

    world.attach();
    assert_eq!(world.monitor(|m| m.health()), []);
    assert_eq!(world.sockmon().generation().unwrap(), 1, "the policy stayed in force");
    assert_eq!(world.sockmon().names().unwrap(), [(STRICT, "strict".to_owned()), (WEAK, "weak".to_owned())]);
    assert_eq!(world.sockmon().executables().unwrap().len(), 3);
    program.run(&["sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some());
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
    // Exchanged in place, but for those whose programs cannot be exchanged.
    let moved: Vec<String> =
        links(&world).into_iter().zip(first).filter(|(new, old)| new != old).map(|(new, _)| new.0).collect();
    assert_eq!(moved, tracing);
}

#[test]
fn detach_takes_everything_down() {
    let mut world = usual_world("down");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4"]);
    assert!(sockmon::instances().unwrap().contains(&world.name));
    drop(world.sockmon.take());
    let before = links(&world);
    assert_eq!(plain(&before), 18);
    let done = sockmon::detach(&world.name).unwrap();
    assert_eq!((done.links, done.maps), (before.len(), 52));
    assert!(!pins(&world).exists());
    assert!(!sockmon::instances().unwrap().contains(&world.name));
    program.run(&["sendto s 10.99.0.2:9 5"]);
    assert_eq!(world.wire().len(), 1, "clear again: this is what detach means");
    assert_eq!(sockmon::detach(&world.name).unwrap(), sockmon::Detached::default());
}

/// Before its TUN is replaced a start says that there is none, and until the new one has its programs there is none.
#[test]
fn without_a_tun_what_must_be_protected_is_refused_until_one_has_its_programs() {
    let mut world = usual_world("no-tun");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4", "sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some());
    let before = world.counter("egress_no_tun");
    sockmon::forget_tun(&world.name).unwrap();
    program.run(&["sendto s 10.99.0.2:9 5"]);
    assert!(world.seen().is_none());
    assert_eq!(world.counter("egress_no_tun"), before + 1);
    assert_eq!(world.wire().len(), 0);

    // The programs cannot be attached to a TUN that is not there: nothing is redirected to its index.
    drop(world.sockmon.take());
    let mut options = world.options();
    options.tun_ifindex = 4_000_000;
    world.alice.run(move || Sockmon::attach(&options)).unwrap_err();
    program.run(&["sendto s 10.99.0.2:9 5"]);
    assert_eq!(world.wire().len(), 0);
    world.attach();
    assert_eq!(world.counter("egress_no_tun"), before + 2, "refused, not sent to nobody");
    program.run(&["sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some(), "the TUN is back");
    assert_eq!(sockmon::forget_tun("nobody-is-called-so").ok(), Some(()));
}

#[test]
fn a_failed_attach_leaves_nothing() {
    let mut world = World::new("failed");
    let mut options = world.options();
    options.tun_ifindex = 4_000_000;
    let error = world.alice.run(move || Sockmon::attach(&options)).unwrap_err();
    assert!(error.to_string().contains("tun_egress"), "{error}");
    assert!(!pins(&world).exists());
    let mut options = world.options();
    options.instance = "../x".into();
    let error = world.alice.run(move || Sockmon::attach(&options)).unwrap_err();
    assert!(matches!(error, SockmonError::InstanceName(_)), "{error}");
    world.attach();
    assert_eq!(world.monitor(|m| m.health()), []);
}

#[test]
fn maps_of_another_abi_are_refused_with_a_remedy() {
    let mut world = usual_world("abi");
    drop(world.sockmon.take());
    // The first word of `config` is the ABI.
    let config = libbpf_rs::MapHandle::from_pinned_path(pins(&world).join("config")).unwrap();
    use libbpf_rs::{MapCore, MapFlags};
    let mut value = config.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
    value[..4].copy_from_slice(&99u32.to_ne_bytes());
    config.update(&[0; 4], &value, MapFlags::ANY).unwrap();
    let options = world.options();
    let error = world.alice.run(move || Sockmon::attach(&options)).unwrap_err();
    assert!(matches!(&error, SockmonError::Abi { found, .. } if found == "99"), "{error}");
    assert!(
        error.remedy().contains(&format!("ravelin detach --instance {}", world.name)),
        "{}",
        error.remedy()
    );
    assert!(pins(&world).exists(), "what protects stays");
}

/// A table of counters as ABI 6 has it, in the place of the pinned one; 7 is counted as `sockets_stamped` on each processor.
fn pin_old_counters(world: &World) -> libbpf_rs::MapHandle {
    use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
    let path = pins(world).join("counters");
    let now = MapHandle::from_pinned_path(&path).unwrap();
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as u64,
        ..Default::default()
    };
    let mut old = MapHandle::create(MapType::PercpuArray, Some("counters"), 4, 8, 64, &options).unwrap();
    let values = now.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
    let sevens: Vec<Vec<u8>> = values.iter().map(|_| 7u64.to_ne_bytes().to_vec()).collect();
    old.update_percpu(&0u32.to_ne_bytes(), &sevens, MapFlags::ANY).unwrap();
    std::fs::remove_file(&path).unwrap();
    old.pin(&path).unwrap();
    old
}

#[test]
fn what_the_versions_before_left_is_taken_over_in_place() {
    use libbpf_rs::{MapCore, MapFlags, MapHandle};
    let mut world = usual_world("before");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4", "sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some());
    let first = links(&world);
    drop(world.sockmon.take());
    let old = pin_old_counters(&world);
    let config = MapHandle::from_pinned_path(pins(&world).join("config")).unwrap();
    let abi = |value: Option<u32>| {
        let mut octets = config.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
        if let Some(value) = value {
            octets[..4].copy_from_slice(&value.to_ne_bytes());
            config.update(&[0; 4], &octets, MapFlags::ANY).unwrap();
        }
        u32::from_ne_bytes(octets[..4].try_into().unwrap())
    };
    abi(sockmon::abi::ABIS_BEFORE.last().copied());
    let processors = old.lookup_percpu(&[0; 4], MapFlags::ANY).unwrap().unwrap().len() as u64;

    world.attach();
    assert_eq!(abi(None), sockmon::abi::ABI);
    assert_eq!(world.monitor(|m| m.health()), []);
    assert_eq!(world.sockmon().generation().unwrap(), 1, "the policy stayed in force");
    assert_eq!(world.counter("sockets_stamped"), 7 * processors, "what was counted goes on");
    let counters = MapHandle::from_pinned_path(pins(&world).join("counters")).unwrap();
    assert_eq!(counters.max_entries(), 256);
    // A socket of before is still its application's, and the exchanged programs count in the new table.
    let before = world.counter("egress_redirected");
    program.run(&["sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some());
    assert_eq!(world.counter("egress_redirected"), before + 1);
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
    assert_eq!(links(&world).len(), first.len());
    // The next start finds what it expects.
    drop(world.sockmon.take());
    world.attach();
    assert_eq!(world.counter("sockets_stamped"), 7 * processors);
}

#[test]
fn a_foreign_program_in_front_is_seen_and_overtaken() {
    let mut world = usual_world("foreign");
    world.wire();
    let uplink = world.uplink;
    // Another instance's program on the same device: it comes first and lets everything pass.
    let foreign = format!("{}-2", world.name);
    sockmon::detach(&foreign).unwrap();
    let mut options = world.options();
    options.instance.clone_from(&foreign);
    // It lets pass what it sees; at the TUN it would end what has a stamp that it did not give.
    options.omit.push("tun_egress".to_owned());
    let second = world.alice.run(move || Sockmon::attach(&options)).unwrap();
    let faults = world.monitor(|m| m.health());
    let about: Vec<&str> = faults.iter().map(|f| f.what.as_str()).collect();
    assert!(about.contains(&format!("uplink_egress_{uplink}").as_str()), "{faults:?}");
    assert!(faults.iter().all(|f| f.detail.contains("1 other programs run before it")), "{faults:?}");
    world.monitor(|m| m.repair().unwrap());
    assert_eq!(world.monitor(|m| m.health()), []);
    let mut program = world.start("strict");
    program.run(&["open s udp4", "sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some());
    drop(second);
    sockmon::detach(&foreign).unwrap();
    // A pin that someone removed is seen and put back.
    std::fs::remove_file(pins(&world).join("links/guard")).unwrap();
    assert_eq!(world.monitor(|m| m.health()).len(), 1);
    world.monitor(|m| m.repair().unwrap());
    assert_eq!(world.monitor(|m| m.health()), []);
}

#[test]
fn a_link_whose_device_is_gone_is_replaced() {
    let mut world = usual_world("gone");
    world.alice.run_sh(format!(
        "ip link del up0; ip link add up0 index {} type veth peer name up1; ip link set up1 netns $$; ip link set up0 up
         ip addr add {ALICE}/24 dev up0; ip neigh replace {BOB} lladdr 02:00:00:00:00:0b dev up0 nud permanent; ip link set up1 up",
        world.uplink
    ));
    let faults = world.monitor(|m| m.health());
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults.iter().all(|f| f.detail.starts_with("attached to device 0")), "{faults:?}");
    world.monitor(|m| m.repair().unwrap());
    assert_eq!(world.monitor(|m| m.health()), []);
    let mut program = world.start("strict");
    program.run(&["open s udp4", "sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some());
}

#[test]
fn a_load_of_policy_mixes_no_two_generations() {
    use sadb::spd::{AppPolicy, Class, Spd};
    let mut world = usual_world("reload");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4"]);
    // Protected in every generation, in changing ways: not one packet may leave in clear while they change.
    let halves = |n: u32| {
        let mut spd = Spd::new(u64::from(n));
        let len = 24 + n % 8;
        let networks = vec![
            network(&format!("10.99.0.0/{len}"), Class::Protected(0)),
            network("0.0.0.0/0", Class::Protected(0)),
        ];
        spd.insert(STRICT, AppPolicy::new(networks, vec![vec![everything(sadb::spd::Level::Mandatory)]]));
        spd
    };
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let sender = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let mut sent = 0u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(program.ask("sendto s 10.99.0.2:9 5"), "ok");
                sent += 1;
            }
            sent
        }
    });
    for n in 0..300 {
        world.load(&halves(n), &[]);
        // Keep the TUN's queue short.
        while world.seen_within(std::time::Duration::ZERO).is_some() {}
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let sent = sender.join().unwrap();
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
    assert_eq!(world.counter("egress_redirected"), sent);
    assert!(sent > 100, "{sent}");
    assert_eq!(world.sockmon().generation().unwrap(), 301 - 254);
}

#[test]
fn who_removes_the_pins_of_a_living_daemon_opens_nothing() {
    let mut world = usual_world("unpinned");
    world.wire();
    let mut old = world.start("strict");
    old.run(&["open s udp4"]);
    let before = links(&world).len();
    std::fs::remove_dir_all(pins(&world)).unwrap();
    // The kernel lets go of what was pinned behind a grace period, and not at once. A call waits for one.
    for _ in 0..3 {
        const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
        // SAFETY: no pointer is passed.
        assert_eq!(unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) }, 0);
    }
    // Nothing has looked yet: what was attached is.
    let mut fresh = world.start("strict");
    fresh.run(&["open s udp4"]);
    for program in [&mut old, &mut fresh] {
        program.run(&["sendto s 10.99.0.2:9 5"]);
        assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    }
    let faults = world.monitor(|m| m.health());
    let about: Vec<&str> = faults.iter().map(|f| f.what.as_str()).collect();
    assert!(about.contains(&"guard") && about.contains(&"map config"), "{about:?}");
    world.monitor(|m| m.repair().unwrap());
    assert_eq!(world.monitor(|m| m.health()), []);
    assert_eq!(links(&world).len(), before);
    assert_eq!(world.sockmon().generation().unwrap(), 1, "the policy stayed in force");

    // So is one whose pin is another map's.
    let (config, other) = (pins(&world).join("config"), pins(&world).join("aside"));
    std::fs::rename(pins(&world).join("executables"), &other).unwrap();
    std::fs::remove_file(&config).unwrap();
    std::fs::rename(&other, &config).unwrap();
    assert_eq!(world.monitor(|m| m.health()).len(), 2);
    world.monitor(|m| m.repair().unwrap());
    assert_eq!(world.monitor(|m| m.health()), []);

    // The next daemon finds all of it.
    drop(world.sockmon.take());
    let mut late = world.start("strict");
    late.run(&["open s udp4"]);
    world.attach();
    assert_eq!(world.sockmon().generation().unwrap(), 1);
    assert_eq!(world.sockmon().executables().unwrap().len(), 3);
    for program in [&mut old, &mut fresh, &mut late] {
        program.run(&["sendto s 10.99.0.2:9 5"]);
        assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    }
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}
