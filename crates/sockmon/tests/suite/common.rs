//! A small world for the kernel tests: two network namespaces (alice is guarded, bob watches the wire), a TUN, a cgroup
//! of its own, programs under test with files of their own. Everything has a name that a crashed run's leftovers are
//! found by, and is cleaned before and after.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod packets;
pub mod program;

use policy::Subjects;
use program::Program;
use sadb::Selectors;
use sadb::spd::{AppPolicy, Class, Item, Level, Network, Order, PortRange, RuleId, Spd};
use sockmon::{Options, Sockmon};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use wire::{AppId, Prefix, Services};

pub const ALICE: &str = "10.99.0.1";
pub const BOB: &str = "10.99.0.2";
pub const ALICE6: &str = "fd99::1";
pub const BOB6: &str = "fd99::2";

/// An address behind bob that answers nothing.
pub const NOBODY: &str = "10.99.0.33";

/// The key of the hash of users: six words that look random, and stay the same.
pub const SPLIT_KEY: [u64; 6] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
];

pub const STRICT: AppId = AppId(7);
pub const OTHER: AppId = AppId(8);
pub const WEAK: AppId = AppId(9);

/// How long to wait for something that will come.
pub const SOON: Duration = Duration::from_secs(5);
/// How long to wait for something that must not come.
pub const NEVER: Duration = Duration::from_millis(60);

/// A network namespace, held by a thread that works in it.
pub struct Namespace {
    work: mpsc::Sender<Box<dyn FnOnce() + Send>>,
    tid: i32,
}

impl Namespace {
    pub fn new() -> Namespace {
        let (work, queue) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: no pointer is passed.
            let entered = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            // SAFETY: no pointer is passed.
            tell.send((entered, unsafe { libc::gettid() })).unwrap();
            for job in queue {
                job();
            }
        });
        let (entered, tid) = told.recv().unwrap();
        assert_eq!(entered, 0, "these tests need root: unshare failed");
        let ns = Namespace { work, tid };
        ns.sh("ip link set lo up");
        ns
    }

    /// Run something in the namespace; a panic in it is a panic here.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        self.work
            .send(Box::new(move || {
                let _ = tell.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)));
            }))
            .unwrap();
        told.recv().unwrap().unwrap_or_else(|e| std::panic::resume_unwind(e))
    }

    pub fn sh(&self, commands: &'static str) {
        self.run_sh(commands.to_owned());
    }

    pub fn run_sh(&self, commands: String) {
        self.run(move || {
            let out = Command::new("sh").args(["-ec", &commands]).output().expect("sh");
            assert!(out.status.success(), "{commands}: {}", String::from_utf8_lossy(&out.stderr));
        });
    }

    pub fn ifindex(&self, name: &'static str) -> u32 {
        self.run(move || {
            // sysfs shows the namespace it was mounted in, so ask the socket layer.
            let name = std::ffi::CString::new(name).unwrap();
            // SAFETY: a valid C string.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            assert_ne!(index, 0, "{name:?}");
            index
        })
    }
}

/// What came out of the TUN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    pub version: u8,
    pub mark: u32,
    pub cookie: u64,
    pub gso_type: u8,
    pub gso_size: u16,
    pub packet: Vec<u8>,
}

pub struct World {
    pub name: String,
    pub alice: Namespace,
    pub bob: Namespace,
    pub tun: File,
    pub tun_ifindex: u32,
    pub uplink: u32,
    /// AF_PACKET in bob: what is clear on the wire.
    wire: File,
    pub cgroup: PathBuf,
    pub files: PathBuf,
    pub sockmon: Option<Sockmon>,
}

fn wait_readable(file: &File, timeout: Duration) -> bool {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry is passed, and one there is.
    unsafe { libc::poll(&raw mut poll, 1, timeout.as_millis() as i32) == 1 }
}

pub fn open_tun(name: &str) -> File {
    // IFF_TUN | IFF_NO_PI | IFF_VNET_HDR
    open_tun_as(name, 0x0001 | 0x1000 | 0x4000)
}

/// A queue of a TUN of several queues.
pub fn open_tun_queue(name: &str) -> File {
    // and IFF_MULTI_QUEUE
    open_tun_as(name, 0x0001 | 0x1000 | 0x4000 | 0x0100)
}

/// Have the TUN choose queues and filter packets by programs, as the daemon does.
pub fn set_queue_programs(tun: &File, steering: BorrowedFd<'_>, filter: BorrowedFd<'_>) {
    const TUNSETSTEERINGEBPF: libc::c_ulong = 0x8004_54e0;
    const TUNSETFILTEREBPF: libc::c_ulong = 0x8004_54e1;
    for (what, program) in [(TUNSETSTEERINGEBPF, steering), (TUNSETFILTEREBPF, filter)] {
        let number = program.as_raw_fd();
        // SAFETY: both calls read a number.
        assert_eq!(unsafe { libc::ioctl(tun.as_raw_fd(), what, &raw const number) }, 0, "{what:#x}");
    }
}

fn open_tun_as(name: &str, flags: u16) -> File {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .expect("these tests need /dev/net/tun and root");
    let mut request = [0u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    request[16..18].copy_from_slice(&flags.to_ne_bytes());
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
    // SAFETY: the buffer is a struct ifreq; the second call takes a number.
    unsafe {
        assert_eq!(libc::ioctl(file.as_raw_fd(), TUNSETIFF, request.as_mut_ptr()), 0, "TUNSETIFF");
        assert_eq!(libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, 0x0f | 0x60), 0, "TUNSETOFFLOAD");
    }
    file
}

fn open_wire() -> File {
    // SAFETY: no pointer is passed.
    let fd =
        unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, (libc::ETH_P_ALL as u16).to_be().into()) };
    assert!(fd >= 0, "these tests need root: AF_PACKET failed");
    // SAFETY: the kernel has just returned it to us.
    unsafe { OwnedFd::from_raw_fd(fd) }.into()
}

impl World {
    /// `name` must be the test's own.
    pub fn new(name: &str) -> World {
        let name = format!("test-{name}");
        sockmon::detach(&name).expect("leftovers of a crashed run");
        let root = sockmon::cgroup_root().expect("cgroup v2");
        let cgroup = root.join(format!("ravelin-{name}"));
        remove_cgroup(&cgroup);
        for part in ["", "app", "daemon"] {
            fs::create_dir_all(cgroup.join(part)).expect("these tests need root: mkdir in the cgroup tree");
        }
        let files = std::env::temp_dir().join(format!("ravelin-{name}"));
        let _ = fs::remove_dir_all(&files);
        fs::create_dir_all(&files).unwrap();

        let alice = Namespace::new();
        let bob = Namespace::new();
        alice.run_sh(format!(
            "ip link add up0 address 02:00:00:00:00:0a type veth peer name up1 address 02:00:00:00:00:0b
             ip link set up1 netns {}
             ip addr add {ALICE}/24 dev up0; ip addr add {ALICE6}/64 dev up0 nodad; ip link set up0 up
             echo 1 > /proc/sys/net/ipv4/fwmark_reflect; echo 1 > /proc/sys/net/ipv6/fwmark_reflect
             echo 0 > /proc/sys/net/ipv4/tcp_fwmark_accept",
            bob.tid
        ));
        bob.run_sh(format!(
            "ip addr add {BOB}/24 dev up1; ip addr add {BOB6}/64 dev up1 nodad; ip link set up1 up"
        ));
        alice.run(|| lab::wait_for_carrier("up0").unwrap());
        bob.run(|| lab::wait_for_carrier("up1").unwrap());
        // Neighbours are not what is tested.
        alice.run_sh(format!(
            "ip neigh replace {BOB} lladdr 02:00:00:00:00:0b dev up0 nud permanent
             ip neigh replace {NOBODY} lladdr 02:00:00:00:00:0b dev up0 nud permanent
             ip route add 10.98.0.0/24 dev up0
             ip neigh replace {BOB6} lladdr 02:00:00:00:00:0b dev up0 nud permanent"
        ));
        bob.run_sh(format!(
            "ip neigh replace {ALICE} lladdr 02:00:00:00:00:0a dev up1 nud permanent
             ip neigh replace {ALICE6} lladdr 02:00:00:00:00:0a dev up1 nud permanent"
        ));
        let tun = alice.run(|| open_tun("rvl0"));
        alice.sh(
            "ip link set rvl0 addrgenmode none; ip addr add 169.254.77.1/32 dev rvl0; ip link set rvl0 up
                  echo 2 > /proc/sys/net/ipv4/conf/rvl0/rp_filter",
        );
        let wire = bob.run(open_wire);
        let tun_ifindex = alice.ifindex("rvl0");
        let uplink = alice.ifindex("up0");
        World { name, alice, bob, tun, tun_ifindex, uplink, wire, cgroup, files, sockmon: None }
    }

    pub fn options(&self) -> Options {
        let mut options =
            Options::new(&self.name, self.cgroup.clone(), self.cgroup.join("daemon"), self.tun_ifindex);
        options.uplinks = vec![self.uplink];
        options.locals = [ALICE, "169.254.77.1"].map(|own| prefix(&format!("{own}/32"))).to_vec();
        options.locals.push(prefix(&format!("{ALICE6}/128")));
        // The mutation check: `SOCKMON_TEST_OMIT=guard cargo test -p sockmon` must fail, for every program.
        options.omit.extend(std::env::var("SOCKMON_TEST_OMIT"));
        options
    }

    pub fn attach(&mut self) {
        self.attach_with(|_| {});
    }

    pub fn attach_without(&mut self, program: &str) {
        let program = program.to_owned();
        self.attach_with(move |options| options.omit.push(program));
    }

    pub fn attach_with(&mut self, change: impl FnOnce(&mut Options)) {
        let mut options = self.options();
        change(&mut options);
        let sockmon = self.alice.run(move || Sockmon::attach(&options));
        self.sockmon = Some(sockmon.unwrap_or_else(|e| panic!("{e}: {}", e.remedy())));
    }

    pub fn sockmon(&mut self) -> &mut Sockmon {
        self.sockmon.as_mut().expect("attached")
    }

    /// Use the monitor from alice's namespace, as the daemon does.
    pub fn monitor<T: Send + 'static>(&mut self, job: impl FnOnce(&mut Sockmon) -> T + Send + 'static) -> T {
        let mut sockmon = self.sockmon.take().expect("attached");
        let (sockmon, out) = self.alice.run(move || {
            let out = job(&mut sockmon);
            (sockmon, out)
        });
        self.sockmon = Some(sockmon);
        out
    }

    /// A copy of the program under test: a file, and so an identity, of its own.
    pub fn executable(&self, name: &str) -> PathBuf {
        let path = self.files.join(name);
        if !path.exists() {
            fs::copy(env!("CARGO_BIN_EXE_sockmon-test-app"), &path).unwrap();
        }
        path
    }

    /// Start a program in alice, inside the watched cgroup.
    pub fn start(&self, name: &str) -> Program {
        self.start_in(name, "app")
    }

    pub fn start_in(&self, name: &str, part: &str) -> Program {
        let path = self.executable(name);
        let procs = self.cgroup.join(part).join("cgroup.procs");
        self.alice.run(move || Program::start(&path, &procs))
    }

    /// Start a program in bob, outside of the watched cgroup.
    pub fn start_in_bob(&self, name: &str) -> Program {
        let path = self.executable(name);
        let procs = sockmon::cgroup_root().unwrap().join("cgroup.procs");
        self.bob.run(move || Program::start(&path, &procs))
    }

    /// Load a policy for the programs called `strict`, `other` and `weak`.
    pub fn load(&mut self, spd: &Spd, orders: &[((AppId, AppId), Order)]) {
        let executables =
            [("strict", STRICT), ("other", OTHER), ("weak", WEAK)].map(|(n, a)| (a, self.executable(n)));
        let subjects = programs(&executables);
        let warnings = self.sockmon().load_policy(spd, &subjects, orders).expect("load the policy");
        assert_eq!(warnings, []);
    }

    pub fn counter(&mut self, name: &str) -> u64 {
        let counters = self.sockmon().counters().expect("counters");
        counters.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }

    /// Exchange the TUN for one of so many queues, before [`World::attach`]; the queues behind the first.
    pub fn with_queues(&mut self, count: usize) -> Vec<File> {
        self.alice.sh("ip link set rvl0 down");
        let mut queues: Vec<File> =
            self.alice.run(move || (0..count).map(|_| open_tun_queue("rvl1")).collect());
        self.alice.sh(
            "ip link set rvl1 addrgenmode none; ip addr add 169.254.77.2/32 dev rvl1; ip link set rvl1 up
                  echo 2 > /proc/sys/net/ipv4/conf/rvl1/rp_filter",
        );
        self.tun = queues.remove(0);
        self.tun_ifindex = self.alice.ifindex("rvl1");
        queues
    }

    /// The next packet that came out of the TUN.
    pub fn seen(&self) -> Option<Observation> {
        self.seen_within(NEVER)
    }

    pub fn seen_within(&self, timeout: Duration) -> Option<Observation> {
        observe_within(&self.tun, timeout)
    }

    /// All that came out of the TUN by now.
    pub fn drain(&self) -> Vec<Observation> {
        std::iter::from_fn(|| self.seen()).collect()
    }

    /// What the kernel half has counted for an application.
    pub fn traffic(&mut self, app: AppId) -> sockmon::AppTraffic {
        self.sockmon().traffic().unwrap().get(&app).cloned().unwrap_or_default()
    }

    /// Give the host a packet as the daemon would.
    pub fn inject(&self, mark: u32, packet: &[u8]) {
        let mut bytes = vec![0u8; 10];
        bytes.push(packet[0] & 0xf0);
        bytes.extend_from_slice(b"RVL");
        bytes.extend_from_slice(&mark.to_ne_bytes());
        bytes.extend_from_slice(&0u64.to_ne_bytes());
        bytes.extend_from_slice(packet);
        (&self.tun).write_all(&bytes).expect("write the TUN");
    }

    /// IP packets that bob's end of the wire got from alice by now; those of the kernel itself (neighbour and router
    /// discovery, MLD, IGMP) are left out.
    pub fn wire(&self) -> Vec<Vec<u8>> {
        self.wire_within(NEVER)
    }

    pub fn wire_within(&self, timeout: Duration) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let end = Instant::now() + timeout;
        while wait_readable(&self.wire, end.saturating_duration_since(Instant::now())) {
            let mut bytes = vec![0u8; 70_000];
            // SAFETY: zeroes are a sockaddr_ll.
            let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut len = size_of_val(&from) as libc::socklen_t;
            // SAFETY: the buffers have the lengths that are passed.
            let n = unsafe {
                libc::recvfrom(
                    self.wire.as_raw_fd(),
                    bytes.as_mut_ptr().cast(),
                    bytes.len(),
                    0,
                    (&raw mut from).cast(),
                    &raw mut len,
                )
            };
            assert!(n >= 0, "recvfrom");
            bytes.truncate(n as usize);
            // PACKET_OUTGOING: bob's own. ARPHRD_NONE: a TUN of bob's, which is no wire.
            if from.sll_pkttype != 4
                && from.sll_hatype != 0xfffe
                && is_application(&bytes, u16::from_be(from.sll_protocol))
            {
                out.push(bytes);
            }
        }
        out
    }

    /// Put a packet on the wire from bob.
    pub fn bob_sends(&self, packet: &[u8]) {
        let packet = packet.to_vec();
        self.bob.run(move || packets::send_raw(&packet));
    }
}

/// The next packet that came out of a queue of a TUN.
pub fn observe_within(mut queue: &File, timeout: Duration) -> Option<Observation> {
    if !wait_readable(queue, timeout) {
        return None;
    }
    let mut bytes = vec![0u8; 70_000];
    let n = queue.read(&mut bytes).expect("read the TUN");
    assert!(n >= 26, "{n} octets");
    let (vnet, rest) = bytes[..n].split_at(10);
    let (record, packet) = rest.split_at(16);
    assert_eq!(&record[1..4], b"RVL");
    assert_eq!(record[0] >> 4, packet[0] >> 4, "the record names the IP version");
    Some(Observation {
        version: record[0],
        mark: u32::from_ne_bytes(record[4..8].try_into().unwrap()),
        cookie: u64::from_ne_bytes(record[8..16].try_into().unwrap()),
        gso_type: vnet[1],
        gso_size: u16::from_ne_bytes(vnet[4..6].try_into().unwrap()),
        packet: packet.to_vec(),
    })
}

fn is_application(bytes: &[u8], ethertype: u16) -> bool {
    match ethertype {
        0x0800 => bytes.get(9).is_some_and(|p| *p != 2),
        0x86dd => match bytes.get(6) {
            Some(58) => !matches!(bytes.get(40), Some(130..=143)),
            Some(0) => false,
            Some(_) => true,
            None => false,
        },
        _ => false,
    }
}

/// Leave the processor to others for a moment, between two looks at what does not wake anybody.
pub fn breathe() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Remove a control group with all groups below it, however deep: a test that failed leaves what it made.
fn remove_cgroup(path: &Path) {
    let below = fs::read_dir(path).into_iter().flatten().flatten();
    for group in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_cgroup(&group.path());
    }
    // Programs of a test end when their standard input does; the kernel needs a moment to let the directory go.
    let end = Instant::now() + SOON;
    while let Err(error) = fs::remove_dir(path) {
        if error.kind() == std::io::ErrorKind::NotFound {
            break;
        }
        assert!(Instant::now() < end, "{}: {error}", path.display());
        breathe();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let detached = sockmon::detach(&self.name);
        let _ = fs::remove_dir_all(&self.files);
        if !std::thread::panicking() {
            detached.expect("detach");
            remove_cgroup(&self.cgroup);
        }
    }
}

/// Subjects that are programs and nothing else.
pub fn programs(list: &[(AppId, PathBuf)]) -> Subjects {
    Subjects::of_programs(list.iter().map(|(app, path)| (*app, path.to_str().expect("UTF-8"))))
}

pub fn prefix(text: &str) -> Prefix {
    let (addr, len) = text.split_once('/').expect("ADDRESS/LENGTH");
    Prefix::new(addr.parse::<IpAddr>().unwrap(), len.parse().unwrap()).unwrap()
}

/// An association for everything that these peers send.
pub fn serving(peers: &str) -> Selectors {
    Selectors { remote: prefix(peers), ..Selectors::ANY }
}

pub fn network(text: &str, class: Class) -> Network {
    Network { prefix: prefix(text), class, rule: RuleId(1) }
}

pub fn item(local: PortRange, remote: PortRange, services: Services, level: Level) -> Item {
    Item::new(local, remote, services, level, RuleId(2))
}

pub fn everything(level: Level) -> Item {
    item(PortRange::ANY, PortRange::ANY, Services::ENCRYPTED, level)
}

/// Bob and his networks are protected for STRICT and OTHER; 10.99.0.64/26 and fd99:0:0:0:1::/80 untrusted, 10.99.0.128/26
/// and fd99:0:0:0:2::/80 trusted; WEAK trusts everything but the untrusted ones.
pub fn usual() -> Spd {
    let networks = |class| {
        vec![
            network("10.99.0.0/24", class),
            network("fd99::/64", class),
            network("10.99.0.64/26", Class::Untrusted),
            network("fd99:0:0:0:1::/80", Class::Untrusted),
            network("10.99.0.128/26", Class::Trusted),
            network("fd99:0:0:0:2::/80", Class::Trusted),
        ]
    };
    let mut spd = Spd::new(1);
    let protection = vec![vec![everything(Level::Mandatory)]];
    // Each refuses something that the other does not.
    let and = |more| [networks(Class::Protected(0)), vec![network(more, Class::Untrusted)]].concat();
    spd.insert(STRICT, AppPolicy::new(and("198.51.100.0/25"), protection.clone()));
    spd.insert(OTHER, AppPolicy::new(and("198.51.100.128/25"), protection));
    spd.insert(WEAK, AppPolicy::new(networks(Class::Trusted), Vec::new()));
    spd
}

/// Exceptions to what the tables say, which is that STRICT is stricter than WEAK and does not compare with OTHER: none.
pub fn usual_orders() -> Vec<((AppId, AppId), Order)> {
    Vec::new()
}

/// The usual world, attached and loaded.
pub fn usual_world(name: &str) -> World {
    let mut world = World::new(name);
    world.attach();
    world.load(&usual(), &usual_orders());
    world
}

pub fn stamp(app: AppId) -> u32 {
    0x1_0000 | u32::from(app.0)
}
