//! Four answers about each of many random (policy, flow) pairs must be one: `ravelin policy explain`, the userspace decision,
//! the kernel's own (its `decide`, asked by BPF_PROG_TEST_RUN in the maps that a load filled), and the paper's translation by
//! socket. Needs root.
//!
//! `RAVELIN_AGREE` says how many pairs (default 5000, `make soak-agree` 100,000), `RAVELIN_AGREE_SEED` which.

pub mod random;

use crate::common;

use std::path::Path;
use std::sync::Arc;

use common::World;
use libbpf_rs::{Object, ObjectBuilder, ProgramInput};
use policy::{AppTable, Compiled};
use random::{Parts, Random, block, flow, has_ports, selectors};
use sadb::per_socket::{Call, PacketDirection};
use sadb::spd::{Action, Decision, DecisionReason, Level, Spd};
use sadb::{EntryLimits, PerSocket, Selectors, SocketEvent};
use sockmon::abi;
use wire::{AppId, Flow, Services, Time, addr};

static ASK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ask.bpf.o"));

/// Blocks of one load, and flows of each block.
const BLOCKS: usize = 40;
const FLOWS: usize = 50;

/// What all four must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The flow is in no network, or in a trusted one.
    Clear,
    /// An item says that the flow is clear.
    Never,
    /// The flow is in an untrusted network.
    Untrusted,
    /// The flow is in a protected network, and no item matches.
    NoItem,
    Protect(&'static str, &'static str),
}

fn of_decision(decision: &Decision) -> Verdict {
    match (decision.action, decision.why) {
        (Action::Bypass, DecisionReason::Item) => Verdict::Never,
        (Action::Bypass, _) => Verdict::Clear,
        (Action::Discard, DecisionReason::NoItem) => Verdict::NoItem,
        (Action::Discard, _) => Verdict::Untrusted,
        (Action::Protect { services, level }, _) => {
            let service = if services == Services::ENCRYPTED { "encryption" } else { "authentication" };
            let level = match level {
                Level::Mandatory => "mandatory",
                Level::Optional => "optional",
                Level::AcceptOnly => "accept-only",
            };
            Verdict::Protect(service, level)
        }
    }
}

/// What `ravelin policy explain` says of the flow, by its words alone.
fn explained(compiled: &Compiled, application: &str, flow: &Flow) -> Verdict {
    let said = policy::explain(compiled, application, flow);
    let word = |word: &Option<String>, all: [&'static str; 3]| {
        all.into_iter().find(|known| word.as_deref() == Some(known)).unwrap_or("nothing known")
    };
    match said.verdict {
        policy::Verdict::Bypass if said.item.is_some() => Verdict::Never,
        policy::Verdict::Bypass => Verdict::Clear,
        policy::Verdict::Discard if said.protection.is_some() => Verdict::NoItem,
        policy::Verdict::Discard => Verdict::Untrusted,
        policy::Verdict::Protect => Verdict::Protect(
            word(&said.service, ["encryption", "authentication", ""]),
            word(&said.level, ["mandatory", "optional", "accept-only"]),
        ),
    }
}

/// What the entries say that the calls of a socket with this flow make; `None`: there is no entry.
fn translated(spd: &Arc<Spd>, app: AppId, flow: &Flow) -> Vec<Option<Verdict>> {
    let now = Time::default();
    let ask = |calls: &[Call], way, socket: Option<u64>| {
        let mut table = PerSocket::new(Arc::clone(spd), EntryLimits::default());
        for call in calls {
            table.apply(&SocketEvent { socket: 1, app, call: *call, flow: *flow, now });
        }
        table.decide(way, app, socket, flow, now).map(|decision| of_decision(&decision))
    };
    match flow.protocol {
        6 => vec![
            ask(&[Call::Connect], PacketDirection::Out, Some(1)),
            ask(&[Call::Listen], PacketDirection::In, None),
        ],
        17 => vec![
            ask(&[Call::SendTo], PacketDirection::Out, Some(1)),
            ask(&[Call::RecvFrom], PacketDirection::In, None),
        ],
        _ => vec![ask(&[Call::SendTo], PacketDirection::Out, Some(1))],
    }
}

/// The kernel half with a program that asks it.
struct Kernel {
    world: World,
    object: Object,
}

impl Kernel {
    fn new(name: &str) -> Kernel {
        let mut world = World::new(name);
        world.attach();
        let pins = Path::new("/sys/fs/bpf/ravelin").join(&world.name);
        let mut object = ObjectBuilder::default().open_memory(ASK).expect("the object");
        for mut map in object.maps_mut() {
            let pin = pins.join(map.name());
            // Maps that `decide` reads; the others are not asked.
            if ["config", "applications", "networks", "protections", "live_sa"]
                .iter()
                .any(|known| map.name() == *known)
            {
                map.reuse_pinned_map(&pin).expect("the kernel half's map");
            } else if !map.name().to_string_lossy().contains('.') {
                map.set_autocreate(false).expect("a map that is not needed");
            }
        }
        Kernel { object: object.load().expect("these tests need root"), world }
    }

    fn load(&mut self, spd: &Spd) {
        let warnings = self
            .world
            .sockmon()
            .load_policy(spd, &sockmon::Subjects::default(), &[])
            .expect("load the policy");
        assert_eq!(warnings, []);
    }

    /// The kernel half's verdict, and whether that is only watched: clear then.
    fn ask(&mut self, app: AppId, flow: &Flow) -> (Verdict, bool) {
        let (verdict, observed, _) = self.ask_whole(app, flow);
        (verdict, observed)
    }

    /// The answers of [`Kernel::ask`], and whether the flow is refused if it arrives in clear.
    fn ask_whole(&mut self, app: AppId, flow: &Flow) -> (Verdict, bool, bool) {
        let mut question = [0u8; 62];
        question[44..60].copy_from_slice(&addr::to_bits(flow.local).to_be_bytes());
        question[16..32].copy_from_slice(&addr::to_bits(flow.remote).to_be_bytes());
        question[32..34].copy_from_slice(&app.0.to_ne_bytes());
        if has_ports(flow.protocol) {
            question[34..36].copy_from_slice(&flow.local_port.to_ne_bytes());
            question[36..38].copy_from_slice(&flow.remote_port.to_ne_bytes());
        }
        question[38] = flow.protocol;
        let program = self.object.progs_mut().find(|program| program.name() == "ask").expect("the program");
        let mut answer = [0u8; 62];
        let input =
            ProgramInput { data_in: Some(&question), data_out: Some(&mut answer), ..ProgramInput::default() };
        let output = program.test_run(input).expect("BPF_PROG_TEST_RUN");
        assert_eq!((output.return_value, answer[42]), (0, 1), "no answer");
        let service = if answer[40] & 2 != 0 { "encryption" } else { "authentication" };
        let verdict = match (answer[39], answer[41]) {
            (0, _) => Verdict::Clear,
            (1, _) => Verdict::Untrusted,
            (2, _) => Verdict::NoItem,
            (3, 1) => Verdict::Protect(service, "mandatory"),
            (3, 2) => Verdict::Protect(service, "optional"),
            (3, 3) => Verdict::Protect(service, "accept-only"),
            (4, 4) => Verdict::Never,
            other => panic!("the kernel says {other:?}"),
        };
        (verdict, answer[60] == 1, answer[43] != 0)
    }

    /// Whether what it says of clear text that arrives is what these associations mean. With more of them at one peer than it
    /// tells apart, and for types of ICMP, it may refuse more.
    fn sticks(&mut self, app: AppId, flow: &Flow, live: &[Selectors]) -> Option<String> {
        let (verdict, observed, refused) = self.ask_whole(app, flow);
        let covers = |sa: &&Selectors| sa.covers(flow) && sa.serves(app);
        let covered = live.iter().find(covers);
        let wanted = match verdict {
            _ if observed => false,
            Verdict::Clear | Verdict::Never => false,
            Verdict::Untrusted | Verdict::NoItem | Verdict::Protect(_, "mandatory") => true,
            Verdict::Protect(..) => covered.is_some(),
        };
        let met = live.iter().filter(|sa| sa.remote.contains(flow.remote)).count();
        // The kernel half does not look at types.
        let typed = |sa: &Selectors| {
            sa.protocol == Some(flow.protocol)
                && [sa.local_ports, sa.remote_ports] != [Selectors::ANY.local_ports; 2]
        };
        let blurred = matches!(flow.protocol, 1 | 58) && live.iter().any(typed);
        let exact = met <= abi::LIVE_EACH && !blurred || !matches!(verdict, Verdict::Protect(..));
        let agrees = if exact { refused == wanted } else { refused || !wanted };
        (!agrees).then(|| {
            format!("{flow} {verdict:?}: in clear refused {refused}, covered by {covered:?} of {met}")
        })
    }
}

type Userspace = fn(&Spd, AppId, &Flow) -> Verdict;

fn engine(spd: &Spd, app: AppId, flow: &Flow) -> Verdict {
    of_decision(&spd.decide(app, flow))
}

/// The answers about a flow where they are not one, in words.
fn disagreement(
    kernel: &mut Kernel,
    compiled: &Compiled,
    spd: &Arc<Spd>,
    name: &str,
    flow: &Flow,
    userspace: Userspace,
) -> Option<String> {
    let app = compiled.applications.iter().find(|app| app.name == name).expect("a sound block").id;
    let said = userspace(spd, app, flow);
    let explained = explained(compiled, name, flow);
    let decided = kernel.ask(app, flow);
    let translated = translated(spd, app, flow);
    // What is only watched is clear to everybody, and would be the same to both who say what it would be.
    let would = compiled.would(app, flow).map(|(decision, _)| of_decision(&decision));
    let wanted = would.map_or((said, false), |would| (would, true));
    let one = explained == said
        && decided == wanted
        && (would.is_none() || said == Verdict::Clear)
        && translated.iter().all(|other| *other == Some(said));
    (!one).then(|| {
        format!("explain {explained:?}, userspace {said:?} (would be {would:?}), kernel {decided:?}, by socket (out, in) {translated:?}")
    })
}

fn compiled(text: &str) -> (Compiled, Arc<Spd>) {
    let parsed = policy::parse("random", text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    let compiled = policy::compile(&parsed, &mut AppTable::new(), 1);
    let spd = Arc::new(compiled.spd.clone());
    (compiled, spd)
}

/// The same disagreement with less around it: statements, then what the flow says, are left out while it stays one.
fn shrunk(kernel: &mut Kernel, mut parts: Parts, mut flow: Flow, userspace: Userspace) -> String {
    let mut still = |parts: &Parts, flow: &Flow| {
        let parsed = policy::parse("random", &parts.text("a"));
        if parsed.has_errors() {
            return None;
        }
        let (compiled, spd) = compiled(&parts.text("a"));
        kernel.load(&spd);
        disagreement(kernel, &compiled, &spd, "a", flow, userspace)
    };
    let mut said = still(&parts, &flow);
    loop {
        let mut smaller = Vec::new();
        for at in 0..parts.networks.len() {
            let mut less = parts.clone();
            less.networks.remove(at);
            smaller.push((less, flow));
        }
        for (which, items) in parts.protections.iter().enumerate() {
            for at in 0..items.len() {
                let mut less = parts.clone();
                less.protections[which].remove(at);
                smaller.push((less, flow));
            }
        }
        if parts.protections.len() > 1 {
            smaller.extend((0..parts.protections.len()).map(|kept| (parts.only(kept), flow)));
        }
        for plain in [
            Flow { local_port: 0, ..flow },
            Flow { remote_port: 0, ..flow },
            Flow { remote: flow.remote.to_canonical(), local: flow.local.to_canonical(), ..flow },
        ] {
            if plain != flow {
                smaller.push((parts.clone(), plain));
            }
        }
        let next = smaller.into_iter().find_map(|(parts, flow)| Some((still(&parts, &flow)?, parts, flow)));
        let Some((words, less, plain)) = next else { break };
        (said, parts, flow) = (Some(words), less, plain);
    }
    let said = said.unwrap_or_else(|| "not seen again: it depends on other blocks of the load".into());
    format!("{}flow {flow} (peer as the socket has it: {})\n{said}", parts.text("a"), flow.remote)
}

/// Compare so many pairs; the first disagreement, shrunk.
fn compare(kernel: &mut Kernel, seed: u64, pairs: usize, userspace: Userspace) -> Result<[usize; 5], String> {
    let mut random = Random::new(seed);
    let mut seen = [0; 5];
    let mut stuck = [0; 2];
    // Its own, so that the pairs stay those of the seed.
    let mut near = Random::new(!seed);
    let mut left = pairs;
    while left > 0 {
        let blocks: Vec<_> = (0..BLOCKS.min(left.div_ceil(FLOWS))).map(|_| block(&mut random)).collect();
        let text: String =
            blocks.iter().enumerate().map(|(i, (parts, _))| parts.text(&format!("a{i}"))).collect();
        let (compiled, spd) = compiled(&text);
        kernel.load(&spd);
        for (at, (parts, block)) in blocks.iter().enumerate() {
            let app = compiled.applications[at].id;
            let live: Vec<Selectors> = (0..near.below(12))
                .map(|_| {
                    let flow = flow(&mut near, block);
                    selectors(&mut near, app, &flow)
                })
                .collect();
            kernel.world.sockmon().set_live_sas(&live).unwrap();
            for _ in 0..FLOWS.min(left) {
                let flow = flow(&mut random, block);
                let name = format!("a{at}");
                if disagreement(kernel, &compiled, &spd, &name, &flow, userspace).is_some() {
                    return Err(shrunk(kernel, parts.clone(), flow, userspace));
                }
                // As it is known, and as one that an association may have been made for.
                for flow in [flow, live.first().map_or(flow, |sa| within(sa, &flow))] {
                    if let Some(found) = kernel.sticks(app, &flow, &live) {
                        return Err(format!("{found}\n{}{live:#?}", parts.text("a")));
                    }
                    stuck[usize::from(live.iter().any(|sa| sa.covers(&flow) && sa.serves(app)))] += 1;
                }
                seen[match engine(&spd, app, &flow) {
                    Verdict::Clear => 0,
                    Verdict::Never => 1,
                    Verdict::Untrusted => 2,
                    Verdict::NoItem => 3,
                    Verdict::Protect(..) => 4,
                }] += 1;
                left -= 1;
            }
        }
    }
    assert!(stuck.iter().all(|count| count * 20 > pairs), "covered by an association or not: {stuck:?}");
    Ok(seen)
}

/// The flow with the peer of an association.
fn within(sa: &Selectors, flow: &Flow) -> Flow {
    let remote = addr::from_bits(sa.remote.last());
    if remote.is_ipv4() != flow.local.to_canonical().is_ipv4() {
        return *flow;
    }
    let protocol = sa.protocol.unwrap_or(flow.protocol);
    let ports = if has_ports(protocol) { (flow.local_port, flow.remote_port) } else { (0, 0) };
    Flow { remote, protocol, local_port: ports.0, remote_port: ports.1, ..*flow }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

#[test]
fn four_answers_are_one() {
    let pairs = from_environment("RAVELIN_AGREE", 5000) as usize;
    let seed = from_environment("RAVELIN_AGREE_SEED", 2026);
    let mut kernel = Kernel::new("agree");
    let seen =
        compare(&mut kernel, seed, pairs, engine).unwrap_or_else(|found| panic!("seed {seed}:\n{found}"));
    let [clear, never, untrusted, no_item, protect] = seen;
    println!(
        "{pairs} pairs, seed {seed}: {clear} clear, {never} never, {untrusted} untrusted, {no_item} no item, {protect} protect"
    );
    // Pairs that all end alike would agree whatever was wrong.
    assert!(seen.iter().all(|count| count * 100 > pairs), "{seen:?}");
}

#[test]
fn a_disagreement_is_found_and_shrunk() {
    let mut kernel = Kernel::new("agree-broken");
    // A userspace that takes the end of a range of ports for the first one beyond it.
    let broken: Userspace = |spd, app, flow| {
        let said = engine(spd, app, flow);
        let at_end = spd.get(app).is_some_and(|policy| {
            policy
                .protections()
                .iter()
                .flatten()
                .any(|item| item.remote.last == flow.remote_port && item.remote.first < item.remote.last)
        });
        if at_end && matches!(said, Verdict::Protect(..)) && flow.remote_port != u16::MAX {
            Verdict::NoItem
        } else {
            said
        }
    };
    let found = compare(&mut kernel, 1, 20_000, broken).expect_err("a disagreement");
    let count = |word: &str| found.matches(word).count();
    assert_eq!((count("  network "), count("protection P"), count("remoteport=")), (1, 1, 1), "{found}");
    assert!(found.contains("userspace NoItem (would be None), kernel (Protect"), "{found}");
}
