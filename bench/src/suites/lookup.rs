//! `engine.lookup.*`: what it takes to find a packet's policy. `hit.FLOWS.ns`: in the flow cache, keys made anew as the data path does, flows
//! in turn. `miss.RULES.{random,near}.ns`: in an SPD of so many random rules (prefixes of every length, ranges of addresses and ports,
//! applications, users, marks, one in eight of IPv6), by packets of any addresses or of addresses that rules name. The data path uses
//! the radix tree; beside it, in turns, tuple-space search and (fewer packets, it takes long) the linear scan that both must agree with.

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::interleave::{median, timed};
use anyhow::ensure;
use sadb::rules::{Action, Classifier, Direction, Linear, Place, Radix, RuleKey, Slot, Snapshot, TupleSpace};
use sadb::selector::{Condition, PacketKey, TrafficSelector, field};
use sadb::{FlowCache, FlowKey, Rule, RuleTable};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{AppId, Flow, Prefix};

const ROUNDS: usize = 9;
/// Number of look-ups in a round.
const LOOKUPS: usize = 400_000;
/// Flows a cache is asked about; it has room for [`SETS`] times four.
const FLOWS: [u32; 3] = [1, 64, 4096];
const SETS: usize = 4096;
/// Rules of each SPD.
const RULES: [u32; 4] = [10, 100, 1000, 10_000];
/// Packets that each SPD is asked about, and those that the linear scan is.
const PACKETS: usize = 2000;
const LINEAR: usize = 50;
/// Nanoseconds of a hit, and of a miss with the most rules.
const MOST_HIT: f64 = 20.0;
const MOST_MISS: f64 = 1000.0;
const SEED: u64 = 0x5eed;

/// Measure the figures `engine.lookup.*` that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = FigureFilter { filter, report };
    for flows in FLOWS {
        let name = format!("engine.lookup.hit.{flows}.ns");
        if figures.wants(&name) {
            figures.push(hits(name, flows)?);
        }
    }
    for rules in RULES {
        let names = ["random", "near"].map(|which| format!("engine.lookup.miss.{rules}.{which}.ns"));
        if names.iter().any(|name| figures.wants(name)) {
            misses(&names, rules)?.into_iter().for_each(|figure| figures.push(figure));
        }
    }
    Ok(())
}

fn hits(name: String, count: u32) -> anyhow::Result<Figure> {
    let mut dice = Dice(7);
    let mut flow = || Flow {
        opaque: false,
        local: dice.v4(),
        remote: dice.v4(),
        local_port: dice.roll() as u16,
        remote_port: 443,
        protocol: 6,
    };
    let flows: Vec<_> = (0..count).map(|_| flow()).collect();
    let key = |flow: &Flow| FlowKey::new(AppId(1), black_box(flow), 0);
    let mut cache = FlowCache::new(SETS, SEED);
    flows.iter().zip(0..).for_each(|(flow, n)| cache.put(1, &key(flow), n));
    let kept = flows.iter().zip(0..).filter(|(flow, n)| cache.get(1, &key(flow)) == Some(*n)).count();
    ensure!(kept * 100 >= flows.len() * 99, "the cache forgot {} of {count} flows", flows.len() - kept);
    let rounds: Vec<_> = (0..ROUNDS).map(|_| round(&flows, |flow| cache.get(1, &key(flow)))).collect();
    let anchor = format!("{count} flow(s) in turn, {kept} of them found; room for {}", 4 * SETS);
    Ok(Figure::new(name, "ns", &rounds, anchor, Target::AtMost(MOST_HIT)))
}

fn misses(names: &[String; 2], count: u32) -> anyhow::Result<[Figure; 2]> {
    let mut dice = Dice(u64::from(count));
    let selectors: Vec<_> = (0..count).map(|_| dice.selector()).collect();
    let random: Vec<_> = (0..PACKETS).map(|_| dice.packet(None)).collect();
    let near: Vec<_> = (0..PACKETS)
        .map(|_| {
            let rule = dice.below(u64::from(count)) as usize;
            dice.packet(Some(&selectors[rule]))
        })
        .collect();
    let (radix, tuples, linear) =
        (table::<Radix>(&selectors)?, table::<TupleSpace>(&selectors)?, table::<Linear>(&selectors)?);
    let figure = |name: &String, packets: &[PacketKey]| -> anyhow::Result<Figure> {
        let few = &packets[..LINEAR];
        let found = answers(&radix, packets);
        ensure!(found == answers(&tuples, packets), "{count} rules: radix tree and tuple space disagree");
        ensure!(found[..LINEAR] == answers(&linear, few), "{count} rules: the linear scan disagrees");
        let mut rounds: [Vec<f64>; 3] = Default::default();
        for _ in 0..ROUNDS {
            rounds[0].push(round(packets, |packet| radix.find(Direction::Out, packet)));
            rounds[1].push(round(packets, |packet| tuples.find(Direction::Out, packet)));
            rounds[2].push(once(few, |packet| linear.find(Direction::Out, packet)));
        }
        let matched = found.iter().flatten().count();
        let [radix, tuples, linear] = &mut rounds;
        let (tuples, linear) = (median(tuples), median(linear));
        let anchor = format!(
            "{matched} of {PACKETS} packets match a rule; tuple space {tuples:.0} ns, linear scan {linear:.0} ns"
        );
        let target = if count == RULES[3] { Target::AtMost(MOST_MISS) } else { Target::Recorded };
        Ok(Figure::new(name, "ns", radix, anchor, target))
    };
    Ok([figure(&names[0], &random)?, figure(&names[1], &near)?])
}

fn table<C: Classifier>(selectors: &[TrafficSelector]) -> anyhow::Result<std::sync::Arc<Snapshot<C>>> {
    let mut table = RuleTable::<C>::new(SEED);
    for (selector, key) in selectors.iter().zip(0..) {
        let rule = Rule::new(RuleKey(key), Direction::Out, selector.clone(), Action::Discard);
        table.add(Place::Last, rule)?;
    }
    Ok(table.snapshot())
}

fn answers<C: Classifier>(snapshot: &Snapshot<C>, packets: &[PacketKey]) -> Vec<Option<Slot>> {
    packets.iter().map(|packet| snapshot.find(Direction::Out, packet)).collect()
}

/// Nanoseconds a look-up, over and over.
fn round<K, T>(asked: &[K], mut ask: impl FnMut(&K) -> T) -> f64 {
    let turns = LOOKUPS.div_ceil(asked.len());
    let work = || (0..turns).for_each(|_| asked.iter().for_each(|one| drop(black_box(ask(black_box(one))))));
    timed(turns * asked.len(), work).1.per_item()
}

/// Nanoseconds a look-up, each asked once.
fn once<K, T>(asked: &[K], mut ask: impl FnMut(&K) -> T) -> f64 {
    let work = || asked.iter().for_each(|one| drop(black_box(ask(black_box(one)))));
    timed(asked.len(), work).1.per_item()
}

/// Numbers that look random and are the same in every run (Vigna's splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    fn v4(&mut self) -> IpAddr {
        Ipv4Addr::from(self.roll() as u32).into()
    }

    fn v6(&mut self) -> IpAddr {
        let low = u128::from(self.roll()) << 32;
        Ipv6Addr::from(0x2001_0db8 << 96 | low).into()
    }

    fn selector(&mut self) -> TrafficSelector {
        let v6 = self.below(8) == 0;
        let mut made = TrafficSelector::ANY;
        let mut set = |field, condition| {
            made = made.clone().with(field, condition).expect("a condition that the field can hold");
        };
        // Not both sides open, or the first such rule would end most look-ups.
        let open = self.below(20);
        for (field, side) in [&field::LOCAL, &field::REMOTE].into_iter().zip(0..) {
            let addr = if v6 { self.v6() } else { self.v4() };
            let len = if v6 { 32 + self.below(97) } else { 8 + self.below(25) };
            let prefix = Prefix::new(addr, len as u8).expect("a length of the family");
            match self.below(10) {
                _ if open == side => {}
                0 => {
                    set(field, Condition::range(prefix.first(), prefix.first() + u128::from(self.below(200))))
                }
                _ => set(field, Condition::range(prefix.first(), prefix.last())),
            }
        }
        if self.below(4) > 0 {
            set(&field::PROTOCOL, Condition::one([6u8, 17][self.below(2) as usize]));
            for field in [&field::LOCAL_PORT, &field::REMOTE_PORT] {
                let port = self.below(60_000) as u16;
                match self.below(4) {
                    0 => set(field, Condition::one(port)),
                    1 => set(field, Condition::range(port, port + self.below(5000) as u16)),
                    _ => {}
                }
            }
        }
        if self.below(5) == 0 {
            set(&field::APP, Condition::one(1 + self.below(50) as u16));
        }
        for (field, most) in
            [(&field::UID, 2000), (&field::DSCP, 64), (&field::MARK, 256), (&field::INTERFACE, 8)]
        {
            if self.below(20) == 0 {
                set(field, Condition::one(self.below(most)));
            }
        }
        made
    }

    /// A packet of any addresses, or of addresses that the selector names.
    fn packet(&mut self, near: Option<&TrafficSelector>) -> PacketKey {
        let mut key = PacketKey::new(self.v4(), self.v4());
        for field in [&field::LOCAL, &field::REMOTE] {
            if let Some(Condition::In(ranges)) = near.map(|near| near.condition(field)) {
                let (first, last) = ranges.list()[0];
                let offset = u128::from(self.roll()) << 64 | u128::from(self.roll());
                key = key.with(field, first + offset.checked_rem(last - first + 1).unwrap_or(0));
            }
        }
        key.protocol([6, 17][self.below(2) as usize])
            .ports(self.roll() as u16, self.roll() as u16)
            .app(AppId(self.below(50) as u16))
            .uid(1000)
            .interface(2)
    }
}
