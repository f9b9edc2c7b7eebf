//! Honest traffic of real programs passes the scrubber as it is: nothing is dropped that its receiver would not throw
//! away, and a packet that is changed is changed by one of few rules, in one way.

use lab::{Program, Running, Side as Host, Transport};
use scrub::{Config, Profile, Rule};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use tests::attacks::document;
use tests::middle::{Middle, Passed, Path};
use tests::programs::{SINK, TCP_CLIENT, TCP_SERVER, UPLOAD};
use tests::{PATIENCE, Scratch, program, ssh, wait_until};
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp, TcpOption};

const PORT: u16 = 7000;

/// What may happen to a packet of an honest host, by rule. Q.6: an edge of a window that a newer packet has moved on (or that the host
/// itself took back by its rounding) stays where it was. Q.9: a copy of data that the receiver has acknowledged goes on without them. O.4: blocks of
/// SACK in an overtaken packet, about what a newer one has acknowledged.
const COSMETIC: [&str; 3] = ["Q.6", "Q.9", "O.4"];

/// One kind of traffic: its line of the table.
struct Line {
    name: &'static str,
    packets: usize,
    changed: BTreeMap<&'static str, usize>,
    /// Dropped, and the receiver would have dropped it.
    useless: BTreeMap<&'static str, usize>,
}

fn python(script: &str) -> Program {
    Program::new(program("python3")).args(["-c", script])
}

/// A server on bob that listens.
fn serve(middle: &Middle, server: Program, port: u16) -> Running {
    let mut server = middle.lab.bob().spawn(server).unwrap();
    middle.lab.bob().wait_for_listener(Transport::Tcp, port, &mut server, PATIENCE).unwrap();
    server
}

/// What a client on alice says.
fn client(middle: &Middle, client: Program) -> String {
    let done = middle.lab.alice().run_program(client, PATIENCE).unwrap();
    assert!(done.status.success(), "{}{}", done.out(), done.err());
    done.out()
}

fn upload(middle: &Middle, address: &str, octets: usize, isn: Option<u32>) {
    let args = [address.to_owned(), PORT.to_string(), octets.to_string()];
    let args = args.into_iter().chain(isn.map(|isn| isn.to_string()));
    assert_eq!(client(middle, python(UPLOAD).args(args)), "same\n");
}

fn tcp<T>(passed: &Passed, question: impl FnOnce(&Headers, &Tcp<&[u8]>) -> T) -> Option<T> {
    let packet = passed.packet();
    let headers = Headers::parse(packet).ok().filter(|headers| headers.protocol == 6)?;
    Some(question(&headers, &Tcp::new_checked(headers.upper(packet)).ok()?))
}

fn any(middle: &Middle, question: impl Fn(&Headers, &Tcp<&[u8]>) -> bool) -> bool {
    middle.look(|seen| seen.passed.iter().any(|passed| tcp(passed, &question) == Some(true)))
}

/// Every packet went on, and as it came, but for what [`COSMETIC`] says.
fn judge(name: &'static str, middle: &Middle) -> Line {
    middle.look(|seen| {
        let (mut changed, mut useless_ones) = (BTreeMap::new(), BTreeMap::new());
        for passed in &seen.passed {
            let rules: Vec<_> = passed.acted.iter().map(Rule::id).collect();
            let Some(after) = &passed.after else {
                let useless = is_useless_reset(passed, &seen.passed) || is_overtaken(passed, &seen.passed);
                assert!(useless, "{name}: dropped by {rules:?}: {passed:02x?}");
                *useless_ones.entry(rules[0]).or_default() += 1;
                continue;
            };
            for rule in &rules {
                assert!(COSMETIC.contains(rule), "{name}: changed by {rules:?}: {passed:02x?}");
                *changed.entry(*rule).or_default() += 1;
            }
            if rules.is_empty() {
                assert_eq!(*after, passed.before, "{name}: changed by no rule");
            } else {
                only_as_listed(&rules, passed, after);
            }
        }
        assert_eq!(seen.own, 0, "{name}: nobody is challenged");
        assert!(seen.passed.len() > 10, "{name}: only {} packets", seen.passed.len());
        Line { name, packets: seen.passed.len(), changed, useless: useless_ones }
    })
}

/// A closed socket answers each segment that was under way with a reset. One ends the connection; the others are about numbers that the
/// receiver does not wait for (it has acknowledged them, or is closed), and it would throw them away as rule Q.11 does.
fn is_useless_reset(dropped: &Passed, all: &[Passed]) -> bool {
    let read = |passed: &Passed| {
        let read = |headers: &Headers, view: &Tcp<&[u8]>| {
            let ends = [(headers.src, view.src_port()), (headers.dst, view.dst_port())];
            (ends, view.seq(), view.ack(), view.flags())
        };
        tcp(passed, read)
    };
    let Some((ends, number, _, flags)) = read(dropped) else { return false };
    let before = all.iter().take_while(|passed| !std::ptr::eq(*passed, dropped));
    let old = before.filter_map(read).any(|(of, _, ack, flags)| {
        let beyond = ack.wrapping_sub(number);
        of == [ends[1], ends[0]] && flags.contains(Flags::ACK) && beyond != 0 && beyond < 1 << 31
    });
    let ended = all.iter().filter(|passed| passed.after.is_some()).filter_map(read);
    let second = ended.into_iter().any(|(of, _, _, flags)| of == ends && flags.contains(Flags::RST));
    flags.contains(Flags::RST) && (old || second) && dropped.acted.iter().eq([Rule::ResetExact])
}

/// A segment with an older timestamp than that of a segment which passed before it and began at or before what its receiver had
/// acknowledged by then: the receiver has taken that one's timestamp and throws this one away as rule O.5 does (RFC 7323 sections 4.3 and 5.3),
/// unless the newer one was lost behind the scrubber; then the sender repeats both.
fn is_overtaken(dropped: &Passed, all: &[Passed]) -> bool {
    struct Segment {
        ends: [(IpAddr, u16); 2],
        seq: u32,
        ack: Option<u32>,
        stamp: Option<u32>,
    }
    let read = |passed: &Passed| {
        tcp(passed, |headers: &Headers, view: &Tcp<&[u8]>| Segment {
            ends: [(headers.src, view.src_port()), (headers.dst, view.dst_port())],
            seq: view.seq(),
            ack: view.flags().contains(Flags::ACK).then(|| view.ack()),
            stamp: view.options().flatten().find_map(|option| match option {
                TcpOption::Timestamps { value, .. } => Some(value),
                _ => None,
            }),
        })
    };
    let Some(Segment { ends, stamp: Some(stamp), .. }) = read(dropped) else { return false };
    let at_most = |number: u32, other: u32| other.wrapping_sub(number) < 1 << 31;
    let mut acknowledged: Option<u32> = None;
    let before = all.iter().take_while(|passed| !std::ptr::eq(*passed, dropped));
    let newer = before.filter(|passed| passed.after.is_some()).filter_map(read).any(|segment| {
        if segment.ends == [ends[1], ends[0]] {
            let ack = segment.ack.filter(|ack| acknowledged.is_none_or(|most| at_most(most, *ack)));
            acknowledged = ack.or(acknowledged);
            return false;
        }
        let is_newer = segment.stamp.is_some_and(|other| other != stamp && at_most(stamp, other));
        segment.ends == ends && is_newer && acknowledged.is_some_and(|most| at_most(segment.seq, most))
    });
    dropped.acted.iter().eq([Rule::OptionTimestamps]) && newer
}

/// Each rule in its one way: Q.6 only the window, which grows; Q.9 only data, of which the rest is as it was; O.4 only options.
fn only_as_listed(rules: &[&str], passed: &Passed, after: &[u8]) {
    let left = Passed { before: after.to_vec(), ..passed.clone() };
    let read = |passed: &Passed| {
        let read = tcp(passed, |headers, view| {
            let options = passed.packet()[40..].len() - view.payload().len();
            let rest =
                (headers.ttl, headers.tos, view.ack(), view.flags().contains(Flags::ACK), view.src_port());
            (rest, view.window(), view.seq(), view.payload().to_vec(), options)
        });
        read.expect("a segment")
    };
    let (rest, window, seq, data, options) = read(passed);
    let (new_rest, new_window, new_seq, new_data, new_options) = read(&left);
    assert_eq!(rest, new_rest, "{passed:02x?}");
    assert!(if rules.contains(&"Q.6") { new_window > window } else { new_window == window }, "{passed:02x?}");
    if rules.contains(&"Q.9") {
        let skipped = new_seq.wrapping_sub(seq) as usize;
        assert!(
            new_data.is_empty() || data.get(skipped..) == Some(&new_data[..]),
            "other octets: {passed:02x?}"
        );
    } else {
        assert_eq!((seq, data), (new_seq, new_data), "{passed:02x?}");
    }
    assert!(new_options == options || rules.contains(&"O.4"), "{passed:02x?}");
}

fn table(lines: &[Line]) -> String {
    let mut out = String::from(
        "| traffic | packets | changed by rule | useless to the receiver, dropped | other drops |\n|---|---|---|---|---|\n",
    );
    let list = |rules: &BTreeMap<&str, usize>| {
        rules.iter().map(|(rule, count)| format!("{rule}: {count}")).collect::<Vec<_>>().join(", ")
    };
    for Line { name, packets, changed, useless } in lines {
        let _ = writeln!(out, "| {name} | {packets} | {} | {} | 0 |", list(changed), list(useless));
    }
    out
}

fn middle(path: &Path) -> Middle {
    Middle::build("ravelin-honest", path, Config::new(Profile::Standard)).unwrap()
}

#[test]
fn honest_traffic_passes_as_it_is() {
    let (alice, bob) = (Host::Alice.v4().to_string(), Host::Bob.v4().to_string());
    let scratch = Scratch::new("honest");
    let mut lines = Vec::new();

    // A straight path: unmodified programs, many short connections, ends of every kind.
    let plain = middle(&Path::default());
    let _sink = serve(&plain, python(SINK).arg(PORT.to_string()), PORT);
    upload(&plain, &bob, 4_000_000, None);
    upload(&plain, &Host::Bob.v6().to_string(), 1_000_000, None);
    lines.push(judge("bulk over IPv4 and IPv6, with SACK and timestamps", &plain));
    upload(&plain, &bob, 1_000_000, Some(u32::MAX - 300_000));
    let wraps = |_: &Headers, view: &Tcp<&[u8]>| view.seq() < 300_000 && view.payload().len() > 1000;
    assert!(any(&plain, wraps), "no sequence number wrapped");
    lines.push(judge("sequence numbers that wrap", &plain));
    drop(plain);

    let plain = middle(&Path::default());
    let iperf = program("iperf3");
    let _server = serve(&plain, Program::new(&iperf).args(["-s"]), 5201);
    client(&plain, Program::new(&iperf).args(["-c", &bob, "-n", "8M", "-P", "4"]));
    client(&plain, Program::new(&iperf).args(["-c", &bob, "-n", "4M", "-R"]));
    client(&plain, Program::new(&iperf).args(["-c", &bob, "-u", "-b", "50M", "-n", "2M"]));
    lines.push(judge("iperf3: four at once, backwards, UDP", &plain));
    drop(plain);

    let plain = middle(&Path::default());
    let file = scratch.join("file");
    std::fs::write(&file, vec![b'x'; 1_000_000]).unwrap();
    let folder = scratch.to_string_lossy().into_owned();
    let server = Program::new(program("python3")).args(["-m", "http.server", "8080", "-d", &folder]);
    let _server = serve(&plain, server, 8080);
    let url = format!("http://{bob}:8080/file");
    let mut curl = Program::new(program("curl")).args(["-sS", "--fail", "-w", "%{size_download}\n"]);
    for _ in 0..10 {
        curl = curl.args(["-o", "/dev/null", &url]);
    }
    assert_eq!(client(&plain, curl), "1000000\n".repeat(10));
    lines.push(judge("HTTP: curl and Python's server", &plain));
    drop(plain);

    let plain = middle(&Path::default());
    let _server = serve(&plain, python(TCP_SERVER).arg(PORT.to_string()), PORT);
    assert!(client(&plain, python(TCP_CLIENT).args([&bob, &PORT.to_string()])).ends_with("done\n"));
    lines.push(judge("keepalives, close and reset by either side, refusals", &plain));
    drop(plain);

    // A receiver that does not read.
    let plain = middle(&Path::default());
    let gate = scratch.join("gate");
    let _sink = serve(&plain, python(SINK).args([PORT.to_string()]).arg(&gate), PORT);
    let args = [bob.clone(), PORT.to_string(), 8_000_000.to_string()];
    let sender = plain.lab.alice().spawn(python(UPLOAD).args(args)).unwrap();
    wait_until("a window of zero", PATIENCE, || {
        any(&plain, |headers, view| {
            headers.dst.to_string() == alice && view.window() == 0 && !view.flags().contains(Flags::RST)
        })
    });
    std::fs::write(&gate, "").unwrap();
    assert_eq!(sender.finish(PATIENCE).unwrap().out(), "same\n");
    lines.push(judge("a window of zero", &plain));
    drop(plain);

    // A path that loses and reorders.
    let bad = middle(&Path { lost: 10, overtaken: 30, ..Path::default() });
    let _sink = serve(&bad, python(SINK).arg(PORT.to_string()), PORT);
    upload(&bad, &bob, 2_000_000, None);
    let (key, config) = ssh::files(&scratch);
    let sshd = Program::new(program("sshd")).args(["-D", "-e", "-p", "2222", "-f"]).arg(&config);
    let _sshd = serve(&bad, sshd, 2222);
    let said = client(&bad, ssh::session(&program("ssh"), &key, 2222));
    assert!(said.starts_with("through\n300000\n"), "{}", said.len());
    lines.push(judge("bulk and ssh, 1 % lost on each side, 3 % out of order", &bad));
    drop(bad);

    for (name, path) in [
        ("ECN", Path { ecn: true, lost: 5, ..Path::default() }),
        ("jumbo frames of 9000 octets", Path { mtu: 9000, ..Path::default() }),
        ("frames with a VLAN tag", Path { vlan: Some(7), ..Path::default() }),
    ] {
        let special = middle(&path);
        let _sink = serve(&special, python(SINK).arg(PORT.to_string()), PORT);
        upload(&special, &bob, 2_000_000, None);
        assert_eq!(any(&special, |headers, _| headers.tos & 3 == 2), path.ecn, "ECN in data");
        let long = special.look(|seen| seen.passed.iter().any(|passed| passed.packet().len() > 8000));
        assert_eq!(long, path.mtu == 9000, "jumbo frames");
        lines.push(judge(name, &special));
    }
    // How many packets there are is the programs' and the weather's business.
    document::check("honest", &table(&lines), |row| row.split('|').nth(1).unwrap_or_default().to_owned());
}
