//! Namespaces, devices in them, settings, cgroups. Needs root.

use netio::cgroup::{self, Cgroup};
use netio::link::{End, Event, Links, Offload, Scope, Watch, set_offload};
use netio::netns::{self, Netns};
use netio::{poll, sysctl};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn fresh(name: &str) -> Netns {
    Netns::remove(name).expect("root is needed");
    Netns::create(name).expect("root is needed")
}

#[test]
fn a_namespace_comes_and_goes_twice() {
    let name = "nt-twice";
    for _ in 0..2 {
        let namespace = fresh(name);
        let path = Path::new("/run/netns").join(name);
        assert!(path.exists());
        assert_eq!(Netns::create(name).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
        let outside = netns::cookie().unwrap();
        let inside = namespace.cookie().unwrap();
        assert_ne!(inside, outside);
        assert_eq!(Netns::open(&path).unwrap().cookie().unwrap(), inside);
        assert_eq!(netns::cookie().unwrap(), outside, "the calling thread stayed outside");
        // iproute2 sees it as one of its own.
        let listed = Command::new("ip").args(["netns", "list"]).output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).lines().any(|l| l.split(' ').next() == Some(name)));
        drop(namespace);
        assert!(!path.exists());
    }
    Netns::remove(name).unwrap();
}

/// `ip netns add` makes /run/netns a mount of its own, with copies of the mounts in it, if it is none yet. In a mount namespace of its
/// own, where /run is new.
#[test]
fn names_go_when_iproute2_has_mounted_over_them() {
    let within = || {
        unshare(CloneFlags::CLONE_NEWNS).expect("root is needed");
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        mount(none, "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
        let mounts = |name: &str| {
            let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
            mounts.lines().filter(|line| line.contains(&format!(" /run/netns/{name} "))).count()
        };
        let dropped = Netns::create("nt-dropped").unwrap();
        // As a crash leaves it.
        std::mem::forget(Netns::create("nt-left").unwrap());
        let added = Command::new("ip").args(["netns", "add", "nt-other"]).status().unwrap();
        assert!(added.success());
        assert_eq!((mounts("nt-dropped"), mounts("nt-left")), (2, 2), "one of each is hidden");
        drop(dropped);
        Netns::remove("nt-left").unwrap();
        for name in ["nt-dropped", "nt-left"] {
            assert_eq!(mounts(name), 0, "{name}");
            assert!(!Path::new("/run/netns").join(name).exists(), "{name}");
        }
        // Others keep theirs.
        assert!(Netns::open("/run/netns/nt-other").unwrap().cookie().is_ok());
        drop(Netns::create("nt-dropped").unwrap());
    };
    std::thread::spawn(within).join().unwrap();
}

#[test]
fn a_panic_inside_comes_out_and_names_are_checked() {
    let namespace = fresh("nt-panic");
    let panic = std::panic::catch_unwind(|| namespace.run(|| panic!("inside")));
    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"inside"));
    for bad in ["", "..", "a/b"] {
        assert!(Netns::create(bad).is_err());
    }
}

#[test]
fn settings_are_those_of_the_threads_namespace() {
    let namespace = fresh("nt-sysctl");
    let name = "net/ipv4/ip_default_ttl";
    let outside = sysctl::get(name).unwrap();
    let inside = namespace.run(|| {
        sysctl::set(name, 77).unwrap();
        assert_eq!(sysctl::replace(name, 78).unwrap(), "77");
        sysctl::get(name).unwrap()
    });
    assert_eq!(inside.unwrap(), "78");
    assert_eq!(sysctl::get(name).unwrap(), outside);
}

#[test]
fn devices_addresses_and_routes() {
    let (one, two) = (fresh("nt-link-a"), fresh("nt-link-b"));
    let end = |name| End { name, namespace: None };
    one.run(|| {
        let mut links = Links::open().unwrap();
        let mut watch = Watch::open().unwrap();
        links.add_veth(end("left"), end("right")).unwrap();
        links.add_bridge("br").unwrap();
        let (left, right, bridge) =
            (links.index("left").unwrap(), links.index("right").unwrap(), links.index("br").unwrap());
        links.set_master(right, bridge).unwrap();
        links.set_mtu(left, 1400).unwrap();
        links.set_queue_len(left, 33).unwrap();
        links.set_no_generated_addresses(left).unwrap();
        set_offload("left", Offload::Tso, false).unwrap();
        for index in [left, right, bridge] {
            links.set_up(index, true).unwrap();
        }
        let listed = links.list().unwrap();
        let link = listed.iter().find(|l| l.name == "left").unwrap();
        assert_eq!((link.mtu, link.queue_len, link.up, link.kind.as_deref()), (1400, 33, true, Some("veth")));
        assert_eq!(listed.iter().find(|l| l.name == "right").unwrap().master, Some(bridge));
        assert!(listed.iter().any(|l| l.loopback && l.up), "loopback is up in a new namespace");

        let v4: IpAddr = "192.0.2.1".parse().unwrap();
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        links.add_address(left, v4, 24, Scope::Universe).unwrap();
        links.add_address(left, v4, 24, Scope::Universe).expect("twice is fine");
        links.add_address(left, v6, 64, Scope::Universe).unwrap();
        let addresses = links.addresses().unwrap();
        let of = |addr| addresses.iter().find(|a| a.addr == addr && a.index == left).unwrap().prefix_len;
        assert_eq!((of(v4), of(v6)), (24, 64));
        assert!(!addresses.iter().any(|a| a.index == left && a.link_scope), "addrgenmode none");

        let router = "192.0.2.254".parse().unwrap();
        links.add_route("0.0.0.0".parse().unwrap(), 0, Some(router), left).unwrap();
        links.add_route("::".parse().unwrap(), 0, Some("2001:db8::fe".parse().unwrap()), left).unwrap();
        let defaults = links.default_routes().unwrap();
        assert_eq!(
            defaults.iter().filter(|d| d.index == left).map(|d| d.ipv6).collect::<Vec<_>>(),
            [false, true]
        );
        let route = links.route_to("203.0.113.9".parse().unwrap()).unwrap();
        assert_eq!((route.index, route.source, route.gateway), (left, Some(v4), Some(router)));

        links.delete(left).unwrap();
        assert!(links.find("left").is_err());
        let gone = |events: &[Event]| events.iter().any(|e| matches!(e, Event::Gone(l) if l.name == "left"));
        let mut heard = Vec::new();
        while !gone(&heard) {
            let [ready] = poll::readable([watch.as_fd()], Some(Duration::from_secs(5))).unwrap();
            assert!(ready, "no event for the deletion: {heard:?}");
            heard.extend(watch.events().unwrap());
        }
        assert!(heard.iter().any(|e| matches!(e, Event::Changed(l) if l.name == "left" && l.up)));
        assert!(links.add_address(9999, v4, 24, Scope::Link).is_err());
        links.add_veth(end("mover"), end("stays")).unwrap();
        let mover = links.index("mover").unwrap();
        links.move_to(mover, two.as_fd()).unwrap();
        assert!(links.find("mover").is_err());
    })
    .unwrap();
    two.run(|| Links::open().unwrap().find("mover").unwrap()).unwrap();
}

#[test]
fn a_program_is_in_its_namespace_and_cgroup_from_its_first_instruction() {
    let namespace = fresh("nt-prepare");
    let cgroup = Cgroup::create(&cgroup::unified_root().unwrap(), "nt-prepare/child").unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "grep ^0:: /proc/self/cgroup; readlink /proc/self/ns/net; cat /proc/net/dev | wc -l"]);
    let output = namespace.prepare(&mut command, Some(&cgroup)).unwrap().output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("0::/nt-prepare/child"));
    let inode = namespace.run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
    assert_eq!(lines.next(), inode.to_str());
    assert_eq!(lines.next(), Some("3"), "two header lines and the loopback device");

    assert!(cgroup.id().unwrap() > 1);
    let mut sleeper = Command::new("sleep");
    let mut sleeper = namespace.prepare(sleeper.arg("1000"), Some(&cgroup)).unwrap().spawn().unwrap();
    assert_eq!(cgroup.processes().unwrap(), [sleeper.id()]);
    let parent = Cgroup::open(cgroup.path().parent().unwrap()).unwrap();
    parent.kill().unwrap();
    assert!(!sleeper.wait().unwrap().success());
    parent.clone().remove().unwrap();
    assert!(!parent.path().exists());
    parent.remove().expect("twice is fine");
    assert!(Cgroup::open("/tmp").is_err());
}

#[test]
fn a_process_enters_a_cgroup_by_itself() {
    // In a child process, since the whole process moves: this test binary runs itself.
    const ASK: &str = "NETIO_ENTER_CGROUP";
    if let Some(path) = std::env::var_os(ASK) {
        Cgroup::open(path).unwrap().enter().unwrap();
        print!("{}", std::fs::read_to_string("/proc/self/cgroup").unwrap());
        return;
    }
    let cgroup = Cgroup::create(&cgroup::unified_root().unwrap(), "nt-enter").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "netns::a_process_enters_a_cgroup_by_itself", "--nocapture"])
        .env(ASK, cgroup.path())
        .output()
        .unwrap();
    cgroup.remove().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line == "0::/nt-enter"), "{text}");
}

#[test]
fn the_bpf_file_system_is_there() {
    let root = netio::bpffs::ensure_mounted().unwrap();
    assert_eq!(netio::bpffs::ensure_mounted().unwrap(), root, "no second mount");
    let probe = root.join("nt-probe");
    std::fs::create_dir(&probe).unwrap();
    std::fs::remove_dir(&probe).unwrap();
}
