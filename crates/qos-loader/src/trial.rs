//! The trial of a component: a child process under a filter of system calls runs it over random metadata.
//!
//! The parent is `cipher-loader`'s, and so is the child's confinement: constructors run under the filter, and afterwards
//! nothing can be opened, sent or started. Here is what the child does with the component.

use cipher_loader::shared::{MappedLibrary, SharedLibrary};
use cipher_loader::{Trial, TrialError};
use qos::behaviour::foreign::{Action, Answer, Call, Instance, MOST_PACKETS, PacketView};
use serde::{Deserialize, Serialize};

use crate::abi::{SYMBOL, describe};
use crate::attached::Attached;

/// The hidden command of a program whose `main` calls [`child_main`].
pub const COMMAND: &str = "component-trial";
/// Seconds of processor time that a trial may take.
const SECONDS: u64 = 5;
/// Packets of a trial at each loading.
const PACKETS_AT_LOADING: u32 = 1_000;
/// The seed of the random metadata.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// What a trial is made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The parameters that an instance is made with.
    pub parameters: String,
    /// The number of ports that a verdict may name.
    pub ports: u32,
    /// The nanoseconds of a processor that a call may take for each of its packets.
    pub budget_ns: u64,
    /// The packets that the component judges in its trial.
    pub packets: u32,
    /// Whether it is enough that the component refuses the parameters.
    pub may_refuse: bool,
}

impl Order {
    /// The trial before a library is mapped: its parameters are not known yet.
    pub fn at_loading() -> Order {
        Order {
            parameters: String::new(),
            ports: 0,
            // Time is judged while packets wait; a busy start says nothing of it.
            budget_ns: u64::MAX / 1024,
            packets: PACKETS_AT_LOADING,
            may_refuse: true,
        }
    }
}

/// What a component did in its trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// The name that the component gives itself.
    pub name: String,
    /// The version that the component gives itself.
    pub version: String,
    /// The reason why the component refused the parameters, where the order lets it refuse them.
    pub refused: Option<String>,
    /// The packets that the component judged.
    pub packets: u64,
    /// The packets that the component let pass.
    pub passed: u64,
    /// The packets that the component marked as having met congestion.
    pub marked: u64,
    /// The packets that the component ended.
    pub dropped: u64,
    /// The packets that the component sent to a port.
    pub moved: u64,
    /// Nanoseconds of a call for each of its packets, in the mean.
    pub mean_ns: u64,
    /// Nanoseconds of the longest call, by the clock.
    pub longest_ns: u64,
}

/// Try a library that was examined.
///
/// # Errors
/// [`TrialError`]: what the component did wrong, and at which stage of the trial.
pub fn run(trial: &Trial, library: &SharedLibrary, order: &Order) -> Result<Tried, TrialError> {
    let order = serde_json::to_string(order).map_err(|error| TrialError::Start(error.to_string()))?;
    let told = cipher_loader::trial::run_library(trial, library, &order, SECONDS)?;
    serde_json::from_str(&told).map_err(|_| TrialError::Answer("the end".to_owned()))
}

/// The child's side of [`run`]: the hidden command [`COMMAND`] calls it first thing. It ends the process.
pub fn child_main() -> ! {
    cipher_loader::trial::library_child_main(SYMBOL, |library, order, stage| {
        let order = serde_json::from_str(order).map_err(|error| ("order", error.to_string()))?;
        let tried = conduct(library, &order, stage)?;
        serde_json::to_string(&tried).map_err(|error| ("answer", error.to_string()))
    })
}

type Wrong = (&'static str, String);

fn conduct(library: &MappedLibrary, order: &Order, stage: &dyn Fn(&str)) -> Result<Tried, Wrong> {
    stage("description");
    let description = describe(library).map_err(|error| ("abi", error.to_string()))?;
    let mut tried =
        Tried { name: description.name.clone(), version: description.version.clone(), ..Tried::default() };
    stage("create");
    let make = |secret| {
        Attached::new(description.functions, &order.parameters, order.ports, secret, order.budget_ns)
    };
    let mut first = match make(SEED) {
        Ok(first) => first,
        Err(why) if order.may_refuse => {
            tried.refused = Some(why);
            return Ok(tried);
        }
        Err(why) => return Err(("create", format!("it refuses the parameters: {why}"))),
    };
    // The other direction has an instance of its own.
    let second = make(!SEED).map_err(|why| ("create", format!("it makes no second instance: {why}")))?;
    stage("packets");
    let mut random = Random(SEED);
    let mut now_ns = 1_000_000_000;
    let mut spent_ns = 0_u128;
    while tried.packets < u64::from(order.packets) {
        // Mostly single packets, as in a chain, and all lengths of arrays.
        let count = if random.below(4) == 0 { 1 + random.below(MOST_PACKETS as u64) as usize } else { 1 };
        now_ns += random.below(200_000);
        let seen: Vec<PacketView> = (0..count).map(|_| packet(&mut random, now_ns)).collect();
        let call = Call { now_ns, random: random.next() };
        let (same_seen, same_call) = (seen.clone(), call);
        // One verdict more stands behind the end, and must stay as it is.
        let mut answers = vec![Answer::NONE; count + 1];
        let start = std::time::Instant::now();
        let judged = first.judge(&call, &seen, answers.get_mut(..count).unwrap_or_default());
        spent_ns += start.elapsed().as_nanos();
        judged.map_err(|why| ("calls", why.to_string()))?;
        if seen != same_seen || call != same_call {
            return Err(("memory", "it changed what it was shown".to_owned()));
        }
        if answers.last() != Some(&Answer::NONE) {
            return Err(("memory", "it wrote behind the last verdict".to_owned()));
        }
        for answer in answers.iter().take(count) {
            let judged = answer.judged(order.ports as usize);
            let judged = judged.map_err(|why| ("verdicts", format!("one is out of range: {why}")))?;
            tried.packets += 1;
            match judged.action {
                Action::Pass => tried.passed += 1,
                Action::Mark => tried.marked += 1,
                Action::Drop(_) => tried.dropped += 1,
                Action::To(_) => tried.moved += 1,
            }
        }
    }
    tried.longest_ns = first.times().longest_ns;
    tried.mean_ns = u64::try_from(spent_ns / u128::from(tried.packets.max(1))).unwrap_or(u64::MAX);
    stage("destroy");
    drop(first);
    drop(second);
    Ok(tried)
}

/// Metadata of a packet. Packets are of few users, so that users meet their limits, and some have the ends of each range.
fn packet(random: &mut Random, now_ns: u64) -> PacketView {
    let is_edge = random.below(32) == 0;
    let any = |random: &mut Random| if is_edge { u32::MAX } else { random.next() as u32 };
    PacketView {
        arrived_ns: now_ns.saturating_sub(random.below(1_000_000)),
        cost_ns: if is_edge { u64::MAX } else { random.below(100_000) },
        packets: if is_edge { u32::MAX } else { 1 + random.below(44) as u32 },
        octets: if is_edge { u32::MAX } else { 28 + random.below(65_507) as u32 },
        association: any(random),
        spi: any(random),
        mark: any(random),
        user: if is_edge { u32::MAX } else { random.below(16) as u32 },
        flow: any(random),
        key: any(random),
        app: any(random) as u16,
        suite: any(random) as u16,
        peer: any(random) as u16,
        units: any(random) as u16,
        class: random.below(64) as u8,
        colour: random.below(3) as u8,
        dscp_outer: random.below(64) as u8,
        dscp_inner: random.below(64) as u8,
        ecn: random.below(4) as u8,
        header: random.below(8) as u8,
        direction: random.below(2) as u8,
        index: random.below(4) as u8,
    }
}

/// Numbers of xorshift64* (Vigna 2016), the same at each trial.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}
