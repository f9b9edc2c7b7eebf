//! Those who read a capture: what each of them understood, by case.

use super::reading::{Reading, case_of_address, case_of_port};
use crate::{Scratch, program};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A reader of packets. The first two are stacks that a script is played against; the others read the capture in front
/// of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reader {
    /// The kernel of this machine.
    Linux,
    /// The stack smoltcp, in memory.
    Smoltcp,
    /// The library libnids behind dsniff, which models an old Linux.
    Libnids,
    /// The program tcpflow, which writes connections to files.
    Tcpflow,
    /// The program tshark: "Follow TCP stream", and its reassembly of fragments.
    Tshark,
    /// The library Scapy: IPSession, defragment6 and TCPSession.
    Scapy,
}

/// All, in the order of the matrix.
pub const READERS: [Reader; 6] =
    [Reader::Linux, Reader::Smoltcp, Reader::Libnids, Reader::Tcpflow, Reader::Tshark, Reader::Scapy];

/// Octets of a connection: a reader that fills holes with zeros may have very many.
const LONGEST: u64 = 200_000;

/// What a reader makes of all cases.
pub type Readings = BTreeMap<usize, Reading>;

impl Reader {
    /// The name that the matrix gives the reader.
    pub const fn name(self) -> &'static str {
        match self {
            Reader::Linux => "Linux",
            Reader::Smoltcp => "smoltcp",
            Reader::Libnids => "libnids",
            Reader::Tcpflow => "tcpflow",
            Reader::Tshark => "tshark",
            Reader::Scapy => "scapy",
        }
    }

    /// Why it cannot read a case at all, whatever the packets are: a dash in the matrix. `datagrams`: the case has no connection.
    pub fn cannot(self, case: &str, datagrams: bool) -> Option<&'static str> {
        let six = case.starts_with('S');
        match self {
            Reader::Libnids if six => Some("it knows no IPv6"),
            Reader::Tcpflow if datagrams => Some("it reads connections only"),
            Reader::Tcpflow if case == "F14" || case == "O19" => Some("it puts no fragments together"),
            Reader::Smoltcp if case == "H13" => Some("it is built without raw sockets"),
            Reader::Scapy if case == "D20" => Some("it knows no end of a connection"),
            Reader::Scapy if case == "D23" => Some("its sequence numbers do not wrap"),
            _ => None,
        }
    }
}

/// All that read captures, on this one.
///
/// # Panics
/// If one is not installed or fails.
pub fn read(capture: &Path, scratch: &Scratch) -> BTreeMap<Reader, Readings> {
    BTreeMap::from([
        (Reader::Libnids, lines(&run(Command::new(nids(scratch)).arg(capture)), true)),
        (Reader::Tcpflow, tcpflow(capture, scratch)),
        (Reader::Tshark, tshark(capture)),
        (Reader::Scapy, scapy(capture)),
    ])
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}; `make deps` installs it"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Debian has libnids as a static library only: the program is built here.
fn nids(scratch: &Scratch) -> PathBuf {
    let program = scratch.join("nids");
    if !program.exists() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/nids.c");
        let mut command = Command::new(self::program("gcc"));
        command.arg("-O1").arg("-o").arg(&program).arg(source);
        // Its threads of lookups are GLib's.
        command.args(["-lnids", "-lpcap", "-lnet", "-lgthread-2.0", "-lglib-2.0"]);
        let output = command.output().expect("gcc");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "libnids-dev may be missing; `make deps` installs it: {said}");
    }
    program
}

/// What a program printed: lines `N PORT`, `T PORT HEX` and `D ADDRESS HEX`. `adds`: a line has what is new, not all so
/// far.
fn lines(output: &Output, adds: bool) -> Readings {
    let mut readings = Readings::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.split(' ');
        let (kind, of, octets) = (words.next(), words.next().unwrap_or_default(), words.next());
        let octets = octets.map(hex).unwrap_or_default();
        match kind {
            Some("D") => datagram(&mut readings, of.parse().expect("an address"), octets),
            Some(kind) => {
                let port = of.parse().expect("a port");
                let Some(case) = case_of_port(port) else { continue };
                let reading = readings.entry(case).or_default();
                let stream = reading.streams.entry(port).or_default();
                match kind {
                    "N" if !stream.is_empty() => stream.push(b'|'),
                    "N" => {}
                    _ if adds => stream.extend(octets),
                    _ => *stream = octets,
                }
            }
            None => {}
        }
    }
    readings
}

fn datagram(readings: &mut Readings, from: IpAddr, octets: Vec<u8>) {
    let barrier = IpAddr::from([192, 0, 2, 254]);
    if let Some(case) = case_of_address(from).filter(|_| from != barrier) {
        readings.entry(case).or_default().datagrams.push(octets);
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.trim().bytes().collect();
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or("?"), 16);
    digits.chunks(2).map(|pair| octet(pair).expect("hexadecimal")).collect()
}

fn tcpflow(capture: &Path, scratch: &Scratch) -> Readings {
    let folder = scratch.join(format!("{}-flows", capture.file_stem().expect("a name").to_string_lossy()));
    std::fs::create_dir_all(&folder).expect("a folder for connections");
    let mut command = Command::new(program("tcpflow"));
    command.arg("-q").args(["-S", "enable_report=NO", "-T", "%a.%b.%c", "-o"]).arg(&folder);
    run(command.arg("-r").arg(capture));
    // PORT.PORT.NUMBER, of which only the first may be one outside.
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?.to_owned();
            let mut parts = name.split('.');
            let port: u16 = parts.next()?.parse().ok()?;
            let number: u32 = parts.nth(1)?.parse().unwrap_or(0);
            Some((port, number, path))
        })
        .collect();
    files.sort();
    let mut readings = Readings::new();
    for (port, _, path) in files {
        if let Some(case) = case_of_port(port) {
            let mut octets = Vec::new();
            let file = std::fs::File::open(path).expect("a connection's file");
            file.take(LONGEST).read_to_end(&mut octets).expect("a connection's octets");
            readings.entry(case).or_default().again(port, &octets);
        }
    }
    readings
}

fn scapy(capture: &Path) -> Readings {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/reassemble.py");
    let mut command = Command::new(program("python3"));
    lines(&run(command.arg(script).arg(capture)), false)
}

fn tshark(capture: &Path) -> Readings {
    let mut readings = Readings::new();
    let tshark = || {
        let mut command = Command::new(program("tshark"));
        command.arg("-n").arg("-r").arg(capture);
        command
    };
    let fields = |filter: &str, names: &[&str]| {
        let mut command = tshark();
        command.args(["-Y", filter, "-T", "fields", "-E", "occurrence=f"]);
        command.args(names.iter().flat_map(|name| ["-e", name]));
        let text = String::from_utf8_lossy(&run(&mut command).stdout).into_owned();
        let row = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        text.lines().map(row).collect::<Vec<_>>()
    };
    let echo = "(icmp.type == 8 or icmpv6.type == 128)";
    let filter = format!("{echo} or ip.proto == 253 or (udp and not icmp and not icmpv6)");
    for row in fields(&filter, &["ip.src", "ipv6.src", "udp.payload", "data.data", "ip.proto"]) {
        let from: IpAddr = if row[0].is_empty() { &row[1] } else { &row[0] }.parse().expect("an address");
        let octets = if row[2].is_empty() { &row[3] } else { &row[2] };
        let inside = [IpAddr::from(super::kit::SERVER), IpAddr::from(super::packet::IN6)];
        if !inside.contains(&from) {
            datagram(&mut readings, from, hex(octets));
        }
    }
    let streams = fields("tcp", &["tcp.stream"]);
    let Some(last) = streams.iter().filter_map(|row| row[0].parse::<u32>().ok()).max() else {
        return readings;
    };
    let mut command = tshark();
    command.arg("-q");
    command.args((0..=last).flat_map(|stream| ["-z".to_owned(), format!("follow,tcp,raw,{stream}")]));
    // Each ends with a line of signs of equality; octets of node 1 are behind a tab. They come in any order.
    let text = String::from_utf8_lossy(&run(&mut command).stdout).into_owned();
    let mut found = BTreeMap::new();
    for part in text.split("Follow: tcp,raw").skip(1) {
        let mut number = 0;
        let (mut outside, mut octets) = (None, Vec::new());
        for line in part.lines() {
            if let Some(filter) = line.strip_prefix("Filter: tcp.stream eq ") {
                number = filter.parse().expect("the number of a stream");
            } else if let Some(node) = line.strip_prefix("Node ") {
                let (index, end) = node.split_once(": ").expect("a node");
                let (address, port) = end.rsplit_once(':').expect("an end");
                if address.parse() == Ok(Ipv4Addr::from(super::kit::CLIENT)) {
                    outside = Some((index == "1", port.parse::<u16>().expect("a port")));
                }
            } else if line.starts_with("===") {
                break;
            } else if let Some((second, _)) = outside.filter(|(second, _)| line.starts_with('\t') == *second)
            {
                octets.extend(hex(line.trim_start_matches(if second { "\t" } else { "" })));
            }
        }
        found.insert(number, (outside, octets));
    }
    assert_eq!(found.len(), last as usize + 1, "tshark followed every connection");
    for (_, (outside, octets)) in found {
        let Some((_, port)) = outside else { continue };
        if let Some(case) = case_of_port(port) {
            readings.entry(case).or_default().again(port, &octets);
        }
    }
    readings
}
