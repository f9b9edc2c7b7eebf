//! `paper-003.*`: the measurements of paper 003 section III.C again, and what it left out, each with everything in place in turn that can
//! stand between two hosts ([`crate::paper::between`]): five rounds, so that a drift of the machine is in all of them.
//!
//! - `bulk.{super,mtu}.{middle}.gbit`: one TCP connection, as the hosts send (super-packets), or with frames of 1500 octets, which the
//!   middle may join (Table I without its cable). `.of_forward`, and of a line `.of_bare`: ratios of a round.
//! - `cable.{middle}.mbit`: the same over cables of 100 Mbit/s (Table I).
//! - `round.{octets}.{middle}.us`: round trip of so many octets on one connection, mean; `.sd` its deviation (Table II measured in the
//!   kernel; `core.{octets}.ns` is that of the scrubber alone).
//! - `pages.{clients}.{middle}.per_s`: pages of 1 kB, a connection each (Figure 6a). `.of_forward` at the most clients.
//! - `loss.{percent}.{middle}.per_s`: the same for 480 clients, with so much of everything lost outside, both ways (Figure 6b).
//! - `lossy.{middle}.gbit`: one long connection at 1 % loss, which the paper left out; `lossy.cable.{middle}.mbit`: the same over cables of
//!   500 Mbit/s, where all have the same to lose.
//!
//! - `flood.{kind}.of_control`: one connection over cables of 500 Mbit/s through the scrubber in line while 50,000 packets a second come to
//!   it: SYNs or first fragments without a second one, of spoofed sources; or segments of one octet that leave holes, of a connection. The
//!   control sends the same frames to where nobody hears them.
//!
//! The plots go to `docs/papers/003` when Cargo runs this.

use super::{FigureFilter, floods};
use crate::figure::{Figure, Report, Target};
use crate::flow;
use crate::paper::between::{Between, Middle, PORT};
use crate::paper::plot::{Mark, Plot};
use crate::product;
use crate::stage::{program, succeeded};
use anyhow::Context;
use lab::{Program, Running, Side, Transport};
use netio::link::Links;
use netio::packet::{Flooder, FrameDevice};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const ROUNDS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(120);
/// Clients at once, as in the paper's Figure 6a and at its left end.
const CLIENTS: [usize; 5] = [1, 10, 60, 240, 480];
const MANY: usize = 480;
const LOSS: [u32; 6] = [0, 1, 2, 4, 7, 10];
const SECONDS: &str = "2";
/// Octets of a round trip, and how many trips.
const OCTETS: [usize; 2] = [1, 1400];
const TRIPS: &str = "3000";
/// A cable of the paper.
const CABLE: &str = "100mbit";
/// One on which a lost packet is what slows a connection, and no processor.
const LOSSY_CABLE: &str = "500mbit";

/// Values of the rounds by the figure's name, and the figure's unit.
type Values = BTreeMap<String, (&'static str, Vec<f64>)>;

struct Programs {
    iperf3: PathBuf,
    own: PathBuf,
}

/// Measure the parts of paper 003 whose names hold `filter`, or are held by it.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let figures = FigureFilter { filter, report };
    let programs = Programs { iperf3: program("iperf3")?, own: product::own()? };
    eprintln!("paper-003: setting up");
    let mut between = Between::build("paper-003")?;
    let mut values = Values::new();
    let mut there: Vec<Middle> = Middle::ALL.to_vec();
    for round in 1..=ROUNDS {
        for (name, part) in PARTS {
            if !filter.is_empty() && !filter.contains(name) && !name.contains(filter) {
                continue;
            }
            there.retain(|middle| {
                eprintln!("paper-003: round {round} of {ROUNDS}, {name}: {}", middle.title());
                let measured = between.put(*middle).and_then(|()| part(&between, *middle, &programs));
                match measured {
                    Ok(measured) => {
                        for (name, unit, value) in measured {
                            let name = format!("paper-003.{name}");
                            values.entry(name).or_insert((unit, Vec::new())).1.push(value);
                        }
                        true
                    }
                    Err(error) => {
                        eprintln!("paper-003: {} is absent: {error:#}", middle.title());
                        figures
                            .report
                            .absent(format!("paper-003.{name}.{}", middle.name()), format!("{error:#}"));
                        // Without a proxy there is still everything else.
                        !middle.is_proxy()
                    }
                }
            });
        }
    }
    let _ = between.lose(0);
    for (name, (unit, rounds)) in &values {
        figures.report.push(Figure::new(name.clone(), unit, rounds, "", Target::Recorded));
    }
    for figure in ratios(&values) {
        figures.report.push(figure);
    }
    if filter.is_empty() {
        plots(figures.report)?;
    }
    Ok(())
}

/// What one part measured: names behind `paper-003.`, units, values.
type Measured = Vec<(String, &'static str, f64)>;
type Part = fn(&Between, Middle, &Programs) -> anyhow::Result<Measured>;

const PARTS: [(&str, Part); 7] = [
    ("bulk", bulk),
    ("cable", cable),
    ("round", round_trips),
    ("pages", pages),
    ("loss", loss),
    ("lossy", lossy),
    ("flood", flood),
];

/// One connection by iperf3, in Gbit/s.
fn transfer(between: &Between, middle: Middle, programs: &Programs) -> anyhow::Result<f64> {
    let lab = &between.rig().lab;
    let (to, _) = between.way(middle);
    let port = PORT.to_string();
    let serve = Program::new(&programs.iperf3).args(["-s", "-1", "-p", &port]);
    let mut server = lab.bob().spawn(serve)?;
    lab.bob().wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE)?;
    let ask = ["-c", &to.ip().to_string(), "-p", &port, "-t", SECONDS, "-J"];
    let done = lab.alice().run_program(Program::new(&programs.iperf3).args(ask), PATIENCE)?;
    let answer = succeeded("iperf3", &done)?;
    server.finish(PATIENCE)?;
    Ok(flow::delivered(&answer)?.gbit)
}

fn bulk(between: &Between, middle: Middle, programs: &Programs) -> anyhow::Result<Measured> {
    let hosts = [between.rig().lab.alice(), between.rig().lab.bob()];
    let mut measured = Vec::new();
    for (word, on) in [("super", true), ("mtu", false)] {
        hosts.iter().try_for_each(|host| host.set_segmentation(on))?;
        let gbit = transfer(between, middle, programs);
        hosts.iter().try_for_each(|host| host.set_segmentation(true))?;
        measured.push((format!("bulk.{word}.{}.gbit", middle.name()), "Gbit/s", gbit?));
    }
    Ok(measured)
}

/// Table I: cables of 100 Mbit/s on both sides.
fn cable(between: &Between, middle: Middle, programs: &Programs) -> anyhow::Result<Measured> {
    let gbit = over(between, CABLE, || transfer(between, middle, programs))?;
    Ok(vec![(format!("cable.{}.mbit", middle.name()), "Mbit/s", gbit * 1000.0)])
}

/// Measure with cables of this rate on both sides.
fn over(between: &Between, rate: &str, measure: impl FnOnce() -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let shape = format!("tc qdisc replace dev eth0 root tbf rate {rate} burst 128kb latency 50ms");
    for side in Side::BOTH {
        between.host(side, &shape).with_context(|| format!("a cable of {rate} (tc, sch_tbf)"))?;
    }
    let measured = measure();
    for side in Side::BOTH {
        between.host(side, "tc qdisc del dev eth0 root")?;
    }
    measured
}

/// One of `bench load`'s servers on bob.
fn serve(between: &Between, programs: &Programs, kind: &str) -> anyhow::Result<Running> {
    let bob = between.rig().lab.bob();
    let address = format!("0.0.0.0:{PORT}");
    let mut server = bob.spawn(Program::new(&programs.own).args(["load", kind, &address]))?;
    bob.wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE)?;
    Ok(server)
}

/// What one of `bench load`'s clients on alice printed: numbers.
fn ask(between: &Between, programs: &Programs, args: &[&str]) -> anyhow::Result<Vec<f64>> {
    let client = Program::new(&programs.own).arg("load").args(args);
    let done = between.rig().lab.alice().run_program(client, PATIENCE)?;
    let said = succeeded(args[0], &done)?;
    said.split_whitespace().map(|word| word.parse().with_context(|| said.clone())).collect()
}

/// Table II, from end to end.
fn round_trips(between: &Between, middle: Middle, programs: &Programs) -> anyhow::Result<Measured> {
    let _server = serve(between, programs, "echo")?;
    let to = between.way(middle).0.to_string();
    let mut measured = Vec::new();
    for octets in OCTETS {
        let said = ask(between, programs, &["rounds", &to, &octets.to_string(), TRIPS])?;
        let [mean, deviation] = said.as_slice() else { anyhow::bail!("rounds said {said:?}") };
        let name = format!("round.{octets}.{}", middle.name());
        measured.push((format!("{name}.us"), "us", *mean));
        measured.push((format!("{name}.sd"), "us", *deviation));
    }
    Ok(measured)
}

/// Pages a second for so many clients.
fn rate(between: &Between, middle: Middle, programs: &Programs, clients: usize) -> anyhow::Result<f64> {
    let (to, sources) = between.way(middle);
    let mut args = vec!["clients".to_owned(), to.to_string(), clients.to_string(), SECONDS.to_owned()];
    args.extend(sources.iter().map(ToString::to_string));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = ask(between, programs, &args)?;
    said.first().copied().context("clients said nothing")
}

/// Requests a second by number of clients (paper 003, Figure 6a).
fn pages(between: &Between, middle: Middle, programs: &Programs) -> anyhow::Result<Measured> {
    let _server = serve(between, programs, "pages")?;
    let one = |clients: &usize| {
        let rate = rate(between, middle, programs, *clients)?;
        Ok((format!("pages.{clients}.{}.per_s", middle.name()), "1/s", rate))
    };
    CLIENTS.iter().map(one).collect()
}

/// Requests a second by packet loss in percent (paper 003, Figure 6b).
fn loss(between: &Between, middle: Middle, programs: &Programs) -> anyhow::Result<Measured> {
    if middle.is_proxy() {
        return Ok(Vec::new());
    }
    let _server = serve(between, programs, "pages")?;
    let one = |percent: &u32| {
        between.lose(*percent)?;
        let rate = rate(between, middle, programs, MANY);
        between.lose(0)?;
        Ok((format!("loss.{percent}.{}.per_s", middle.name()), "1/s", rate?))
    };
    LOSS.iter().map(one).collect()
}

/// A long connection at 1 % loss.
fn lossy(between: &Between, middle: Middle, programs: &Programs) -> anyhow::Result<Measured> {
    if middle.is_proxy() {
        return Ok(Vec::new());
    }
    between.lose(1)?;
    let gbit = transfer(between, middle, programs);
    let cable = over(between, LOSSY_CABLE, || transfer(between, middle, programs));
    between.lose(0)?;
    let name = middle.name();
    Ok(vec![
        (format!("lossy.{name}.gbit"), "Gbit/s", gbit?),
        (format!("lossy.cable.{name}.mbit"), "Mbit/s", cable? * 1000.0),
    ])
}

/// What comes beside an honest connection.
const FLOODS: [&str; 3] = ["syn", "fragment", "small"];
const FLOOD_RATE: u64 = 50_000;
/// Longer than a transfer takes with all that belongs to it.
const FLOOD_TIME: Duration = Duration::from_secs(4);
/// A device of alice's whose other end drops everything.
const NOWHERE: &str = "ip link del nowhere 2>/dev/null || true
ip link add nowhere type veth peer name nowhere1
ip link set nowhere up
ip link set nowhere1 up
nft delete table netdev nowhere 2>/dev/null || true
nft 'add table netdev nowhere'
nft 'add chain netdev nowhere sink { type filter hook ingress device nowhere1 priority 0; policy drop; }'
";
/// Takes one connection and reads nothing.
const TAKER: &str = "import socket, sys, time\ns = socket.create_server(('', int(sys.argv[1])))\n\
                     print('ready', flush=True)\nc = s.accept()\ntime.sleep(60)";
/// Opens it, says its port and both numbers that come next (`TCP_REPAIR` tells them), and sends nothing.
const HOLDER: &str = "import socket, sys, time\ns = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n\
                      s.setsockopt(6, 19, 1)\ndef number(queue):\n  s.setsockopt(6, 20, queue)\n  \
                      return s.getsockopt(6, 21) & 0xffffffff\nprint(s.getsockname()[1], number(2), number(1), 'held', flush=True)\n\
                      s.setsockopt(6, 20, 0)\ns.setsockopt(6, 19, -1)\ntime.sleep(60)";

/// A connection of the flooder's own, for segments that leave holes.
struct OpenConnections {
    crumbs: floods::Crumbs,
    ends: [Running; 2],
}

impl OpenConnections {
    /// Open a connection without timestamps, which each segment would have to have.
    fn open(between: &Between) -> anyhow::Result<OpenConnections> {
        let (python, lab) = (program("python3")?, &between.rig().lab);
        let port = (PORT + 1).to_string();
        let taker = lab.bob().spawn(Program::new(&python).args(["-u", "-c", TAKER, &port]))?;
        taker.wait_for_output("ready", PATIENCE)?;
        let stamps = |on: u8| between.host(Side::Alice, &format!("sysctl -qw net.ipv4.tcp_timestamps={on}"));
        stamps(0)?;
        let to = Side::Bob.v4().to_string();
        let holder = lab.alice().spawn(Program::new(&python).args(["-u", "-c", HOLDER, &to, &port]))?;
        let held = holder.wait_for_output("held", PATIENCE);
        stamps(1)?;
        held?;
        let said = holder.output();
        let mut words = said.split_whitespace();
        let mut word = || words.next().context("the holder's words");
        let (from, seq, ack) = (word()?.parse()?, word()?.parse()?, word()?.parse()?);
        let crumbs = floods::Crumbs { ports: [from, PORT + 1], seq, ack };
        Ok(OpenConnections { crumbs, ends: [holder, taker] })
    }

    fn close(self) -> anyhow::Result<()> {
        self.ends.into_iter().try_for_each(|end| end.kill().map(drop))?;
        Ok(())
    }
}

/// A flood through the scrubber, and the same flood elsewhere.
fn flood(between: &Between, middle: Middle, programs: &Programs) -> anyhow::Result<Measured> {
    if middle != Middle::Scrub {
        return Ok(Vec::new());
    }
    between.host(Side::Alice, NOWHERE)?;
    let lab = &between.rig().lab;
    let [alice, bob] = [floods::device(lab.alice())?.station, floods::device(lab.bob())?.station];
    let mut measured = Vec::new();
    for kind in FLOODS {
        let held = (kind == "small").then(|| OpenConnections::open(between)).transpose()?;
        let crumbs = held.as_ref().map(|held| held.crumbs);
        for (word, device) in [("control", "nowhere"), ("flood", "eth0")] {
            let send = || -> anyhow::Result<_> {
                lab.alice().run(|| {
                    let device = FrameDevice::of(Links::open()?.index(device)?)?;
                    let mut flooder = Flooder::open(&device)?;
                    let frame = |number, out: &mut _| match crumbs {
                        Some(crumbs) => crumbs.frame(number, bob, alice, out),
                        None => floods::stray(kind == "syn", number, bob, alice, out),
                    };
                    anyhow::Ok(flooder.run(FLOOD_RATE, FLOOD_TIME, frame)?)
                })?
            };
            let (sent, gbit) = std::thread::scope(|scope| {
                let sending = scope.spawn(send);
                let gbit = over(between, LOSSY_CABLE, || transfer(between, middle, programs));
                (sending.join(), gbit)
            });
            let sent = sent.map_err(|_| anyhow::anyhow!("the flood broke off"))??;
            let rate = sent.sent as f64 / sent.elapsed.as_secs_f64();
            measured.push((format!("flood.{kind}.{word}.mbit"), "Mbit/s", gbit? * 1000.0));
            measured.push((format!("flood.{kind}.{word}.rate"), "1/s", rate));
        }
        held.map(OpenConnections::close).transpose()?;
    }
    between.host(Side::Alice, "nft 'delete table netdev nowhere'\nip link del nowhere")?;
    Ok(measured)
}

/// The figures that are judged: ratios within a round.
fn ratios(values: &Values) -> Vec<Figure> {
    let of = |name: &str| values.get(&format!("paper-003.{name}")).map(|(_, rounds)| rounds);
    let mut out = Vec::new();
    let mut ratio = |name: &str, above: &str, below: &str, target: Target| {
        let (Some(above), Some(under)) = (of(above), of(below)) else { return };
        let rounds: Vec<f64> = above.iter().zip(under).map(|(above, below)| above / below).collect();
        if !rounds.is_empty() {
            out.push(Figure::new(format!("paper-003.{name}"), "ratio", &rounds, below, target));
        }
    };
    for word in ["super", "mtu"] {
        let name = |middle: Middle| format!("bulk.{word}.{}.gbit", middle.name());
        let [forward, bare, scrub] = [Middle::Forward, Middle::Bare, Middle::Scrub].map(name);
        ratio(&format!("bulk.{word}.scrub.of_bare"), &scrub, &bare, Target::AtLeast(0.9));
        ratio(&format!("bulk.{word}.scrub.of_forward"), &scrub, &forward, Target::Recorded);
    }
    let name = |middle: Middle| format!("pages.{MANY}.{}.per_s", middle.name());
    for (middle, target) in [
        (Middle::Forward, Target::Recorded),
        (Middle::Bare, Target::AtLeast(0.9)),
        (Middle::HaProxy, Target::AtLeast(1.4)),
        (Middle::Socat, Target::AtLeast(3.0)),
    ] {
        ratio(&format!("pages.scrub.of_{}", middle.name()), &name(Middle::Scrub), &name(middle), target);
    }
    // Without a cable it is the processors that are compared, as in `bulk`.
    ratio("lossy.scrub.of_forward", "lossy.scrub.gbit", "lossy.forward.gbit", Target::Recorded);
    let [scrub, forward] = ["lossy.cable.scrub.mbit", "lossy.cable.forward.mbit"];
    ratio("lossy.cable.scrub.of_forward", scrub, forward, Target::AtLeast(0.95));
    for kind in FLOODS {
        let [flooded, control] = ["flood", "control"].map(|word| format!("flood.{kind}.{word}.mbit"));
        ratio(&format!("flood.{kind}.of_control"), &flooded, &control, Target::AtLeast(0.95));
    }
    out
}

/// `docs/papers/003` of the workspace when Cargo started us, of the current folder otherwise.
fn folder() -> PathBuf {
    let workspace = std::env::var_os("CARGO_MANIFEST_DIR").map(|crate_| PathBuf::from(crate_).join(".."));
    workspace.unwrap_or_default().join("docs/papers/003")
}

fn plots(report: &Report) -> anyhow::Result<()> {
    let mark = |name: String| {
        let figure = report.figures().iter().find(|figure| figure.name == format!("paper-003.{name}"))?;
        Some(Mark { min: figure.min, value: figure.value, max: figure.max })
    };
    let by_middle = |categories: &[String], name: &dyn Fn(&str, Middle) -> String| {
        let series = Middle::ALL.into_iter().map(|middle| {
            let marks = categories.iter().map(|category| mark(name(category, middle))).collect::<Vec<_>>();
            (middle.title().to_owned(), marks)
        });
        series.filter(|(_, marks)| marks.iter().any(Option::is_some)).collect::<Vec<_>>()
    };
    let words = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>();
    let clients: Vec<String> = CLIENTS.iter().map(usize::to_string).collect();
    let loss = words(&LOSS);
    let bulk = ["super".to_owned(), "mtu".to_owned()];
    let drawn = [
        (
            "figure-6a",
            "Figure 6a: pages of 1 kB, a connection each",
            "connections a second",
            clients.iter().map(|count| format!("{count} clients")).collect(),
            by_middle(&clients, &|count, middle| format!("pages.{count}.{}.per_s", middle.name())),
        ),
        (
            "figure-6b",
            "Figure 6b: the same for 480 clients with loss, both ways",
            "connections a second",
            loss.iter().map(|percent| format!("{percent} % lost")).collect(),
            by_middle(&loss, &|percent, middle| format!("loss.{percent}.{}.per_s", middle.name())),
        ),
        (
            "table-1",
            "Table I without its cable: one connection",
            "goodput, Gbit/s",
            vec!["super-packets".to_owned(), "frames of 1500 octets".to_owned()],
            by_middle(&bulk, &|word, middle| format!("bulk.{word}.{}.gbit", middle.name())),
        ),
    ];
    for (name, title, axis, categories, series) in drawn {
        let path = folder().join(format!("{name}.svg"));
        let categories = categories.iter().map(String::as_str).collect();
        Plot { title, axis, log: false, categories, series }.write(&path)?;
        eprintln!("paper-003: plot in {}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_rounds() {
        let mut values = Values::new();
        values.insert("paper-003.lossy.cable.scrub.mbit".to_owned(), ("Mbit/s", vec![1.0, 4.0, 3.0]));
        values.insert("paper-003.lossy.cable.forward.mbit".to_owned(), ("Mbit/s", vec![2.0, 4.0, 4.0]));
        let figures = ratios(&values);
        let [figure] = figures.as_slice() else { panic!("{figures:?}") };
        assert_eq!(
            (figure.name.as_str(), figure.value, figure.min),
            ("paper-003.lossy.cable.scrub.of_forward", 0.75, 0.5)
        );
        assert!(!figure.ok);
    }
}
