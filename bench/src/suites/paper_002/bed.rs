//! Figure 7 around two lab hosts: alice is the gateway and bob the far gateway.
//!
//! ```text
//! four sources   192.0.2.16, .32, .48, .64 /28 --- gateway --- wire --- far gateway --- peer   203.0.113.64, .144 /28
//! prober         192.0.2.96, .144 /28 ---------/    (sink: the load is counted and dropped on the wire)
//! prober 192.0.2.209 -------------------- past the gateway -------------------------- 192.0.2.210 peer
//! ```
//!
//! `192.0.2.0/25` and `203.0.113.0/25` are what tunnels carry, the rest of both networks is clear. The load is not opened:
//! packets longer than any probe are counted and dropped on the wire, behind the gateway, so that the far gateway does not
//! need the core that makes the load. All processing of packets that the gateway receives is on its core (RPS).

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ::tests::sites::sh;
use anyhow::{Context, ensure};
use lab::{Host, Lab, Side};
use netio::cgroup::Cgroup;
use netio::link::{End, Links};
use netio::netns::Netns;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;

use super::flood::Sources;
use super::prober::{Answers, EF, GRACE, Origin, Probes, Target};
use crate::product;

/// The gateway's core, and that of everything else.
pub(super) const GATEWAY: usize = 0;
/// The core of sources, prober and far end.
pub(super) const OTHERS: usize = 1;
/// Sources of the load.
const SOURCES: u8 = 4;
/// The networks that tunnels carry, the gateway's first.
pub(super) const TUNNELLED: [&str; 2] = ["192.0.2.0/25", "203.0.113.0/25"];
/// The port of probes that are protected wherever there is a tunnel.
const PORT: u16 = 7000;
/// The port that rules let pass in clear, by the engine.
pub(super) const CLEAR_PORT: u16 = 7001;
/// The port of a program on the gateway itself.
const HOST_PORT: u16 = 7002;
/// The port of probes that the gateway itself sends.
const LOCAL_PORT: u16 = 7003;
/// Packets longer than this on the wire are load.
const LONG: u16 = 1000;
/// Where the load goes.
const SINK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 2)), 9);
/// The gateway's device to the prober, and that to the far gateway.
pub(super) const PROBED: &str = "probe";
pub(super) const OUTSIDE: &str = "eth0";
/// Octets of the IP and UDP headers in front of a run of joined datagrams.
const OUTER: u64 = 28;
/// The real-time priority of prober and peer, and that of the far gateway below it.
const PROBER: u32 = 20;
const FAR: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(30);

/// The hosts of Figure 7 beside the two gateways.
pub(super) struct Bed {
    _echoes: [OwnedChild; 2],
    sources: Sources,
    prober: Netns,
    cgroup: Cgroup,
    /// Whether the engine sees clear packets.
    has_engine: bool,
    own: PathBuf,
    /// The hosts of the sources.
    hosts: Vec<Netns>,
    _peer: Netns,
}

/// A process that ends with this value.
struct OwnedChild(Child);

impl Drop for OwnedChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the load's counter says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Packets, a run of joined datagrams counted as one.
    pub(super) packets: u64,
    /// Octets from the IP header on.
    pub(super) octets: u64,
}

impl Counted {
    /// What came since then.
    pub(super) fn since(self, before: Counted) -> Counted {
        Counted { packets: self.packets - before.packets, octets: self.octets - before.octets }
    }

    /// Datagrams in it, whose octets behind IP and UDP headers are `each`.
    pub(super) fn datagrams(self, each: f64) -> f64 {
        (self.octets - OUTER * self.packets) as f64 / each
    }

    /// Octets of a datagram behind IP and UDP headers, where there were so many.
    pub(super) fn octets_each(self, datagrams: u64) -> f64 {
        (self.octets - OUTER * self.packets) as f64 / datagrams as f64
    }
}

/// The gateway's devices behind which its networks are.
pub(super) fn inside() -> Vec<String> {
    (1..=SOURCES).map(|number| format!("src{number}")).chain(["probe".to_owned()]).collect()
}

/// Remove the namespaces that a bed of this lab left.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn clean(lab: &str) -> anyhow::Result<()> {
    for part in parts() {
        Netns::remove(&format!("{lab}-{part}"))?;
    }
    Ok(())
}

fn parts() -> Vec<String> {
    (1..=SOURCES).map(|number| format!("src{number}")).chain(["prober".into(), "peer".into()]).collect()
}

impl Bed {
    /// Put the hosts around a lab, whose two hosts become routers.
    ///
    /// # Errors
    /// Without root, or where the kernel refuses a part.
    pub(super) fn attach(lab: &Lab, has_engine: bool) -> anyhow::Result<Bed> {
        let name = lab.name();
        clean(name)?;
        let (alice, bob) = (lab.alice(), lab.bob());
        let parent = alice.cgroup().path().parent().context("a lab without a cgroup")?;
        let cgroup = Cgroup::create(parent, "bed")?;
        let netns = |part: &str| Netns::create(&format!("{name}-{part}"));
        let mut sources = Vec::new();
        for number in 1..=SOURCES {
            let source = netns(&format!("src{number}"))?;
            let first = 16 * u16::from(number);
            let device = format!("src{number}");
            join(&source, "eth0", alice.netns(), &device)?;
            sh(
                alice.netns(),
                &format!("ip addr add 192.0.2.{}/28 dev {device}; ip link set {device} up", first + 1),
            )?;
            sh(
                &source,
                &format!(
                    "ip addr add 192.0.2.{}/28 dev eth0; ip link set eth0 up; ip route add default via 192.0.2.{}",
                    first + 2,
                    first + 1
                ),
            )?;
            sources.push(source);
        }
        let (prober, peer) = (netns("prober")?, netns("peer")?);
        join(&prober, "eth0", alice.netns(), "probe")?;
        join(&peer, "eth0", bob.netns(), "peer")?;
        join(&prober, "past", &peer, "past")?;
        sh(
            alice.netns(),
            "ip addr add 192.0.2.97/28 dev probe; ip addr add 192.0.2.145/28 dev probe; ip link set probe up; \
             ip route add 203.0.113.0/24 via 198.51.100.2",
        )?;
        sh(
            bob.netns(),
            "ip addr add 203.0.113.65/28 dev peer; ip addr add 203.0.113.145/28 dev peer; ip link set peer up; \
             ip route add 192.0.2.0/24 via 198.51.100.1; ip route add blackhole 203.0.113.0/28",
        )?;
        sh(
            &prober,
            "ip addr add 192.0.2.98/28 dev eth0; ip addr add 192.0.2.146/28 dev eth0; ip link set eth0 up; \
             ip addr add 192.0.2.209/28 dev past; ip link set past up; ip route add default via 192.0.2.97; \
             ip route add 203.0.113.128/25 via 192.0.2.145",
        )?;
        sh(
            &peer,
            "ip addr add 203.0.113.66/28 dev eth0; ip addr add 203.0.113.146/28 dev eth0; ip link set eth0 up; \
             ip addr add 192.0.2.210/28 dev past; ip link set past up; ip route add default via 203.0.113.65; \
             ip route add 192.0.2.128/25 via 203.0.113.145",
        )?;
        for host in [alice, bob] {
            route(host)?;
        }
        // What the gateway receives is processed on its core, what leaves it on the other.
        let devices: Vec<String> = inside().into_iter().chain(["eth0".to_owned()]).collect();
        steer(alice.netns(), &devices, GATEWAY)?;
        steer(lab.wire(), &["alice".to_owned()], OTHERS)?;
        steer(bob.netns(), &["eth0".to_owned(), "peer".to_owned()], OTHERS)?;
        for end in [&prober, &peer] {
            steer(end, &["eth0".to_owned(), "past".to_owned()], OTHERS)?;
        }
        sh(
            lab.wire(),
            &format!(
                "nft 'add table netdev bed; add counter netdev bed load; \
                 add chain netdev bed in {{ type filter hook ingress device alice priority -500; policy accept; }}; \
                 add rule netdev bed in meta length > {LONG} counter name load drop'"
            ),
        )?;
        let own = product::own()?;
        let far: Vec<Target> = targets().into_iter().filter(|target| target.name != HOST).collect();
        let echoes = [
            echo(&peer, &cgroup, real_time(&own, PROBER), &far)?,
            // A program of the gateway, such as the one behind a login: on its processor, and like any other one.
            echo(alice.netns(), alice.cgroup(), on_gateway(&own), &[host()])?,
        ];
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let load = Sources::open(sources.iter().map(|netns| (netns, any)), SINK)?;
        Ok(Bed {
            _echoes: echoes,
            sources: load,
            prober,
            cgroup,
            has_engine,
            own,
            hosts: sources,
            _peer: peer,
        })
    }

    /// The ways that are probed here.
    pub(super) fn targets(&self) -> Vec<Target> {
        targets().into_iter().filter(|target| self.has_engine || target.name != "through").collect()
    }

    /// The sources of the load.
    pub(super) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Count and drop load that the gateway has opened, at the first source.
    ///
    /// # Errors
    /// If nft refuses.
    pub(super) fn drop_load_inside(&self) -> anyhow::Result<()> {
        let first = self.hosts.first().context("a bed without sources")?;
        let rules = format!(
            "nft 'add table netdev bed; add chain netdev bed in {{ type filter hook ingress device eth0 priority -500; \
             policy accept; }}; flush chain netdev bed in; add rule netdev bed in meta length > {LONG} counter drop'"
        );
        sh(first, &rules).map(drop)
    }

    /// Users at the hosts of the sources, two at each, with a socket for each of them.
    ///
    /// # Errors
    /// If a host has no room for another address.
    pub(super) fn users(&self) -> anyhow::Result<(Vec<Ipv4Addr>, Sources)> {
        let mut users = Vec::new();
        for (number, host) in (1..).zip(&self.hosts) {
            let second = Ipv4Addr::new(192, 0, 2, 16 * number + 3);
            sh(host, &format!("ip addr replace {second}/28 dev eth0"))?;
            users.extend([(host, Ipv4Addr::new(192, 0, 2, 16 * number + 2)), (host, second)]);
        }
        let sockets = users.iter().map(|(host, address)| (*host, SocketAddr::from((*address, 0))));
        let sources = Sources::open(sockets, SINK)?;
        Ok((users.into_iter().map(|(_, address)| address).collect(), sources))
    }

    /// Probe all ways, one probe of each in every interval.
    ///
    /// # Errors
    /// If the prober does not end, or fails.
    pub(super) fn probe(&self, lab: &Lab, probes: Probes) -> anyhow::Result<Vec<Answers>> {
        std::thread::scope(|scope| {
            let of = |origin: Origin| {
                // The gateway's daemon knows the programs of its own control group alone.
                let from = match origin {
                    Origin::Gateway => (lab.alice().netns(), lab.alice().cgroup()),
                    Origin::Prober => (&self.prober, &self.cgroup),
                };
                move || self.probe_from(origin, from, probes)
            };
            let local = scope.spawn(of(Origin::Gateway));
            let mut answers = of(Origin::Prober)()?;
            let local = local.join().map_err(|_| anyhow::anyhow!("probing from the gateway has panicked"))?;
            answers.extend(local?);
            Ok(answers)
        })
    }

    /// Probe expedited forwarding inside the tunnel alone.
    ///
    /// # Errors
    /// If the prober does not end, or fails.
    pub(super) fn probe_ef(&self, probes: Probes) -> anyhow::Result<Answers> {
        let only: Vec<Target> = targets().into_iter().filter(|target| target.name == "ef").collect();
        self.probe_targets(&only, (&self.prober, &self.cgroup), probes)?.pop().context("no answers")
    }

    fn probe_from(
        &self,
        origin: Origin,
        from: (&Netns, &Cgroup),
        probes: Probes,
    ) -> anyhow::Result<Vec<Answers>> {
        let targets: Vec<Target> =
            self.targets().into_iter().filter(|target| target.origin == origin).collect();
        self.probe_targets(&targets, from, probes)
    }

    fn probe_targets(
        &self,
        targets: &[Target],
        (from, cgroup): (&Netns, &Cgroup),
        probes: Probes,
    ) -> anyhow::Result<Vec<Answers>> {
        let Probes { count, interval } = probes;
        let mut command = real_time(&self.own, PROBER);
        command.args(["probe", &count.to_string(), &interval.as_micros().to_string()]);
        command.args(targets.iter().map(Target::probe));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = OwnedChild(from.prepare(&mut command, Some(cgroup))?.spawn()?);
        let out = child.0.stdout.take().context("no output of the prober")?;
        let longest = interval * u32::try_from(count)? + GRACE + PATIENCE;
        let read = std::thread::spawn(move || -> anyhow::Result<Vec<Answers>> {
            BufReader::new(out).lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
        });
        let end = Instant::now() + longest;
        let status = loop {
            if let Some(status) = child.0.try_wait()? {
                break status;
            }
            ensure!(Instant::now() < end, "the prober did not end within {longest:?}");
            std::thread::sleep(Duration::from_millis(5));
        };
        ensure!(status.success(), "the prober: {status}");
        read.join().map_err(|_| anyhow::anyhow!("reading the prober has panicked"))?
    }
}

/// Every way that is probed.
fn targets() -> Vec<Target> {
    let target = |name, local: [u8; 4], remote: [u8; 4], port: u16, tos| Target {
        origin: Origin::Prober,
        name,
        local: SocketAddr::from((local, 0)),
        remote: SocketAddr::from((remote, port)),
        tos,
    };
    vec![
        target("ef", [192, 0, 2, 98], [203, 0, 113, 66], PORT, EF),
        target("through", [192, 0, 2, 98], [203, 0, 113, 66], CLEAR_PORT, EF),
        target("past", [192, 0, 2, 146], [203, 0, 113, 146], PORT, EF),
        target("floor", [192, 0, 2, 209], [192, 0, 2, 210], PORT, EF),
        host(),
        Target {
            origin: Origin::Gateway,
            ..target("local", [192, 0, 2, 97], [203, 0, 113, 66], LOCAL_PORT, EF)
        },
    ]
}

/// The name of the way to a program of the gateway itself.
const HOST: &str = "host";

/// The way to a program of the gateway itself, in clear and with no mark.
fn host() -> Target {
    Target {
        origin: Origin::Prober,
        name: HOST,
        local: SocketAddr::from(([192, 0, 2, 98], 0)),
        remote: SocketAddr::from(([192, 0, 2, 97], HOST_PORT)),
        tos: 0,
    }
}

fn join(one: &Netns, name: &str, other: &Netns, there: &str) -> anyhow::Result<()> {
    let one = End { name, namespace: Some(one.as_fd()) };
    Ok(Links::open()?.add_veth(one, End { name: there, namespace: Some(other.as_fd()) })?)
}

/// A host forwards, and its table of neighbours does not age while its queues are full.
fn route(host: &Host) -> anyhow::Result<()> {
    sh(
        host.netns(),
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.all.send_redirects=0; \
         for file in /proc/sys/net/ipv4/neigh/*/base_reachable_time_ms; do echo 3600000 > $file; done",
    )
    .map(drop)
}

/// Have received packets of these devices processed on one core.
fn steer(netns: &Netns, devices: &[String], cpu: usize) -> anyhow::Result<()> {
    let write =
        |device: &String| format!("echo {:x} > /sys/class/net/{device}/queues/rx-0/rps_cpus; ", 1 << cpu);
    let all: String = devices.iter().map(write).collect();
    // The files of a namespace's devices are in a sysfs that was mounted in it.
    sh(netns, &format!("unshare -m sh -ec 'mount -t sysfs sysfs /sys; {all}'")).map(drop)
}

/// This program at real-time priority.
fn real_time(own: &Path, priority: u32) -> Command {
    let mut command = Command::new("chrt");
    command.args(["-f", &priority.to_string()]).arg(own).arg("bed");
    command
}

/// This program on the gateway's processor, at no priority of its own.
fn on_gateway(own: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &GATEWAY.to_string()]).arg(own).arg("bed");
    command
}

/// A program that answers the probes of these ways.
fn echo(
    netns: &Netns,
    cgroup: &Cgroup,
    mut command: Command,
    targets: &[Target],
) -> anyhow::Result<OwnedChild> {
    command.arg("echo").args(targets.iter().map(Target::echo));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = OwnedChild(netns.prepare(&mut command, Some(cgroup))?.spawn()?);
    let out = child.0.stdout.take().context("no output of the peer")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    ensure!(line.trim() == "ready", "the prober's peer does not start: {line}");
    Ok(child)
}

/// What the load's counter says now.
///
/// # Errors
/// If nft does not answer.
pub(super) fn counted(lab: &Lab) -> anyhow::Result<Counted> {
    let text = sh(lab.wire(), "nft -j list counter netdev bed load")?;
    parse(&text).with_context(|| format!("nft says {text}"))
}

fn parse(text: &str) -> Option<Counted> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let counter = answer["nftables"].as_array()?.iter().find_map(|item| item.get("counter"))?;
    Some(Counted { packets: counter["packets"].as_u64()?, octets: counter["bytes"].as_u64()? })
}

/// Put every thread of a gateway's program on its core, at real-time priority if that is asked for.
///
/// # Errors
/// If it has ended, or the kernel refuses.
pub(super) fn pin(pid: u32, side: Side, real_time: bool) -> anyhow::Result<()> {
    let cpu = if side == Side::Alice { GATEWAY } else { OTHERS };
    let folder = format!("/proc/{pid}/task");
    for task in std::fs::read_dir(&folder).with_context(|| format!("reading {folder}"))? {
        let task: i32 = task?.file_name().to_string_lossy().parse()?;
        pin_thread(Pid::from_raw(task), cpu)?;
    }
    if real_time {
        let done =
            Command::new("chrt").args(["-a", "-f", "-p", &FAR.to_string(), &pid.to_string()]).output()?;
        ensure!(done.status.success(), "chrt: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}

/// Put a thread on one core; none: the calling one, and what it starts.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn pin_thread(thread: Option<Pid>, cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(thread, &set).with_context(|| format!("putting a thread on processor {cpu}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_nft_is_read() {
        let text = r#"{"nftables": [{"metainfo": {"version": "1"}},
                       {"counter": {"family": "netdev", "name": "load", "packets": 7, "bytes": 900}}]}"#;
        assert_eq!(parse(text), Some(Counted { packets: 7, octets: 900 }));
        assert_eq!(parse("{}"), None);
    }

    #[test]
    fn joined_datagrams_are_counted_one_by_one() {
        // Ten datagrams of 1432 octets behind their headers: two runs of five.
        let counted = Counted { packets: 2, octets: 2 * 28 + 10 * 1432 };
        assert_eq!(counted.datagrams(1432.0), 10.0);
        assert_eq!(counted.octets_each(10), 1432.0);
    }

    #[test]
    fn targets_are_arguments() {
        let targets = targets();
        assert_eq!(targets[0].probe(), "ef,192.0.2.98:0,203.0.113.66:7000,184");
        assert_eq!(targets[1].echo(), "203.0.113.66:7001,184");
    }
}
