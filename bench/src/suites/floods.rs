//! `floods.*`: paper 000 section 5.1, Figure 8. Alice floods a listener on bob, and tries to connect to it all the while.
//!
//! - `{flood}.{rate}.cpu`: CPU that bob spends, percent of one processor; `{rate}` in packets a second, `max` is the highest that the
//!   generator reaches. Over a veth pair the receiver works in the sender's context, so this is the sender's CPU time beyond that
//!   of the same frames dropped at bob's door (an nftables ingress chain), and the daemon's.
//! - `{flood}.{rate}.connected`: percent of the legitimate connections that succeeded within a second.
//! - `{flood}.max.rate`: packets a second at `max`, thousands.
//! - `{flood}.{rate}.login`: percent of the SSH logins that succeed within three seconds, one after the other, with OpenSSH's own server
//!   and client, while the same flood goes to the server's port. The paper: above 100,000 SYNs a second nobody logs in behind SYN
//!   cookies, though the connection is made.
//!
//! Floods: `syn.bare` (no protection), `syn.cookies` (SYN cookies), `syn.policy` (an application policy that demands AH), spoofed
//! sources; `ah.blind`, `esp.blind` (SPIs that are not there), `ah.targeted`, `esp.targeted` (right addresses, SPI and a sequence number
//! that the window takes: the ICV must be computed), against the policy. Plots go to `docs/papers/000` when Cargo runs this.

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::paper::plot::{Mark, Plot};
use crate::paper::transform::{Member, import};
use crate::process::{cpu_time, softirq_time};
use crate::product;
use crate::stage::{program, succeeded};
use anyhow::{Context, ensure};
use lab::rig::{Rig, RigOptions};
use lab::{Finished, Host, Lab, LabOptions, Program, Running, Side, Transport};
use netio::packet::{FRAME, Flooder, FrameDevice};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);
/// A flood lasts so long for logins, of which each may take three seconds; fewer rounds, for each is that long.
const LOGINS: Duration = Duration::from_secs(7);
const LOGIN_ROUNDS: usize = 2;
/// Packets a second: the paper's lowest, one between, its highest; as many as go.
const RATES: [(u64, &str); 4] = [(15_000, "15k"), (50_000, "50k"), (112_000, "112k"), (0, "max")];
const PORT: u16 = 22;
/// The port at which sshd listens.
const SSH: u16 = 2222;
/// SPIs of the associations from alice to bob: AH, ESP. Those from bob to alice are one higher.
const SPIS: (u32, u32) = (0x1000, 0x1002);
/// The first sequence number of targeted packets: in front of every window, whatever honest packets came before.
const SEQUENCE: u32 = 1 << 20;

/// A server that accepts connections and closes them.
const LISTENER: &str = "import socket\ns = socket.create_server(('', 22), backlog=128)\nprint('ready', flush=True)\n\
                        while True: s.accept()[0].close()";
/// A client that connects again and again for two seconds; it prints tries and successes.
const CLIENT: &str = "import socket, sys, time\nend = time.monotonic() + 2\ntries = good = 0\n\
                      while time.monotonic() < end:\n  tries += 1\n  try:\n    \
                      socket.create_connection((sys.argv[1], 22), timeout=1).close(); good += 1\n    time.sleep(0.02)\n  \
                      except OSError: pass\nprint(tries, good)";

/// A program that waits until the flood is there, then runs the command of its arguments again and again for three
/// seconds, each time for three at most; it prints tries and successes.
const LOGGER_IN: &str = "import subprocess, sys, time\ntime.sleep(0.5)\nend = time.monotonic() + 3\ntries = good = 0\n\
                         while time.monotonic() < end:\n  tries += 1\n  try:\n    \
                         good += subprocess.run(sys.argv[1:], timeout=3, capture_output=True).returncode == 0\n  \
                         except subprocess.TimeoutExpired: pass\nprint(tries, good)";

/// The packets of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Syn,
    Ah { targeted: bool },
    Esp { targeted: bool },
}

/// What the listener has against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Defence {
    Nothing,
    Cookies,
    Policy,
}

const FLOODS: [(&str, Kind, Defence); 7] = [
    ("syn.bare", Kind::Syn, Defence::Nothing),
    ("syn.cookies", Kind::Syn, Defence::Cookies),
    ("syn.policy", Kind::Syn, Defence::Policy),
    ("ah.blind", Kind::Ah { targeted: false }, Defence::Policy),
    ("ah.targeted", Kind::Ah { targeted: true }, Defence::Policy),
    ("esp.blind", Kind::Esp { targeted: false }, Defence::Policy),
    ("esp.targeted", Kind::Esp { targeted: true }, Defence::Policy),
];

/// Two hosts with a listener on bob.
struct Bed {
    _listener: Running,
    _sshd: Running,
    pair: Pair,
    client: PathBuf,
    /// The command that logs in, and its arguments.
    login: Vec<String>,
    folder: PathBuf,
}

enum Pair {
    Bare(Box<Lab>),
    Guarded(Box<Rig>),
}

/// Measure the floods whose names begin with `filter`.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let figures = FigureFilter { filter, report };
    let wanted: Vec<_> = FLOODS.iter().filter(|flood| flood.0.starts_with(filter)).collect();
    let bare = Bed::build(false)?;
    let guarded = Bed::build(true)?;
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let rounds = crate::rounds(ROUNDS);
    for round in 1..=rounds {
        for (rate, rate_name) in RATES {
            for (name, kind, defence) in &wanted {
                let bed = if *defence == Defence::Policy { &guarded } else { &bare };
                bed.prepare(*defence)?;
                let one = bed.flood(*kind, rate).with_context(|| format!("{name} at {rate_name}"))?;
                eprintln!(
                    "floods: round {round} of {rounds}: {name} at {rate_name}: {:.0}/s, {:.1} % CPU, {:.0} % connected",
                    one.rate, one.cpu, one.connected
                );
                let mut put = |what: &str, value| {
                    values.entry(format!("floods.{name}.{rate_name}.{what}")).or_default().push(value);
                };
                put("cpu", one.cpu);
                put("connected", one.connected);
                if rate == 0 {
                    put("rate", one.rate / 1000.0);
                }
                if round <= LOGIN_ROUNDS {
                    let logins = bed.logins(*kind, rate).with_context(|| format!("{name} at {rate_name}"))?;
                    eprintln!(
                        "floods: round {round} of {rounds}: {name} at {rate_name}: {logins:.0} % logged in"
                    );
                    put("login", logins);
                }
            }
        }
    }
    for (name, rounds) in &values {
        let (unit, anchor) = match name.rsplit_once('.') {
            Some((_, "rate")) => ("kpps", "the generator's highest"),
            Some((_, "connected")) => ("%", "connections within a second"),
            Some((_, "login")) => ("%", "SSH logins within three seconds"),
            _ => ("%", "of a processor, beyond the same frames dropped at the door"),
        };
        figures.report.push(Figure::new(name.clone(), unit, rounds, anchor, Target::Recorded));
    }
    if filter.is_empty() {
        publish(figures.report)?;
    }
    Ok(())
}

/// The result of one flood: frames a second, CPU beyond the door in percent, and connections made in percent.
struct Measured {
    rate: f64,
    cpu: f64,
    connected: f64,
}

impl Bed {
    fn build(guarded: bool) -> anyhow::Result<Bed> {
        let client = program("python3")?;
        let (ssh, sshd) = (program("ssh")?, program("sshd")?);
        let name = if guarded { "rvl-flood-policy" } else { "rvl-flood-bare" }.to_owned();
        let folder = std::env::temp_dir().join(format!("{name}-ssh"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let (key, config) = ::tests::ssh::files(&folder);
        let pair = if guarded {
            let options = RigOptions { name, binary: product::ravelin()?, daemon: None, segmentation: true };
            let mut rig = Rig::build(&options)?;
            for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
                // The listener demands it of everybody; the client of its server.
                let network = if side == Side::Bob { "0.0.0.0/0".to_owned() } else { peer.v4().to_string() };
                let block = |program: &Path| {
                    format!(
                        "application \"{}\" {{\n  network {network} protected P;\n  protection P {{\n    \
                         localport=any remoteport=any authentication mandatory;\n  }}\n}}\n",
                        program.display()
                    )
                };
                let ssh = if side == Side::Bob { &sshd } else { &ssh };
                rig.set_policy(side, &(block(&client) + &block(ssh)))?;
            }
            rig.start_both()?;
            let mut lines = [String::new(), String::new()];
            for (spi, member, from, to) in [
                (SPIS.0, Member::Ah("sha256"), Side::Alice, Side::Bob),
                (SPIS.0 + 1, Member::Ah("sha256"), Side::Bob, Side::Alice),
                (SPIS.1, Member::Esp("aes128gcm"), Side::Alice, Side::Bob),
                (SPIS.1 + 1, Member::Esp("aes128gcm"), Side::Bob, Side::Alice),
            ] {
                let (out, inward) = member.associations(spi, None, from, to, &crypto::Suites::standard())?;
                let _ = writeln!(lines[from as usize], "{out}");
                let _ = writeln!(lines[to as usize], "{inward}");
            }
            import(&rig, &lines)?;
            Pair::Guarded(Box::new(rig))
        } else {
            Pair::Bare(Box::new(Lab::build(&LabOptions { name, segmentation: true })?))
        };
        let lab = pair.lab();
        // Answers to addresses of nobody go to a device that drops them, as in the paper.
        ::tests::sites::sh(
            lab.bob().netns(),
            "ip link add sink0 type bridge; ip link set sink0 arp off up; ip route add 10.0.0.0/8 dev sink0; \
             sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0 net.ipv4.tcp_max_syn_backlog=1024; \
             nft 'add table netdev door'",
        )?;
        let mut listener = lab.bob().spawn(Program::new(&client).args(["-c", LISTENER]))?;
        lab.bob().wait_for_listener(Transport::Tcp, PORT, &mut listener, PATIENCE)?;
        let server = ["-D", "-e", "-p", &SSH.to_string(), "-f"];
        let mut server = lab.bob().spawn(Program::new(&sshd).args(server).arg(&config))?;
        lab.bob().wait_for_listener(Transport::Tcp, SSH, &mut server, PATIENCE).context("starting sshd")?;
        let (port, peer) = (SSH.to_string(), format!("root@{}", Side::Bob.v4()));
        let (ssh, key) = (ssh.display().to_string(), key.display().to_string());
        let login = [&*ssh, "-F", "none", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null"];
        let identity = ["-oIdentitiesOnly=yes", "-oBatchMode=yes", "-i", &key, "-p", &port, &peer, "true"];
        let login = login.iter().chain(&identity).map(|word| (*word).to_owned()).collect();
        let bed = Bed { _listener: listener, _sshd: server, pair, client, login, folder };
        let quiet = bed.log_in()?.finish(PATIENCE)?;
        let [tries, good] = tries_and_successes(&quiet)?;
        ensure!(
            tries > 0.0 && tries == good,
            "without a flood {good} of {tries} logins succeed: {}",
            quiet.err()
        );
        Ok(bed)
    }

    fn prepare(&self, defence: Defence) -> anyhow::Result<()> {
        let cookies = u8::from(defence == Defence::Cookies);
        ::tests::sites::sh(
            self.pair.lab().bob().netns(),
            &format!("sysctl -qw net.ipv4.tcp_syncookies={cookies}"),
        )?;
        Ok(())
    }

    /// Send the frames of a flood twice: dropped at the door, then let in.
    fn flood(&self, kind: Kind, rate: u64) -> anyhow::Result<Measured> {
        let bob = self.pair.lab().bob().netns();
        ::tests::sites::sh(
            bob,
            "nft 'add chain netdev door way { type filter hook ingress device eth0 priority -500; policy drop; }'",
        )?;
        let dropped = self.send(kind, rate, PORT, TIME);
        ::tests::sites::sh(bob, "nft 'delete chain netdev door way'")?;
        let (sent, cpu) = dropped?;
        let door = cpu / sent;
        let alice = self.pair.lab().alice();
        let client = Program::new(&self.client).args(["-c", CLIENT, &Side::Bob.v4().to_string()]);
        let client = alice.spawn(client)?;
        let daemon = self.daemon_time()?;
        let (sent, cpu) = self.send(kind, rate, PORT, TIME)?;
        let daemon = self.daemon_time()?.saturating_sub(daemon);
        let [tries, good] = tries_and_successes(&client.finish(PATIENCE)?)?;
        let beyond = (cpu / sent - door).max(0.0) * sent + daemon.as_secs_f64();
        Ok(Measured {
            rate: sent / TIME.as_secs_f64(),
            cpu: 100.0 * beyond / TIME.as_secs_f64(),
            connected: 100.0 * good / tries,
        })
    }

    /// Percent of the SSH logins that succeed while sshd's port is flooded.
    fn logins(&self, kind: Kind, rate: u64) -> anyhow::Result<f64> {
        let client = self.log_in()?;
        self.send(kind, rate, SSH, LOGINS)?;
        let [tries, good] = tries_and_successes(&client.finish(PATIENCE)?)?;
        Ok(100.0 * good / tries)
    }

    /// Start to log in, again and again.
    fn log_in(&self) -> anyhow::Result<Running> {
        let client = Program::new(&self.client).args(["-c", LOGGER_IN]).args(&self.login);
        Ok(self.pair.lab().alice().spawn(client)?)
    }

    /// Bob's daemon, if it has one.
    fn daemon_time(&self) -> anyhow::Result<Duration> {
        match &self.pair {
            Pair::Bare(_) => Ok(Duration::ZERO),
            Pair::Guarded(rig) => cpu_time(rig.daemon(Side::Bob)?.pid()),
        }
    }

    /// Frames sent to this port, and CPU seconds of sender and soft interrupts.
    fn send(&self, kind: Kind, rate: u64, port: u16, time: Duration) -> anyhow::Result<(f64, f64)> {
        let lab = self.pair.lab();
        let station = device(lab.bob())?.station;
        let device = device(lab.alice())?;
        let softirq = softirq_time()?;
        let (flooded, cpu) = lab.alice().run(move || {
            let mut flooder = Flooder::open(&device)?;
            let before = thread_time();
            let flooded = flooder
                .run(rate, time, |number, out| frame(kind, port, number, station, device.station, out))?;
            anyhow::Ok((flooded, thread_time().saturating_sub(before)))
        })??;
        ensure!(flooded.sent > 0, "no frame was sent");
        let softirq = softirq_time()?.saturating_sub(softirq);
        Ok((flooded.sent as f64, (cpu + softirq).as_secs_f64()))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What a client printed: how often it tried, and how often it succeeded.
fn tries_and_successes(client: &Finished) -> anyhow::Result<[f64; 2]> {
    let said = succeeded("the client", client)?;
    let mut numbers = said.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
    let (tries, good) = numbers.next().zip(numbers.next()).context("the client said no numbers")?;
    ensure!(tries > 0.0, "nothing was tried");
    Ok([tries, good])
}

impl Pair {
    fn lab(&self) -> &Lab {
        match self {
            Pair::Bare(lab) => lab,
            Pair::Guarded(rig) => &rig.lab,
        }
    }
}

pub(super) fn device(host: &Host) -> anyhow::Result<FrameDevice> {
    let link = host.device()?;
    Ok(host.run(|| FrameDevice::of(link.index))??)
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// A frame of a flood to a scrubber: a SYN, or the first fragment of a datagram that never becomes whole, of a host of 10.0.0.0/8.
pub(super) fn stray(is_syn: bool, number: u64, to: [u8; 6], from: [u8; 6], out: &mut [u8; FRAME]) -> usize {
    let len = frame(Kind::Syn, PORT, number, to, from, out);
    if is_syn {
        return len;
    }
    let random = spread(number);
    let header = &mut out[14..34];
    header[4..6].copy_from_slice(&(random as u16).to_be_bytes());
    // More fragments; of UDP, whose first octets the TCP header stands for.
    (header[6], header[9]) = (0x20, 17);
    header[2..4].copy_from_slice(&36_u16.to_be_bytes());
    header[10..12].fill(0);
    let sum = checksum(header, 0);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    14 + 36
}

/// Segments of one octet of a connection that is there, each behind a hole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crumbs {
    /// The ports of alice's and of bob's end.
    pub ports: [u16; 2],
    /// The first sequence number that alice has not used.
    pub seq: u32,
    /// The first sequence number that bob has not used.
    pub ack: u32,
}

impl Crumbs {
    /// Every second octet of a window that anybody offers, in reverse order.
    pub fn frame(&self, number: u64, to: [u8; 6], from: [u8; 6], out: &mut [u8; FRAME]) -> usize {
        let place = 1 + 2 * (15_999 - (number % 16_000) as u32);
        let mut text = Vec::with_capacity(FRAME);
        self.ports.iter().for_each(|port| text.extend(port.to_be_bytes()));
        text.extend(self.seq.wrapping_add(place).to_be_bytes());
        text.extend(self.ack.to_be_bytes());
        text.extend([0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0, b'x']);
        let source = Side::Alice.v4().octets();
        seal(&mut text, source);
        let header = whole(to, from, source, 6, &text);
        out[..header.len()].copy_from_slice(&header);
        header.len()
    }
}

/// Spread over all values, the same in each run.
fn spread(number: u64) -> u32 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// One frame of the flood; its length.
fn frame(kind: Kind, port: u16, number: u64, to: [u8; 6], from: [u8; 6], out: &mut [u8; FRAME]) -> usize {
    let random = spread(number);
    // 10.0.0.0/8, else alice herself.
    let source = match kind {
        Kind::Syn => [10, (random >> 16) as u8, (random >> 8) as u8, random as u8],
        _ => Side::Alice.v4().octets(),
    };
    let (protocol, payload) = match kind {
        Kind::Syn => (6, syn(source, port, random)),
        Kind::Ah { targeted } => (51, ah(targeted, number, random)),
        Kind::Esp { targeted } => (50, esp(targeted, number, random)),
    };
    let text = whole(to, from, source, protocol, &payload);
    let len = text.len().min(FRAME);
    out[..len].copy_from_slice(&text[..len]);
    len
}

/// A frame to bob with this in it.
fn whole(to: [u8; 6], from: [u8; 6], source: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(FRAME);
    text.extend(to);
    text.extend(from);
    text.extend([8, 0]);
    let start = text.len();
    text.extend([0x45, 0]);
    text.extend((20 + payload.len() as u16).to_be_bytes());
    text.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    text.extend(source);
    text.extend(Side::Bob.v4().octets());
    let sum = checksum(&text[start..], 0);
    text[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
    text.extend(payload);
    text
}

fn syn(source: [u8; 4], port: u16, random: u32) -> Vec<u8> {
    let mut text = Vec::with_capacity(20);
    text.extend((1024 | random as u16).to_be_bytes());
    text.extend(port.to_be_bytes());
    text.extend(random.to_be_bytes());
    text.extend([0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    seal(&mut text, source);
    text
}

/// Put the checksum into a TCP segment to bob.
fn seal(text: &mut [u8], source: [u8; 4]) {
    let len = [0, 6, 0, text.len() as u8];
    let words = source.into_iter().chain(Side::Bob.v4().octets()).chain(len).collect::<Vec<u8>>();
    let sum = checksum(text, !u32::from(checksum(&words, 0)) & 0xffff);
    text[16..18].copy_from_slice(&sum.to_be_bytes());
}

/// SPI and sequence number; the ICV is wrong.
fn numbers(targeted: bool, spi: u32, number: u64, random: u32) -> [u32; 2] {
    if targeted { [spi, SEQUENCE + (number % 1_000_000) as u32] } else { [random | 0x8000_0000, random] }
}

fn ah(targeted: bool, number: u64, random: u32) -> Vec<u8> {
    let mut text = vec![6, 5, 0, 0];
    for word in numbers(targeted, SPIS.0, number, random) {
        text.extend(word.to_be_bytes());
    }
    // ICV of HMAC-SHA2-256-128, and a TCP segment.
    text.extend([0x5a; 16 + 20]);
    text
}

fn esp(targeted: bool, number: u64, random: u32) -> Vec<u8> {
    let mut text = Vec::with_capacity(56);
    for word in numbers(targeted, SPIS.1, number, random) {
        text.extend(word.to_be_bytes());
    }
    // IV, a padded TCP segment with its trailer, ICV of AES-GCM.
    text.extend([0x5a; 8 + 24 + 16]);
    text
}

/// The Internet checksum (RFC 1071).
fn checksum(octets: &[u8], start: u32) -> u16 {
    let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    let mut sum = octets.chunks(2).fold(start, |sum, pair| sum + word(pair));
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Figure 8 (a) and (b), and the table of connections.
fn publish(report: &Report) -> anyhow::Result<()> {
    let folder = super::paper_000::folder();
    let find = |name: String| report.figures().iter().find(move |figure| figure.name == name);
    let mark = |name: String| find(name).map(|f| Mark { min: f.min, value: f.value, max: f.max });
    let categories: Vec<&str> = RATES.iter().map(|(_, name)| *name).collect();
    for (title, file, floods) in [
        ("CPU of the receiver under a SYN flood", "flood-syn.svg", &FLOODS[..3]),
        ("CPU of the receiver under AH and ESP floods", "flood-esp.svg", &FLOODS[3..]),
    ] {
        let series = floods
            .iter()
            .map(|(name, ..)| {
                let marks = categories.iter().map(|rate| mark(format!("floods.{name}.{rate}.cpu")));
                ((*name).to_owned(), marks.collect())
            })
            .collect();
        let axis = "percent of a processor";
        Plot { title, axis, log: false, categories: categories.clone(), series }.write(&folder.join(file))?;
    }
    let mut text = String::from(
        "| flood | 15k | 50k | 112k | max | packets a second at max |\n|---|---|---|---|---|---|\n",
    );
    for (name, ..) in FLOODS {
        let _ = write!(text, "| `{name}` |");
        for rate in &categories {
            let value = |what: &str| find(format!("floods.{name}.{rate}.{what}")).map_or(0.0, |f| f.value);
            let (cpu, connected, login) = (value("cpu"), value("connected"), value("login"));
            let _ = write!(text, " {cpu:.0} % CPU, {connected:.0} % connected, {login:.0} % logged in |");
        }
        let max = find(format!("floods.{name}.max.rate")).map_or(0.0, |f| f.value);
        let _ = writeln!(text, " {max:.0} thousand |");
    }
    std::fs::write(folder.join("floods.md"), &text)?;
    println!("{text}");
    eprintln!("floods: table and plots in {}", folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_what_they_say() {
        let mut out = [0; FRAME];
        for (name, kind, _) in FLOODS {
            let len = frame(kind, 443, 7, [1; 6], [2; 6], &mut out);
            let packet = &out[14..len];
            let headers = wire::ip::Headers::parse(packet).unwrap();
            assert_eq!(checksum(&packet[..20], 0), 0, "{name}");
            assert_eq!(headers.dst, std::net::IpAddr::V4(Side::Bob.v4()), "{name}");
            assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len(), "{name}");
            if kind == Kind::Syn {
                let pseudo: Vec<u8> = packet[12..20].iter().copied().chain([0, 6, 0, 20]).collect();
                assert_eq!(checksum(&packet[20..], !u32::from(checksum(&pseudo, 0)) & 0xffff), 0);
                assert_eq!((packet[12], packet[33]), (10, 2));
                assert_eq!(packet[22..24], 443_u16.to_be_bytes());
            }
        }
    }

    #[test]
    fn crumbs_are_segments_of_one_octet_behind_holes() {
        let crumbs = Crumbs { ports: [40_000, 7001], seq: u32::MAX - 9, ack: 5 };
        let mut numbers = std::collections::BTreeSet::new();
        for number in 0..16_000 {
            let mut out = [0; FRAME];
            let len = crumbs.frame(number, [1; 6], [2; 6], &mut out);
            let packet = &out[14..len];
            let headers = wire::ip::Headers::parse(packet).unwrap();
            assert_eq!(wire::checksum::verify_transport(packet, &headers), Some(true));
            let segment = wire::tcp::Tcp::new_checked(headers.upper(packet)).unwrap();
            assert_eq!((segment.payload(), segment.ack(), segment.dst_port()), (&b"x"[..], 5, 7001));
            numbers.insert(segment.seq().wrapping_sub(crumbs.seq));
        }
        assert_eq!(numbers.len(), 16_000);
        assert!(numbers.iter().all(|place| place % 2 == 1 && *place < 32_000));
    }
}
