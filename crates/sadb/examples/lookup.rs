//! What a policy lookup costs: a hit in the flow cache, and a miss that asks each classifier.
//!
//! `cargo run --release -p sadb --example lookup [LOAD]`. The load average is what the caller says it is, or unknown.
//! Times of one run on a machine that others use too: for comparison with each other, not with other machines.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "an example measures and prints; the library does neither"
)]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use sadb::rules::{Action, Classifier, Direction, Linear, Place, Radix, RuleKey, Slot, TupleSpace};
use sadb::selector::{Condition, PacketKey, TrafficSelector, field};
use sadb::{FlowCache, FlowKey, Rule, RuleTable};
use wire::{AppId, Flow, Prefix};

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
}

/// A random rule: one in eight of IPv6, prefixes of every length, ranges of addresses and ports, the rest now and then.
fn selector(dice: &mut Dice) -> TrafficSelector {
    let v6 = dice.below(8) == 0;
    let mut made = TrafficSelector::ANY;
    // Not both sides open, or the first such rule would end most lookups.
    let open = dice.below(20);
    for (side, field) in [&field::LOCAL, &field::REMOTE].into_iter().enumerate() {
        let addr = if v6 { dice.v6() } else { dice.v4() };
        let len = if v6 { 32 + dice.below(97) } else { 8 + dice.below(25) };
        let prefix = Prefix::new(addr, len as u8).unwrap();
        let condition = match dice.below(10) {
            _ if open == side as u64 => Condition::Any,
            0 => Condition::range(prefix.first(), prefix.first() + u128::from(dice.below(200))),
            _ => Condition::range(prefix.first(), prefix.last()),
        };
        made = made.with(field, condition).unwrap();
    }
    if dice.below(4) > 0 {
        made = made.with(&field::PROTOCOL, Condition::one([6u8, 17][dice.below(2) as usize])).unwrap();
        for field in [&field::LOCAL_PORT, &field::REMOTE_PORT] {
            let port = dice.below(60_000) as u16;
            made = match dice.below(4) {
                0 => made.with(field, Condition::one(port)).unwrap(),
                1 => made.with(field, Condition::range(port, port + dice.below(5000) as u16)).unwrap(),
                _ => made,
            };
        }
    }
    if dice.below(5) == 0 {
        made = made.with(&field::APP, Condition::one(1 + dice.below(50) as u16)).unwrap();
    }
    for (field, most) in
        [(&field::UID, 2000), (&field::DSCP, 64), (&field::MARK, 256), (&field::INTERFACE, 8)]
    {
        if dice.below(20) == 0 {
            made = made.with(field, Condition::one(dice.below(most))).unwrap();
        }
    }
    made
}

/// A packet: of any addresses, or (`near`) of addresses that a rule names.
fn packet(dice: &mut Dice, near: Option<&TrafficSelector>) -> PacketKey {
    let mut key = PacketKey::new(dice.v4(), dice.v4());
    if let Some(selector) = near {
        for field in [&field::LOCAL, &field::REMOTE] {
            if let Condition::In(ranges) = selector.condition(field) {
                let (first, last) = ranges.list()[0];
                let offset = u128::from(dice.roll()) << 64 | u128::from(dice.roll());
                key = key.with(field, first + offset.checked_rem(last - first + 1).unwrap_or(0));
            }
        }
    }
    key.protocol([6, 17][dice.below(2) as usize])
        .ports(dice.roll() as u16, dice.roll() as u16)
        .app(AppId(dice.below(50) as u16))
        .uid(1000)
        .interface(2)
}

/// Nanoseconds for one of `packets`, median of nine rounds.
fn time<T>(packets: &[PacketKey], mut ask: impl FnMut(&PacketKey) -> T) -> f64 {
    let rounds = (2_000_000 / packets.len()).clamp(1, 40);
    let mut figures: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..rounds {
                for packet in packets {
                    black_box(ask(black_box(packet)));
                }
            }
            start.elapsed().as_nanos() as f64 / (rounds * packets.len()) as f64
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    figures[4]
}

fn measure<C: Classifier>(
    name: &str,
    selectors: &[TrafficSelector],
    packets: [&[PacketKey]; 2],
) -> Vec<Option<Slot>> {
    let mut table = RuleTable::<C>::new(0x5eed);
    let start = Instant::now();
    for (index, selector) in selectors.iter().enumerate() {
        let rule = Rule::new(RuleKey(index as u32), Direction::Out, selector.clone(), Action::Discard);
        table.add(Place::Last, rule).unwrap();
    }
    let built = start.elapsed();
    let snapshot = table.snapshot();
    // A change while a reader holds the snapshot (which is copied), and one while none does.
    let mut change = |held: bool| {
        let extra = Rule::new(RuleKey(u32::MAX), Direction::Out, TrafficSelector::ANY, Action::Discard);
        let reader = held.then(|| table.snapshot());
        let start = Instant::now();
        table.add(Place::At(selectors.len() / 2), extra).unwrap();
        let added = start.elapsed().as_nanos() as f64 / 1e3;
        drop(reader);
        table.remove(RuleKey(u32::MAX)).unwrap();
        added
    };
    let (copied, in_place) = (change(true), change(false));
    let [far, near] = packets.map(|packets| time(packets, |packet| snapshot.find(Direction::Out, packet)));
    println!(
        "{name:<12} {:>6} rules: miss {far:8.1} ns (random packets) {near:8.1} ns (packets near rules); built in {:.2} ms; a rule \
         added in {copied:.1} us while read, {in_place:.1} us else",
        selectors.len(),
        built.as_secs_f64() * 1e3,
    );
    packets.concat().iter().map(|packet| snapshot.find(Direction::Out, packet)).collect()
}

fn hits() {
    let mut dice = Dice(7);
    for flows in [1usize, 64, 1024, 4096] {
        let packets: Vec<_> = (0..flows).map(|_| packet(&mut dice, None)).collect();
        let mut cache = FlowCache::<Slot, PacketKey>::new(4096, 0x5eed);
        packets.iter().enumerate().for_each(|(n, packet)| cache.put(1, packet, Slot(n as u32)));
        let ns = time(&packets, |packet| cache.get(1, packet));
        let kept = packets.iter().filter(|packet| cache.get(1, packet).is_some()).count();
        println!("cache, whole packet key {flows:>5} flows: {ns:5.1} ns a lookup, {kept} of them hits");
    }
    for count in [1usize, 64, 1024, 4096] {
        let flows: Vec<_> = (0..count)
            .map(|_| Flow {
                local: dice.v4(),
                remote: dice.v4(),
                local_port: dice.roll() as u16,
                remote_port: 443,
                protocol: 6,
            })
            .collect();
        let keys: Vec<_> = flows.iter().map(|flow| FlowKey::new(AppId(1), flow, 0)).collect();
        let mut cache = FlowCache::new(4096, 0x5eed);
        keys.iter().enumerate().for_each(|(n, key)| cache.put(1, key, n as u32));
        let rounds = (2_000_000 / count).min(40_000);
        let mut figures: Vec<f64> = (0..9)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..rounds {
                    for flow in &flows {
                        black_box(cache.get(1, &FlowKey::new(AppId(1), black_box(flow), 0)));
                    }
                }
                start.elapsed().as_nanos() as f64 / (rounds * count) as f64
            })
            .collect();
        figures.sort_by(f64::total_cmp);
        println!("cache, flow (key made anew) {count:>5} flows: {:5.1} ns a lookup", figures[4]);
    }
}

fn main() {
    let load = std::env::args().nth(1).unwrap_or_else(|| "unknown".to_owned());
    println!("load average: {load}");
    hits();
    for count in [10, 100, 1000, 10_000] {
        let mut dice = Dice(count as u64);
        let selectors: Vec<_> = (0..count).map(|_| selector(&mut dice)).collect();
        let far: Vec<_> = (0..2000).map(|_| packet(&mut dice, None)).collect();
        let near: Vec<_> = (0..2000)
            .map(|_| {
                let rule = dice.below(count as u64) as usize;
                packet(&mut dice, Some(&selectors[rule]))
            })
            .collect();
        let packets = [far.as_slice(), near.as_slice()];
        let radix = measure::<Radix>("radix", &selectors, packets);
        let tuples = measure::<TupleSpace>("tuple space", &selectors, packets);
        let [far, near] = packets.map(|packets| &packets[..100]);
        let linear = measure::<Linear>("linear", &selectors, [far, near]);
        assert!(radix == tuples, "the structures disagree");
        assert!(linear[..100] == radix[..100] && linear[100..] == radix[2000..2100], "linear disagrees");
        let (far, near) = radix.split_at(radix.len() / 2);
        let matched = |part: &[Option<Slot>]| part.iter().filter(|slot| slot.is_some()).count();
        println!("             a rule matches {} and {} of 2000 packets", matched(far), matched(near));
    }
}
