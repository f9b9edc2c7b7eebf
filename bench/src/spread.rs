//! Ten thousand applications with a hundred networks each, in one process: the kernel half without a daemon. What is measured is
//! connect() on sockets of all of them in turn, against about as many sockets of one, and what loading such a policy takes.
//!
//! Real processes make the sockets: copies of this program at [`PROGRAMS`] places, each as [`USERS`] users one after the other
//! (that is an application each), and this process takes the sockets over. It has no policy itself, so they keep theirs, and
//! every connect() decides by the table of the socket's application.

use crate::interleave::timed;
use anyhow::{Context, ensure};
use netio::cgroup::Cgroup;
use netio::tun::{Tun, TunOptions};
use policy::{Executables, Image, Selector};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, Uid, getrlimit, pidfd_getfd, pidfd_open, setrlimit,
};
use rustix::thread::set_thread_res_uid;
use sadb::spd::{AppPolicy, Class, Item, Level, Network, PortRange, RuleId, Spd};
use sockmon::{Options, Sockmon, Subjects};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use wire::{AppId, Prefix, Services};

/// Users of one program: as many choices as one executable can have.
const USERS: u32 = 32;
/// Places at which copies of this program run.
const PROGRAMS: u32 = 313;
/// Number of applications: a few more than ten thousand.
pub const APPLICATIONS: u32 = USERS * PROGRAMS;
/// Networks of each application, the peer's among them.
pub const NETWORKS: u32 = 100;
/// Sockets of one application. With those of all others they fit into the 20,000 files that a container often allows at most.
pub const ONE: u32 = 9_800;
/// Descriptors of this process: those sockets and what else it has open.
const FILES: u64 = APPLICATIONS as u64 + ONE as u64 + 150;
const FIRST_USER: u32 = 200_000;
const ROUNDS: usize = 15;
/// Loads of a policy in which one network is another.
const RELOADS: u32 = 7;

/// Measure, and print it: `INSTANCE CGROUP FOLDER PEER`, in the namespace and the cgroup that are to be guarded. Lines of a word
/// and numbers: `load MS NETWORKS`, `reload MS TABLES`, `connects SPREAD ONE` (nanoseconds a call).
///
/// # Errors
/// On other arguments, without root, and as the host says.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let [instance, cgroup, folder, peer] = args else {
        anyhow::bail!("usage: bench spread INSTANCE CGROUP FOLDER PEER");
    };
    more_files()?;
    let peer: Ipv4Addr = peer.parse()?;
    let tun = Tun::open("rvl0", &TunOptions { persist: false, ..TunOptions::default() })?;
    // Nobody is in it.
    let exempt = Cgroup::create(Path::new(cgroup), "spread")?;
    let options = Options::new(instance, cgroup.into(), exempt.path().to_owned(), tun.index());
    let mut monitor = Sockmon::attach(&options)?;
    let place = |program: u32| Path::new(folder).join(format!("app{program}"));
    let subjects = subjects(&place);
    let mut spd = Spd::new(1);
    for app in 0..APPLICATIONS {
        spd.insert(AppId(app as u16 + 1), networks(app, 0, peer));
    }
    let start = Instant::now();
    monitor.load_policy(&spd, &subjects, &[])?;
    let first = monitor.last_load();
    println!("load {:.2} {}", start.elapsed().as_secs_f64() * 1e3, first.networks_written);
    ensure!(first.tables_written == APPLICATIONS as usize + 1, "tables are shared: {first:?}");

    let mut sockets = Vec::new();
    for program in 0..PROGRAMS {
        sockets.extend(made_by(&place(program), USERS, 1)?);
    }
    let one = made_by(&place(0), 1, ONE)?;
    let to = SocketAddr::from((peer, 9));
    for _ in 0..ROUNDS {
        let (spread, one) = (cost(&sockets, to)?, cost(&one, to)?);
        println!("connects {spread:.2} {one:.2}");
    }
    for round in 1..=RELOADS {
        spd.insert(AppId(4711), networks(4710, round, peer));
        let start = Instant::now();
        monitor.load_policy(&spd, &subjects, &[])?;
        let taken = start.elapsed().as_secs_f64() * 1e3;
        println!("reload {taken:.2} {}", monitor.last_load().tables_written);
    }
    Ok(())
}

/// Do what one of the programs does: make sockets for each of so many users, print their descriptors, and wait for the
/// end of standard input.
///
/// # Errors
/// Without root.
pub fn hold(users: u32, sockets: u32) -> anyhow::Result<()> {
    more_files()?;
    let mut all = Vec::new();
    for user in FIRST_USER..FIRST_USER + users {
        // The real user alone: the others keep us root.
        set_thread_res_uid(Some(Uid::from_raw(user)), None, None)?;
        for _ in 0..sockets {
            all.push(UdpSocket::bind("0.0.0.0:0")?);
        }
    }
    let line: Vec<String> = all.iter().map(|socket| socket.as_raw_fd().to_string()).collect();
    println!("{}", line.join(" "));
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Raise the limit of open files as far as the host allows, if that is enough.
fn more_files() -> anyhow::Result<()> {
    let most = getrlimit(Resource::Nofile).maximum.map_or(FILES, |most| most.max(FILES));
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) })
        .with_context(|| format!("raising RLIMIT_NOFILE to {most}"))
}

fn subjects(place: &dyn Fn(u32) -> PathBuf) -> Subjects {
    let subject = |app: u32| {
        let user = FIRST_USER + app % USERS;
        let image = Image::Path(place(app / USERS).display().to_string());
        let selector = Selector {
            executables: Executables::Named(image),
            from: None,
            group: None,
            users: Some((user, user)),
        };
        (selector, AppId(app as u16 + 1))
    };
    Subjects::new((0..APPLICATIONS).map(subject).collect())
}

/// A table that no other application has; `round` makes one network of it another.
fn networks(app: u32, round: u32, peer: Ipv4Addr) -> AppPolicy {
    let network = |at: u32| {
        let moved = if at == 1 { round } else { 0 };
        let addr = Ipv4Addr::from(0x0a00_0000 | (((app * 7 + at * 641 + moved) % 65_536) << 8));
        let class = if (app >> (at % 14)) & 1 == 0 { Class::Untrusted } else { Class::Trusted };
        Network { prefix: prefix(addr, 24), class, rule: RuleId(at + 1) }
    };
    let mut all: Vec<Network> = (1..NETWORKS).map(network).collect();
    all.push(Network { prefix: prefix(peer, 32), class: Class::Protected(0), rule: RuleId(NETWORKS) });
    let everything = Item::new(
        PortRange::ANY,
        PortRange::ANY,
        Services::ENCRYPTED,
        Level::Mandatory,
        RuleId(NETWORKS + 1),
    );
    AppPolicy::new(all, vec![vec![everything]])
}

fn prefix(addr: Ipv4Addr, len: u8) -> Prefix {
    Prefix::new(IpAddr::V4(addr), len).unwrap_or_else(|| Prefix::host(IpAddr::V4(addr)))
}

/// Sockets that a copy of this program at that place makes.
fn made_by(place: &Path, users: u32, sockets: u32) -> anyhow::Result<Vec<UdpSocket>> {
    fs::copy(crate::product::own()?, place).with_context(|| format!("copying to {}", place.display()))?;
    let (users, sockets) = (users.to_string(), sockets.to_string());
    let mut command = Command::new(place);
    let command = command.args(["hold", &users, &sockets]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {}", place.display()))?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    let pid = Pid::from_raw(i32::try_from(child.id())?).context("no process")?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let take = |number: &str| -> anyhow::Result<UdpSocket> {
        let fd: OwnedFd = pidfd_getfd(&process, number.parse()?, PidfdGetfdFlags::empty())?;
        Ok(fd.into())
    };
    let taken = line.split_whitespace().map(take).collect();
    drop(child.stdin.take());
    child.wait()?;
    fs::remove_file(place)?;
    taken
}

/// Nanoseconds of a connect(), each socket once, in an order that jumps about.
fn cost(sockets: &[UdpSocket], peer: SocketAddr) -> anyhow::Result<f64> {
    let order: Vec<usize> = (0..sockets.len()).map(|at| at * 7919 % sockets.len()).collect();
    let (result, cost) = timed(order.len(), || order.iter().try_for_each(|at| sockets[*at].connect(peer)));
    result.context("connecting")?;
    Ok(cost.per_item())
}
